"""What begins, ends: each record of a start gets that of its end, however the stage, the branch or the run ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.engine.limits import Limits
from attractor.event_log import read_events
from attractor.events import Event
from attractor.graph import Node
from attractor.interviewers.base import Answer, AnswerValue, Question
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state.usage import TokenUsage

HEAD = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare];"
FAN_OUT = HEAD + "fork [shape=component %s]; join [shape=tripleoctagon]; start -> fork; join -> exit;"
ENDS = {
    "StageCompleted": "StageStarted",
    "StageSuspended": "StageStarted",
    "ParallelBranchCompleted": "ParallelBranchStarted",
    "ParallelCompleted": "ParallelStarted",
    "InterviewCompleted": "InterviewStarted",
    "InterviewTimeout": "InterviewStarted",
    "InterviewWithdrawn": "InterviewStarted",
    "ChildCompleted": "ChildStarted",
    "PipelineCompleted": "PipelineStarted",
    "PipelineFailed": "PipelineStarted",
}


def find_open(events: Sequence[Event]) -> list[str]:
    """The starts that have no end; an end without a start is an error."""
    open_: list[tuple[str, Any]] = []
    for event in events:
        subject = [getattr(event, name, "") for name in ("qid", "branch", "name")]
        key = next((value for value in subject if value), "")
        if event.type.startswith("Pipeline"):
            key = ""
        start = ENDS.get(event.type, "")
        if event.type == "StageFailed" and not event.will_retry:  # type: ignore[attr-defined]
            start = "StageStarted"
        if start:
            open_.remove((start, key))
        elif event.type in ENDS.values():
            open_.append((event.type, key))
    return [f"{kind} {key}".strip() for kind, key in open_]


class Work:
    """Stages that end at once, fail, raise, or hang, by their names."""

    def __init__(self) -> None:
        self.hangs = anyio.Event()

    async def execute(self, node: Node, context: Any, graph: Any, logs_root: Path) -> Outcome:
        if node.id.startswith("hang"):
            self.hangs.set()
            await anyio.sleep_forever()
        if node.id.startswith("boom"):
            raise RuntimeError("no good")
        return Outcome.fail("no") if node.id.startswith("fail") else Outcome.success()


class Nobody:
    """Never answers, or puts off."""

    def __init__(self, *, defers: bool = False) -> None:
        self.defers = defers
        self.asked = anyio.Event()

    async def ask(self, question: Question) -> Answer:
        if not self.defers:
            self.asked.set()
            await anyio.sleep_forever()
        return Answer(value=AnswerValue.DEFERRED)


CASES = {
    "a timeout of a stage": HEAD + "hang [timeout=50ms]; start -> hang -> exit }",
    "a retry": HEAD + "fail [max_retries=2, retry_policy=none]; start -> fail -> exit }",
    "an exception": HEAD + "boom; start -> boom -> exit }",
    "the run's time": HEAD + 'max_duration="80ms"; hang; start -> hang -> exit }',
    "the run's time, in a branch": FAN_OUT % "" + 'max_duration="80ms"; fork -> {hang ok} -> join }',
    "a timeout of a fan-out": FAN_OUT % ", timeout=80ms" + "fork -> {hang ok} -> join }",
    "enough branches": FAN_OUT % ", join_policy=first_success" + "fork -> {hang ok} -> join }",
    "a question that nobody needs": FAN_OUT % ", join_policy=first_success"
    + "gate [shape=hexagon]; slow [shape=component]; both [shape=tripleoctagon]; slow -> {ok1 ok2} -> both;"
    + "fork -> gate -> join; fork -> slow; both -> join }",
    "a question of a fan-out that took too long": FAN_OUT % ", timeout=300ms"
    + "gate [shape=hexagon]; fork -> {gate ok} -> join }",
    "a question without an answer": HEAD + "gate [shape=hexagon, timeout=50ms, retry_policy=none, max_retries=0];"
    "start -> gate -> exit }",
    "fan-outs within": FAN_OUT % ", timeout=150ms"
    + "inner [shape=component]; meet [shape=tripleoctagon]; inner -> {hang ok} -> meet; fork -> inner; fork -> ok2;"
    + "meet -> join; ok2 -> join }",
    "a child that is stopped": HEAD + 'sub [type=pipeline, "stack.child_dotfile"="hang.dot", timeout=150ms];'
    "start -> sub -> exit }",
    "a child that can't begin": HEAD + 'sub [type=pipeline, "stack.child_dotfile"="twice.dot"]; start -> sub -> exit }',
    "a managed child that is stopped": HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot", timeout=200ms,'
    '"manager.poll_interval"="50ms"]; start -> boss -> exit }',
    "a managed child that takes too many cycles": HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot",'
    '"manager.max_cycles"=2, "manager.poll_interval"="50ms"]; start -> boss -> exit }',
}


@pytest.mark.parametrize("case", CASES)
async def test_what_begins_ends(tmp_path: Path, case: str) -> None:
    (tmp_path / "hang.dot").write_text(HEAD + "hang; start -> hang -> exit }")
    (tmp_path / "twice.dot").write_text(HEAD + "}")
    runner = PipelineRunner(
        handlers={"codergen": Work()}, interviewer=Nobody(), logs_root=tmp_path / "run", working_dir=tmp_path
    )
    with anyio.fail_after(20):
        await runner.run(CASES[case])
    assert find_open(read_events(tmp_path / "run")) == []


@pytest.mark.parametrize(
    "body",
    [
        FAN_OUT % "" + "gate [shape=hexagon]; fork -> {hang gate ok} -> join }",
        HEAD + 'sub [type=pipeline, "stack.child_dotfile"="hang.dot"]; start -> sub -> exit }',
        HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot"]; start -> boss -> exit }',
    ],
)
async def test_what_begins_ends_when_the_run_is_cancelled(tmp_path: Path, body: str) -> None:
    """All but a question, which the run asks still when it goes on."""
    (tmp_path / "hang.dot").write_text(HEAD + "hang; start -> hang -> exit }")
    work = Work()
    runner = PipelineRunner(
        handlers={"codergen": work}, interviewer=Nobody(), logs_root=tmp_path / "run", working_dir=tmp_path
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.run, body)
            await work.hangs.wait()
            runner.cancel()
    left = [what for what in find_open(read_events(tmp_path / "run")) if not what.startswith("InterviewStarted")]
    assert left == []


async def test_a_run_that_waits_has_open_what_it_goes_on_with(tmp_path: Path) -> None:
    body = FAN_OUT % "" + "gate [shape=hexagon]; fork -> {gate ok} -> join }"
    runner = PipelineRunner(handlers={"codergen": Work()}, interviewer=Nobody(defers=True), logs_root=tmp_path / "run")
    assert (await runner.run(body)).waiting
    kinds = {what.split()[0] for what in find_open(read_events(tmp_path / "run"))}
    assert kinds == {"PipelineStarted", "ParallelStarted", "ParallelBranchStarted", "InterviewStarted"}


async def test_a_stage_over_budget_is_not_tried_again(tmp_path: Path) -> None:
    attempts = []

    class Dear:
        async def execute(self, node: Node, context: Any, graph: Any, logs_root: Path) -> Outcome:
            attempts.append(node.id)
            context.run.add_usage(TokenUsage(input_tokens=900, output_tokens=200))
            return Outcome.fail("try again")

    runner = PipelineRunner(handlers={"codergen": Dear()}, logs_root=tmp_path / "run", limits=Limits(max_tokens=2000))
    result = await runner.run(HEAD + "dear [max_retries=5]; start -> dear -> exit }")
    assert attempts == ["dear", "dear"]
    assert "is not tried again: the run used 2200 tokens of its max_tokens of 2000" in result.failure_reason
