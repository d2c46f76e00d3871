"""What begins, ends: each record of a start gets that of its end, however the stage, the branch or the run ended."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.engine.limits import Limits
from attractor.event_log import read_events
from attractor.events import (
    Event,
    ParallelCompleted,
    ParallelStarted,
    PipelineCompleted,
    PipelineFailed,
    PipelineWaiting,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
)
from attractor.graph import Node
from attractor.interviewers import AutoApproveInterviewer
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
    """The starts that have no end; an end without a start, or before that of what lies within, is an error."""
    open_: list[tuple[str, Any]] = []
    fan_outs: list[str] = []
    last_stage = ""
    for event in events:
        match event:
            case StageStarted() | StageRetrying():
                last_stage = event.name
            case ParallelStarted():
                fan_outs.append(last_stage)
            case ParallelCompleted():
                fan_outs.pop()
            case PipelineWaiting():
                # What waits begins again, save questions.
                open_ = [what for what in open_ if what[0] == "InterviewStarted"]
                fan_outs.clear()
            case StageCompleted() | StageFailed(will_retry=False):
                assert ("ChildStarted", event.name) not in open_, event
                assert event.name not in fan_outs, event
            case PipelineCompleted() | PipelineFailed():
                left = [what for what in open_ if what[0] not in ("PipelineStarted", "InterviewStarted")]
                assert left == [], "the run ended before them"
        key = _subject(event)
        start = ENDS.get(event.type, "")
        if isinstance(event, StageFailed) and not event.will_retry:
            start = "StageStarted"
        if start:
            open_.remove((start, key))
        elif event.type in ENDS.values() and (event.type, key) != ("PipelineStarted", ""):
            open_.append((event.type, key))
        elif (event.type, key) not in open_ and event.type == "PipelineStarted":
            # One that was killed goes on: it has begun.
            open_.append((event.type, key))
    return [f"{kind} {key}".strip() for kind, key in open_]


def _subject(event: Event) -> str:
    if event.type.startswith("Pipeline"):
        return ""
    names = (getattr(event, name, "") for name in ("qid", "branch", "name"))
    return next((name for name in names if name), "")


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
    "the first success of fan-outs within": FAN_OUT % ", join_policy=first_success"
    + "inner [shape=component, join_policy=first_success]; meet [shape=tripleoctagon]; deep [shape=component];"
    + "low [shape=tripleoctagon]; inner -> hang -> meet; inner -> deep -> {hang2 gate} -> low -> meet;"
    + "gate [shape=hexagon]; fork -> inner; fork -> ok2; meet -> join; ok2 -> join }",
    "a fan-out that is tried again": FAN_OUT % ", join_policy=quorum, join_count=2, max_retries=1, retry_policy=none"
    + "fork -> {fail ok} -> join }",
    "a time limit of a stage in a branch": FAN_OUT % "" + "hang [timeout=50ms]; fork -> {hang ok} -> join }",
    "a time limit of a gate in a branch": FAN_OUT % ""
    + "gate [shape=hexagon, timeout=50ms]; hang [timeout=80ms]; fork -> {gate hang ok} -> join }",
    "several questions without an answer": HEAD + 'gate [shape=hexagon, timeout=50ms, "human.questions"="a\\nb"];'
    "start -> gate -> exit }",
    "the run's time, in a child": HEAD + 'max_duration="100ms"; sub [type=pipeline, "stack.child_dotfile"="hang.dot"];'
    "start -> sub -> exit }",
    "a child's question that nobody needs": FAN_OUT % ", join_policy=first_success"
    + 'sub [type=pipeline, "stack.child_dotfile"="gate.dot"]; fork -> {sub ok} -> join }',
    "a managed child that is stopped, with branches": HEAD + 'boss [shape=house, "stack.child_dotfile"="fork.dot",'
    '"manager.max_cycles"=2, "manager.poll_interval"="60ms"]; start -> boss -> exit }',
    "too many visits": HEAD
    + 'ok [max_visits=2]; ok2; start -> ok -> ok2 -> ok; ok -> exit [condition="outcome=fail"] }',
    "a restart": HEAD + 'ok [max_visits=2]; fail; start -> ok -> fail; fail -> ok [condition="outcome=fail",'
    " loop_restart=true]; ok -> exit [condition=false] }",
    "a managed child that is stopped": HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot", timeout=200ms,'
    '"manager.poll_interval"="50ms"]; start -> boss -> exit }',
    "a managed child that takes too many cycles": HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot",'
    '"manager.max_cycles"=2, "manager.poll_interval"="50ms"]; start -> boss -> exit }',
}


@pytest.mark.parametrize("case", CASES)
async def test_what_begins_ends(tmp_path: Path, case: str) -> None:
    (tmp_path / "hang.dot").write_text(HEAD + "hang; start -> hang -> exit }")
    (tmp_path / "twice.dot").write_text(HEAD + "}")
    (tmp_path / "gate.dot").write_text(HEAD + "gate [shape=hexagon]; start -> gate -> exit }")
    (tmp_path / "fork.dot").write_text(FAN_OUT % "" + "gate [shape=hexagon]; fork -> {hang ok gate} -> join }")
    runner = PipelineRunner(
        handlers={"codergen": Work()}, interviewer=Nobody(), logs_root=tmp_path / "run", working_dir=tmp_path
    )
    with anyio.fail_after(20):
        await runner.run(CASES[case])
    for log in (tmp_path / "run").rglob("events.jsonl"):
        asks_on = "child" in str(log)
        left = [what for what in find_open(read_events(log.parent)) if not (asks_on and what.startswith("Interview"))]
        assert left == [], log


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


async def test_questions_of_a_form_end_when_the_interviewer_raises(tmp_path: Path) -> None:
    class Broken(Nobody):
        async def ask(self, question: Question) -> Answer:
            if question.text == "b":
                raise ConnectionError("the line is dead")
            return Answer(value="yes", text="yes")

    body = HEAD + 'gate [shape=hexagon, "human.questions"="a\\nb"]; start -> gate -> exit }'
    result = await PipelineRunner(interviewer=Broken(), logs_root=tmp_path / "run").run(body)
    assert "the line is dead" in result.failure_reason
    events = list(read_events(tmp_path / "run"))
    assert find_open(events) == []
    ends = [event.type for event in events if event.type.startswith("Interview")]
    assert ends == ["InterviewStarted", "InterviewStarted", "InterviewCompleted", "InterviewWithdrawn"]


async def test_a_run_that_waits_has_open_what_it_asks(tmp_path: Path) -> None:
    body = FAN_OUT % "" + "gate [shape=hexagon]; fork -> {gate ok} -> join }"
    runner = PipelineRunner(handlers={"codergen": Work()}, interviewer=Nobody(defers=True), logs_root=tmp_path / "run")
    assert (await runner.run(body)).waiting
    assert find_open(read_events(tmp_path / "run")) == ["InterviewStarted q1"]
    runner = PipelineRunner(handlers={"codergen": Work()}, interviewer=AutoApproveInterviewer())
    assert (await runner.resume(tmp_path / "run")).status == "success"
    assert find_open(read_events(tmp_path / "run")) == []


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


KILLED = """
import sys, anyio
from pathlib import Path
from attractor.pipeline import PipelineRunner
sys.path.insert(0, sys.argv[1])
from test_event_pairs import Nobody, Work
runner = PipelineRunner(handlers={"codergen": Work()}, interviewer=Nobody(), logs_root="run", working_dir=".")
anyio.run(runner.run, sys.argv[2])
"""


@pytest.mark.parametrize(
    ("body", "sign"),
    [
        (HEAD + "ok; hang; start -> ok -> hang -> exit }", "hang"),
        (
            FAN_OUT % "" + "inner [shape=component]; meet [shape=tripleoctagon]; gate [shape=hexagon];"
            "fork -> {inner ok2 gate}; inner -> {hang ok} -> meet -> join; {ok2 gate} -> join }",
            "gate",
        ),
        (HEAD + 'boss [shape=house, "stack.child_dotfile"="hang.dot"]; start -> boss -> exit }', "boss"),
    ],
)
def test_what_a_kill_left_open_ends_when_the_run_goes_on(tmp_path: Path, body: str, sign: str) -> None:
    (tmp_path / "hang.dot").write_text(HEAD + "hang; start -> hang -> exit }")
    log = tmp_path / "run/events.jsonl"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parent), body]
    with subprocess.Popen(command, cwd=tmp_path) as engine:
        deadline = time.monotonic() + 30
        while not (log.exists() and f'"name":"{sign}"' in log.read_text() and "hang" in str(list_started(tmp_path))):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        engine.kill()
    left = find_open(read_events(tmp_path / "run"))
    assert "PipelineStarted" in left
    assert len(left) > 1
    resumed = PipelineRunner(interviewer=AutoApproveInterviewer(), working_dir=tmp_path)
    assert anyio.run(resumed.resume, tmp_path / "run").status == "success"
    for found in (tmp_path / "run").rglob("events.jsonl"):
        assert find_open(read_events(found.parent)) == []
    killed = [event for event in read_events(tmp_path / "run") if "was killed" in getattr(event, "error", "")]
    assert killed


def list_started(folder: Path) -> list[str]:
    """The stages that began, in the run and in those within it."""
    logs = (folder / "run").rglob("events.jsonl")
    return [event.name for log in logs for event in read_events(log.parent) if isinstance(event, StageStarted)]


def test_a_damaged_log_holds_no_resumption_up(tmp_path: Path) -> None:
    runner = PipelineRunner(handlers={"codergen": Work()}, logs_root=tmp_path / "run")
    assert anyio.run(runner.run, HEAD + "fail; start -> fail -> exit }").status == "fail"
    log = tmp_path / "run/events.jsonl"
    log.write_text("{}\n" + "".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert anyio.run(PipelineRunner().resume, tmp_path / "run").status == "success"
