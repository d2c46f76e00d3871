"""Human gates and interviewers (sections 4.6 and 6)."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from attractor import (
    Answer,
    AnswerValue,
    AutoApproveInterviewer,
    CallbackInterviewer,
    ConsoleInterviewer,
    Interviewer,
    Option,
    PipelineRunner,
    Question,
    QuestionType,
    QueueInterviewer,
    RecordingInterviewer,
    RunResult,
    ValidationError,
)
from attractor.event_log import read_events
from attractor.events import InterviewCompleted, InterviewStarted, InterviewTimeout
from attractor.interviewers import ask_multiple
from attractor.interviewers.matching import find_option, make_options, parse_accelerator_key
from hypothesis import given
from hypothesis import strategies as st

REVIEW = """digraph Review { start [shape=Mdiamond]; exit [shape=Msquare]
    gate [shape=hexagon, label="Review Changes"%s]; ship_it [prompt=S]; fixes [prompt=F]
    start -> gate; gate -> ship_it [label="[A] Approve"]; gate -> fixes [label="[F] Fix"]
    ship_it -> exit; fixes -> gate }"""


async def review(folder: Path, interviewer: Interviewer, attrs: str = "") -> RunResult:
    return await PipelineRunner(interviewer=interviewer, logs_root=folder / "run").run(REVIEW % attrs)


async def test_wait_human_presents_choices_and_routes_on_selection(tmp_path: Path) -> None:
    asked: list[Question] = []
    answers = iter(["F", "approve"])

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(value=next(answers))

    result = await review(tmp_path, CallbackInterviewer(answer))
    assert result.completed_nodes == ("start", "gate", "fixes", "gate", "ship_it", "exit")
    assert asked[0].options == (Option("A", "[A] Approve"), Option("F", "[F] Fix"))
    assert (asked[0].text, asked[0].type, asked[0].stage) == ("Review Changes", QuestionType.MULTIPLE_CHOICE, "gate")
    assert result.context["human.gate.selected"] == "A"
    assert result.context["human.gate.label"] == "[A] Approve"
    assert result.node_outcomes["gate"].preferred_label == "[A] Approve"
    assert result.node_outcomes["gate"].suggested_next_ids == ("ship_it",)
    events = list(read_events(tmp_path / "run"))
    assert [event.stage for event in events if isinstance(event, InterviewStarted)] == ["gate", "gate"]
    assert [event.answer for event in events if isinstance(event, InterviewCompleted)] == ["[F] Fix", "[A] Approve"]


async def test_unmatched_answer_is_asked_again_not_taken_for_the_first_choice(tmp_path: Path) -> None:
    recorder = RecordingInterviewer(QueueInterviewer([Answer(value="maybe"), Answer(text="fix"), Answer(value="a")]))
    result = await review(tmp_path, recorder)
    assert result.completed_nodes == ("start", "gate", "fixes", "gate", "ship_it", "exit")
    assert [answer.value or answer.text for _, answer in recorder.recordings] == ["maybe", "fix", "a"]


async def test_interviewer_that_never_makes_sense_fails_the_gate(tmp_path: Path) -> None:
    result = await review(tmp_path, CallbackInterviewer(lambda question: Answer(value="what?")))
    assert (result.status, result.completed_nodes) == ("fail", ("start", "gate"))
    assert "was one of its choices" in result.failure_reason


async def test_skipped_interaction_fails_the_gate(tmp_path: Path) -> None:
    result = await review(tmp_path, QueueInterviewer())
    assert result.failure_reason == "human gate 'gate': human skipped interaction"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("choice", ["ship_it", "A", "approve"])
async def test_timeout_takes_the_default_choice(tmp_path: Path, choice: str) -> None:
    class Absent:
        async def ask(self, question: Question) -> Answer:
            assert question.default is not None
            await anyio.sleep_forever()
            raise AssertionError

    attrs = f', timeout="1h", human.timeout="20ms", human.default_choice="{choice}"'
    result = await review(tmp_path, Absent(), attrs)
    assert result.completed_nodes == ("start", "gate", "ship_it", "exit")
    assert any(isinstance(event, InterviewTimeout) for event in read_events(tmp_path / "run"))


async def test_timeout_without_default_asks_for_a_retry(tmp_path: Path) -> None:
    result = await review(tmp_path, CallbackInterviewer(lambda question: Answer(value=AnswerValue.TIMEOUT)))
    assert "max retries exceeded" in result.failure_reason
    assert "timeout, no default" in result.failure_reason


async def test_edges_with_conditions_are_no_choices(tmp_path: Path) -> None:
    text = (REVIEW % "").replace("start -> gate", 'start -> gate; gate -> fixes [condition="outcome=fail"]')
    recorder = RecordingInterviewer(AutoApproveInterviewer())
    result = await PipelineRunner(interviewer=recorder, logs_root=tmp_path / "run").run(text)
    assert [option.key for option in recorder.recordings[0][0].options] == ["A", "F"]
    assert result.status == "success"


async def test_gate_without_an_interviewer_is_an_error_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="needs a runner with an interviewer"):
        await PipelineRunner(logs_root=tmp_path / "run").run(REVIEW % "")


@pytest.mark.parametrize(
    ("label", "key"),
    [
        ("[Y] Yes, deploy", "Y"),
        ("Y) Yes, deploy", "Y"),
        ("Y - Yes, deploy", "Y"),
        ("Yes, deploy", "Y"),
        ("[ok] go", "ok"),
    ],
)
def test_accelerator_keys(label: str, key: str) -> None:
    assert parse_accelerator_key(label) == key


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12))
def test_every_choice_can_be_told_apart(labels: list[str]) -> None:
    options = make_options(labels)
    assert [option.label for option in options] == labels
    assert len({option.key.lower() for option in options}) == len(labels)
    for option in options:
        assert find_option(Answer(value=option.key), options) == option
        assert find_option(Answer(selected_option=option), options) == option


def test_keys_that_are_written_down_come_first() -> None:
    assert [option.key for option in make_options(["Accept", "[A] Again", "Abort"])] == ["C", "A", "B"]


async def test_auto_approve_says_yes_and_takes_the_first_option() -> None:
    auto = AutoApproveInterviewer()
    options = (Option("X", "One"), Option("Y", "Two"))
    for kind in (QuestionType.YES_NO, QuestionType.CONFIRMATION):
        assert (await auto.ask(Question(text="?", type=kind))).value == AnswerValue.YES
    assert (await auto.ask(Question(text="?", options=options))).selected_option == options[0]
    assert (await auto.ask(Question(text="?", type=QuestionType.FREEFORM))).text == "auto-approved"


async def test_queue_answers_in_order_then_skips() -> None:
    queue = QueueInterviewer([Answer(value="1"), Answer(value="2")])
    answers = await ask_multiple(queue, [Question(text=text) for text in "abc"])
    assert [answer.value for answer in answers] == ["1", "2", AnswerValue.SKIPPED]


async def test_callback_may_be_async() -> None:
    async def answer(question: Question) -> Answer:
        return Answer(text=question.text)

    assert (await CallbackInterviewer(answer).ask(Question(text="hi"))).text == "hi"


@pytest.fixture(params=["pipe", "file", "text"])
def console(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[ConsoleInterviewer, io.StringIO]]:
    """A console with typed lines: from a pipe, a file, or a stream that is no file at all."""

    def make(typed: str) -> tuple[ConsoleInterviewer, io.StringIO]:
        output = io.StringIO()
        if request.param == "text":
            return ConsoleInterviewer(io.StringIO(typed), output), output
        if request.param == "file":
            (tmp_path / "typed").write_text(typed)
            stream = (tmp_path / "typed").open()
        else:
            reading, writing = os.pipe()
            os.write(writing, typed.encode())
            os.close(writing)
            stream = os.fdopen(reading)
        request.addfinalizer(stream.close)
        return ConsoleInterviewer(stream, output), output

    return make


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_console_prompts_and_reads_input(
    console: Callable[[str], tuple[ConsoleInterviewer, io.StringIO]],
) -> None:
    interviewer, output = console("what\nfix\ny\nNO\nfree text\n\n")
    options = make_options(["[A] Approve", "[F] Fix"])
    chosen = await interviewer.ask(Question(text="Which?", options=options))
    assert chosen.selected_option == options[1]
    assert output.getvalue() == (
        "[?] Which?\n  [A] Approve\n  [F] Fix\nSelect: 'what' is no answer here; it takes A or F.\nSelect: "
    )
    assert (await interviewer.ask(Question(text="?", type=QuestionType.YES_NO))).value == AnswerValue.YES
    assert (await interviewer.ask(Question(text="?", type=QuestionType.CONFIRMATION))).value == AnswerValue.NO
    assert (await interviewer.ask(Question(text="?", type=QuestionType.FREEFORM))).text == "free text"
    default = Answer(value="d")
    assert await interviewer.ask(Question(text="?", type=QuestionType.FREEFORM, default=default)) == default
    assert (await interviewer.ask(Question(text="?", options=options))).value == AnswerValue.SKIPPED


async def test_console_that_is_cancelled_loses_nothing_typed() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream:
        interviewer = ConsoleInterviewer(stream, io.StringIO())
        os.write(writing, b"half ")
        with anyio.move_on_after(0.05):
            await interviewer.ask(Question(text="?", type=QuestionType.FREEFORM))
        os.write(writing, b"a line\n")
        assert (await interviewer.ask(Question(text="?", type=QuestionType.FREEFORM))).text == "half a line"
        os.close(writing)


async def test_a_process_without_standard_input_skips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    result = await review(tmp_path, ConsoleInterviewer(output=io.StringIO()))
    assert result.failure_reason == "human gate 'gate': human skipped interaction"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_nothing_to_read_from_skips(tmp_path: Path) -> None:
    """As under cron: an event loop can't watch /dev/null."""
    with os.fdopen(os.open(os.devnull, os.O_RDONLY)) as nothing:
        result = await review(tmp_path, ConsoleInterviewer(nothing, io.StringIO()))
    assert result.failure_reason == "human gate 'gate': human skipped interaction"


async def test_an_interviewer_that_returns_no_answer_is_named(tmp_path: Path) -> None:
    result = await review(tmp_path, CallbackInterviewer(lambda question: None))  # type: ignore[arg-type, return-value]
    assert result.failure_reason.endswith("the interviewer returned NoneType instead of an Answer")


@pytest.mark.parametrize("stream", ["closed", "without a reader"])
async def test_a_question_that_nobody_can_see_may_be_answered(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as raw:
        output = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr("sys.stderr", None if stream == "closed" else output)
        result = await review(tmp_path, ConsoleInterviewer(io.StringIO("A\n")))
    assert result.context["human.gate.selected"] == "A"
