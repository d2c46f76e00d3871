"""What every interviewer holds to (sections 6.1 to 6.4)."""

import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

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
)
from attractor.errors import QuestionError
from attractor.interviewers import DeferringInterviewer, ReplayInterviewer, ask_multiple
from attractor.interviewers.matching import find_option
from attractor.testing import ScriptedHandler

OPTIONS = (Option("A", "[A] Approve"), Option("F", "[F] Fix"))
QUESTIONS = {
    "choice": Question(text="Which?", options=OPTIONS, stage="gate"),
    "yes_no": Question(text="Really?", type=QuestionType.YES_NO, stage="gate"),
    "confirmation": Question(text="Sure?", type=QuestionType.CONFIRMATION, stage="gate"),
    "freeform": Question(text="Say.", type=QuestionType.FREEFORM, stage="gate"),
}
ANSWERS = {
    "choice": Answer(value="A", selected_option=OPTIONS[0]),
    "yes_no": Answer(value=AnswerValue.YES),
    "confirmation": Answer(value=AnswerValue.YES),
    "freeform": Answer(value="words", text="words"),
}
TYPED = {"choice": "a\n", "yes_no": "y\n", "confirmation": "yes\n", "freeform": "words\n"}


async def _answer_later(question: Question) -> Answer:
    await anyio.lowlevel.checkpoint()
    return _answer(question)


def _answer(question: Question) -> Answer:
    return next(ANSWERS[kind] for kind, asked in QUESTIONS.items() if asked == question)


def _pipe(text: str, opened: ExitStack) -> TextIO:
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    opened.callback(os.close, writing)
    return opened.enter_context(os.fdopen(reading, "r"))


def _recorded() -> ReplayInterviewer:
    return ReplayInterviewer((QUESTIONS[kind], ANSWERS[kind]) for kind in QUESTIONS)


Make = Callable[[list[str], ExitStack], Any]
IMPLEMENTATIONS: dict[str, Make] = {
    "auto": lambda kinds, opened: AutoApproveInterviewer(),
    "callback": lambda kinds, opened: CallbackInterviewer(_answer),
    "async_callback": lambda kinds, opened: CallbackInterviewer(_answer_later),
    "queue": lambda kinds, opened: QueueInterviewer(ANSWERS[kind] for kind in kinds),
    "recording": lambda kinds, opened: RecordingInterviewer(CallbackInterviewer(_answer)),
    "replay": lambda kinds, opened: _recorded(),
    "console_pipe": lambda kinds, opened: ConsoleInterviewer(
        _pipe("".join(TYPED[kind] for kind in kinds), opened), io.StringIO()
    ),
    "console_text": lambda kinds, opened: ConsoleInterviewer(
        io.StringIO("".join(TYPED[kind] for kind in kinds)), io.StringIO()
    ),
}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", list(QUESTIONS))
@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
async def test_an_answer_fits_its_question(name: str, kind: str, opened: ExitStack) -> None:
    interviewer: Interviewer = IMPLEMENTATIONS[name]([kind], opened)
    answer = await interviewer.ask(QUESTIONS[kind])
    assert isinstance(answer, Answer)
    match QUESTIONS[kind].type:
        case QuestionType.MULTIPLE_CHOICE:
            assert find_option(answer, OPTIONS) == OPTIONS[0]
            assert answer.selected_option == OPTIONS[0]
        case QuestionType.FREEFORM:
            assert answer.text
        case _:
            assert answer.value is AnswerValue.YES


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
async def test_several_questions_are_answered_in_their_order(name: str, opened: ExitStack) -> None:
    kinds = ["freeform", "choice", "yes_no"]
    interviewer = IMPLEMENTATIONS[name](kinds, opened)
    answers = await ask_multiple(interviewer, [QUESTIONS[kind] for kind in kinds])
    assert answers[0].text
    assert find_option(answers[1], OPTIONS) == OPTIONS[0]
    assert answers[2].value is AnswerValue.YES


@pytest.mark.parametrize("name", list(IMPLEMENTATIONS))
async def test_a_gate_goes_the_way_that_was_answered(name: str, opened: ExitStack, tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon, label="Which?"]
        start -> gate; gate -> ok [label="[A] Approve"]; gate -> mend [label="[F] Fix"]; {ok mend} -> exit }"""
    runner = PipelineRunner(
        interviewer=_without_timeout(IMPLEMENTATIONS[name](["choice"], opened)),
        logs_root=tmp_path / "run",
        handlers={"codergen": ScriptedHandler()},
    )
    result = await runner.run(text)
    assert result.completed_nodes == ("start", "gate", "ok", "exit")


def _without_timeout(interviewer: Any) -> Any:
    """The gate's question has a default of its own; the suite's has none, so it is compared without."""
    if isinstance(interviewer, (CallbackInterviewer, RecordingInterviewer)):
        return CallbackInterviewer(lambda question: ANSWERS["choice"])
    return interviewer


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_console_that_waits_long_leaves_no_thread_behind_and_loses_no_line(opened: ExitStack) -> None:
    reading, writing = os.pipe()
    opened.callback(os.close, writing)
    shown = io.StringIO()
    console = ConsoleInterviewer(opened.enter_context(os.fdopen(reading, "r")), shown)
    before = threading.active_count()
    for _ in range(3):
        with anyio.move_on_after(0.02) as scope:
            await console.ask(QUESTIONS["choice"])
        assert scope.cancelled_caught
    assert threading.active_count() <= before
    os.write(writing, b"f\n")
    assert (await console.ask(QUESTIONS["choice"])).value == "F"
    assert shown.getvalue().count("[?] Which?") == 4


async def test_a_deferring_interviewer_answers_nothing() -> None:
    assert (await DeferringInterviewer().ask(QUESTIONS["choice"])).value is AnswerValue.DEFERRED


async def test_a_run_is_replayed_from_what_was_answered_in_another(tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon]
        start -> gate; gate -> again [label=Again]; gate -> exit [label=Done]; again -> gate }"""
    handlers = {"codergen": ScriptedHandler()}
    said = iter(["Again", "Again", "Done"])
    recorder = RecordingInterviewer(CallbackInterviewer(lambda question: Answer(value=next(said))))
    first = await PipelineRunner(interviewer=recorder, logs_root=tmp_path / "1", handlers=handlers).run(text)
    assert len(recorder.recordings) == 3
    for number, replay in enumerate((ReplayInterviewer(recorder.recordings), ReplayInterviewer.of_run(tmp_path / "1"))):
        runner = PipelineRunner(interviewer=replay, logs_root=tmp_path / f"again-{number}", handlers=handlers)
        assert (await runner.run(text)).completed_nodes == first.completed_nodes
        with pytest.raises(QuestionError, match="no answer was recorded for this question of stage 'gate'"):
            await replay.ask(Question(text="More?", stage="gate"))
