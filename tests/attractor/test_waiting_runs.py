"""Questions that outlive processes, and runs that wait without one (sections 4.6 and 6)."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import Answer, AutoApproveInterviewer, CallbackInterviewer, PipelineRunner, Question
from attractor.engine.limits import Limits
from attractor.errors import AnsweredError, ContextValueError, QuestionError, RunDirectoryError
from attractor.event_log import read_events
from attractor.events import InterviewStarted, InterviewTimeout, PipelineWaiting
from attractor.graph import Graph, Node
from attractor.interviewers import DeferringInterviewer, Ending, QuestionStore
from attractor.outcome import Outcome
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.suspensions import give_value, list_suspensions
from attractor.suspension import Suspend
from attractor.testing import ScriptedHandler

GATE = """digraph Gate { start [shape=Mdiamond]; exit [shape=Msquare]
    gate [shape=hexagon, label="Ship it?"%s]; start -> before -> gate
    gate -> ship [label="[Y] Yes"]; gate -> mend [label="[N] No"]; ship -> exit; mend -> gate }"""
BRANCHES = """digraph Gates { start [shape=Mdiamond]; exit [shape=Msquare]
    fork [shape=component]; join [shape=tripleoctagon]; start -> fork -> {left right work}; left [shape=hexagon]
    right [shape=hexagon]; left -> a [label="Yes"]; left -> b [label="No"]; right -> c [label="Go"]; {a b c} -> join
    work -> more -> join; join -> exit }"""


def make_runner(folder: Path, interviewer: Any = None, handler: Any = None, **options: Any) -> PipelineRunner:
    return PipelineRunner(
        logs_root=folder,
        interviewer=interviewer or DeferringInterviewer(),
        handlers={"codergen": handler or ScriptedHandler()},
        **options,
    )


async def test_a_run_that_nobody_can_answer_ends_as_waiting_and_goes_on_when_it_was_answered(tmp_path: Path) -> None:
    folder, handler = tmp_path / "run", ScriptedHandler()
    waiting = await make_runner(folder, handler=handler).run(GATE % "")
    assert (waiting.waiting, waiting.status, waiting.cancelled) == (True, "fail", False)
    assert waiting.completed_nodes == ("start", "before")
    assert Checkpoint.load(folder).status == "waiting"
    (asked,) = QuestionStore(folder).list_open()
    assert [found.question for found in waiting.suspensions] == [asked.id]
    record = asked.to_record()
    assert (record["text"], record["type"], record["stage"]) == ("Ship it?", "multiple_choice", "gate")
    assert record["options"] == [{"key": "Y", "label": "[Y] Yes"}, {"key": "N", "label": "[N] No"}]
    *_, last = read_events(folder)
    assert isinstance(last, PipelineWaiting)
    assert last.questions == [asked.id]

    QuestionStore(folder).answer(asked.id, "yes", "test")
    done = await make_runner(folder, handler=handler).resume(folder)
    assert (done.status, done.waiting) == ("success", False)
    assert done.completed_nodes == ("start", "before", "gate", "ship", "exit")
    assert handler.calls == ["before", "ship"]
    assert QuestionStore(folder).list_open() == []
    assert sum(isinstance(event, InterviewStarted) for event in read_events(folder)) == 1


async def test_resuming_without_an_answer_waits_again_or_asks_whoever_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await make_runner(folder).run(GATE % "")
    again = await make_runner(folder).resume(folder)
    assert again.waiting
    assert [asked.id for asked in QuestionStore(folder).list_all()] == ["q1"]
    done = await make_runner(folder, AutoApproveInterviewer()).resume(folder)
    assert done.status == "success"
    assert [asked.ending for asked in QuestionStore(folder).list_all()] == [Ending.ANSWERED]


async def test_a_question_is_answered_exactly_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await make_runner(folder).run(GATE % "")
    stores = [QuestionStore(folder) for _ in range(8)]
    assert all(store.list_open() for store in stores)
    results: list[str] = []

    def answer(number: int) -> None:
        try:
            stores[number].answer("q1", "Y" if number % 2 else "N", f"process {number}")
            results.append("first")
        except AnsweredError as error:
            results.append(str(error))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(anyio.to_thread.run_sync, answer, number)
    assert results.count("first") == 1
    assert all("q1 was answered already" in said for said in results if said != "first")
    names = sorted(path.name for path in (folder / "questions").iterdir())
    assert names == ["q1.answer.json", "q1.json"]


async def test_an_answer_that_fits_nothing_and_a_question_that_is_not_there_are_clear_errors(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await make_runner(folder).run(GATE % "")
    store = QuestionStore(folder)
    with pytest.raises(QuestionError, match=r"'maybe' is no answer to question q1; say one of Y \(Yes\), N \(No\)"):
        store.answer("q1", "maybe")
    with pytest.raises(QuestionError, match="has no question 'q7'; open are: q1"):
        store.answer("q7", "Y")
    (folder / "questions" / "q1.json").write_text("{")
    with pytest.raises(RunDirectoryError, match=r"q1\.json is damaged"):
        QuestionStore(folder).list_open()


async def test_whoever_answers_first_withdraws_the_prompt_of_the_others(tmp_path: Path) -> None:
    folder, cancelled, told = tmp_path / "run", anyio.Event(), []

    class Console:
        async def ask(self, question: Question) -> Answer:
            QuestionStore(folder).answer("q1", "Y", "a page")
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()
            raise AssertionError

        def inform(self, message: str, stage: str) -> None:
            told.append((message, stage))

    with anyio.fail_after(10):
        result = await make_runner(folder, Console()).run(GATE % "")
    assert cancelled.is_set()
    assert result.completed_nodes == ("start", "before", "gate", "ship", "exit")
    assert told == [("Answered by a page: [Y] Yes", "gate")]


async def test_the_question_is_on_disk_before_anybody_is_asked(tmp_path: Path) -> None:
    folder, seen = tmp_path / "run", []

    def answer(question: Question) -> Answer:
        seen.append(json.loads((folder / "questions" / "q1.json").read_bytes())["text"])
        return Answer(value="Y")

    await make_runner(folder, CallbackInterviewer(answer)).run(GATE % "")
    assert seen == ["Ship it?"]


async def test_gates_in_branches_wait_together_while_the_other_branches_finish(tmp_path: Path) -> None:
    folder, handler = tmp_path / "run", ScriptedHandler()
    waiting = await make_runner(folder, handler=handler).run(BRANCHES)
    assert waiting.waiting
    assert sorted(handler.calls) == ["more", "work"]
    store = QuestionStore(folder)
    by_stage = {asked.question.stage: asked for asked in store.list_open()}
    assert by_stage.keys() == {"left", "right"}
    assert by_stage["left"].branch == (("fork", "0"),)
    assert sorted(found.question for found in waiting.suspensions) == ["q1", "q2"]

    store.answer(by_stage["left"].id, "No")
    still = await make_runner(folder, handler=handler).resume(folder)
    assert still.waiting
    assert [asked.question.stage for asked in store.list_open()] == ["right"]
    store.answer(by_stage["right"].id, "go")
    done = await make_runner(folder, handler=handler).resume(folder)
    assert done.status == "success"
    assert sorted(handler.calls) == ["b", "c", "more", "work"]
    assert "a" not in done.completed_nodes


async def test_an_abandoned_branch_withdraws_its_question(tmp_path: Path) -> None:
    text = BRANCHES.replace("fork [shape=component]", "fork [shape=component, join_policy=first_success]")
    done = await make_runner(tmp_path / "run").run(text)
    assert done.status == "success"
    store = QuestionStore(tmp_path / "run")
    assert {asked.ending for asked in store.list_all()} == {Ending.WITHDRAWN}
    with pytest.raises(QuestionError, match="withdrawn"):
        store.answer("q1", "Yes")


async def test_the_deadline_counts_from_when_it_was_first_asked_also_after_resume(tmp_path: Path) -> None:
    folder, now = tmp_path / "run", [1_000_000.0]
    text = GATE % ', human.timeout="1h", human.default_choice=mend'
    once = text.replace("mend -> gate", "mend -> exit")
    await make_runner(folder, clock=lambda: now[0]).run(once)
    now[0] += 3500
    assert (await make_runner(folder, clock=lambda: now[0]).resume(folder)).waiting
    now[0] += 101
    with pytest.raises(QuestionError, match="time to answer question q1 is over"):
        QuestionStore(folder, lambda: now[0]).answer("q1", "Y")
    done = await make_runner(folder, clock=lambda: now[0]).resume(folder)
    assert done.completed_nodes == ("start", "before", "gate", "mend", "exit")
    (timeout,) = [event for event in read_events(folder) if isinstance(event, InterviewTimeout)]
    assert timeout.duration == 3601


async def test_each_visit_of_a_gate_asks_anew(tmp_path: Path) -> None:
    answers = iter(["N", "N", "Y"])
    interviewer = CallbackInterviewer(lambda question: Answer(value=next(answers)))
    result = await make_runner(tmp_path / "run", interviewer).run(GATE % "")
    assert result.completed_nodes.count("gate") == 3
    said = [asked.answer.value for asked in QuestionStore(tmp_path / "run").list_all() if asked.answer]
    assert said == ["N", "N", "Y"]


async def test_a_gate_behind_a_restart_asks_in_the_one_folder_of_the_run(tmp_path: Path) -> None:
    text = (GATE % "").replace("mend -> gate", "mend -> gate [loop_restart=true]")
    folder = tmp_path / "run"
    await make_runner(folder).run(text)
    QuestionStore(folder).answer("q1", "N")
    assert (await make_runner(folder).resume(folder)).waiting
    QuestionStore(folder).answer("q2", "Y")
    done = await make_runner(folder).resume(folder)
    assert (done.status, done.restarts) == ("success", 1)
    assert (folder / "restart-1" / "checkpoint.json").exists()


class Asking:
    """Suspends until it has as many values as it is to ask for."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        self.calls.append((node.id, context.run.given))
        if node.id == "asks" and len(context.run.given) < self.count:
            raise Suspend({"wants": len(context.run.given) + 1})
        return Outcome.success(context_updates={node.id: list(context.run.given)})


ASKS = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> before -> asks -> after -> exit }"


async def test_a_suspended_stage_is_executed_again_with_the_value_that_it_was_given(tmp_path: Path) -> None:
    folder, handler = tmp_path / "run", Asking(count=2)
    waiting = await make_runner(folder, handler=handler).run(ASKS)
    (found,) = waiting.suspensions
    assert (waiting.waiting, found.node_id, found.payload, found.question) == (True, "asks", {"wants": 1}, "")
    assert list_suspensions(folder) == [found]
    # Without a value nothing is executed.
    assert (await make_runner(folder, handler=handler).resume(folder)).waiting
    give_value(folder, found.id, {"answer": [1, None]})
    assert list_suspensions(folder) == []
    with pytest.raises(AnsweredError, match="was given a value already"):
        give_value(folder, found.id, 2)
    (second,) = (await make_runner(folder, handler=handler).resume(folder)).suspensions
    assert second.payload == {"wants": 2}
    assert second.id != found.id
    give_value(folder, second.id, None)
    done = await make_runner(folder, handler=handler).resume(folder)
    assert done.context["asks"] == [{"answer": [1, None]}, None]
    assert done.context["after"] == []
    given = [values for node_id, values in handler.calls if node_id == "asks"]
    assert given == [(), ({"answer": [1, None]},), ({"answer": [1, None]}, None)]
    assert [node_id for node_id, _ in handler.calls].count("before") == 1


async def test_values_for_what_does_not_wait_and_values_that_are_no_json_are_errors(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (found,) = (await make_runner(folder, handler=Asking()).run(ASKS)).suspensions
    with pytest.raises(QuestionError, match=f"no suspended stage of .* has the id 'other'; waiting: {found.id}"):
        give_value(folder, "other", 1)
    with pytest.raises(ContextValueError):
        give_value(folder, found.id, object())
    assert list_suspensions(folder) == [found]


async def test_suspension_in_a_branch_keeps_its_place(tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]
        join [shape=tripleoctagon]; start -> fork -> {asks other} -> join -> exit }"""
    folder, handler = tmp_path / "run", Asking()
    (found,) = (await make_runner(folder, handler=handler).run(text)).suspensions
    assert found.branch == (("fork", "0"),)
    give_value(folder, found.id, "v")
    done = await make_runner(folder, handler=handler).resume(folder)
    assert done.status == "success"
    assert sorted(node_id for node_id, _ in handler.calls) == ["asks", "asks", "other"]


async def test_max_duration_counts_the_time_that_was_really_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert (await make_runner(folder, handler=Sleeping(0.05)).run(GATE % "")).waiting
    used = Checkpoint.load(folder).elapsed
    assert used >= 0.05
    await anyio.sleep(0.2)
    QuestionStore(folder).answer("q1", "Y")
    assert Checkpoint.load(folder).elapsed == used
    limits = Limits(max_duration=used + 0.1)
    with anyio.fail_after(10):
        ended = await make_runner(folder, handler=Sleeping(60), limits=limits).resume(folder)
    assert "the run took longer than max_duration" in ended.failure_reason
    assert Checkpoint.load(folder).elapsed >= used + 0.1
    again = await make_runner(folder, handler=Sleeping(60), limits=limits).resume(folder)
    assert "raise it to go on" in again.failure_reason
    done = await make_runner(folder, handler=Sleeping(0)).resume(folder)
    assert done.status == "success"


class Sleeping:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        await anyio.sleep(self.seconds)
        return Outcome.success()


async def test_the_questions_of_a_run_within_a_run_are_those_of_the_outer_one(tmp_path: Path) -> None:
    (tmp_path / "child.dot").write_text(GATE % "")
    text = f"""digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]
        join [shape=tripleoctagon]; inner [type=pipeline, stack.child_dotfile="{tmp_path}/child.dot"]
        gate [shape=hexagon]; start -> fork -> {{inner gate}} -> join -> exit }}"""
    folder, handler = tmp_path / "run", ScriptedHandler()
    waiting = await make_runner(folder, handler=handler).run(text)
    assert waiting.waiting
    store = QuestionStore(folder)
    by_text = {asked.question.text: asked.id for asked in store.list_open()}
    assert by_text.keys() == {"Ship it?", "gate"}
    store.answer(by_text["Ship it?"], "N")
    assert (await make_runner(folder, handler=handler).resume(folder)).waiting
    again = [asked.id for asked in store.list_open() if asked.question.text == "Ship it?"]
    assert again not in ([], [by_text["Ship it?"]])
    store.answer(again[0], "Y")
    store.answer(by_text["gate"], "join")
    done = await make_runner(folder, handler=handler).resume(folder)
    assert done.status == "success"
    assert handler.calls == ["before", "mend", "ship"]
