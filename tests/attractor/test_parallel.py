"""Fan-out and fan-in: branches that run at once (sections 3.8, 4.8 and 4.9)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.event_log import read_events
from attractor.events import (
    ParallelBranchCompleted,
    ParallelCompleted,
    ParallelStarted,
    StageCompleted,
    StageFailed,
    StageStarted,
)
from attractor.graph import Graph, Node
from attractor.interviewers import Answer, AutoApproveInterviewer, CallbackInterviewer
from attractor.outcome import Outcome, StageStatus
from attractor.pipeline import PipelineRunner, RunResult
from attractor.stage_states import StageState, read_states
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.testing import Reply, ScriptedHandler

Work = Callable[[Node, Context], Any]
SHAPES = """start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]; join [shape=tripleoctagon]
    start -> fork; join -> after -> exit;"""
THREE = SHAPES + "fork -> a -> join; fork -> b -> join; fork -> c -> join;"


class Run:
    """Runs pipelines whose model stages a script, or a function, plays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handler = ScriptedHandler()

    async def __call__(
        self,
        body: str,
        script: dict[str, Reply | list[Reply]] | None = None,
        *,
        resume: bool = False,
        **options: Any,
    ) -> RunResult:
        self.handler = ScriptedHandler(script)
        handlers = options.pop("handlers", {"codergen": self.handler})
        runner = PipelineRunner(logs_root=self.folder / "run", handlers=handlers, **options)
        with anyio.fail_after(30):
            if resume:
                return await runner.resume(self.folder / "run")
            return await runner.run(f"digraph g {{ {body} }}")

    @property
    def calls(self) -> list[str]:
        return self.handler.calls

    def events(self, kind: type[Any]) -> list[Any]:
        return [event for event in read_events(self.folder / "run") if isinstance(event, kind)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


class Doing:
    """A handler that calls an async function."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        outcome = await self._work(node, context)
        return outcome if isinstance(outcome, Outcome) else Outcome.success(f"{node.id} done")


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_every_branch_runs_once_and_what_is_behind_the_join_once(run: Run) -> None:
    """Also the later nodes of a branch."""
    result = await run(SHAPES + "fork -> a1 -> a2 -> join; fork -> b1 -> join;")
    assert result.status == "success"
    assert sorted(run.calls) == ["a1", "a2", "after", "b1"]
    assert run.calls[-1] == "after"
    # In the order of the branches, however the clock had it.
    assert result.completed_nodes == ("start", "a1", "a2", "b1", "fork", "join", "after", "exit")
    assert set(result.node_outcomes) == {"start", "fork", "a1", "a2", "b1", "join", "after", "exit"}


async def test_each_branch_leaves_its_mark_and_its_event(run: Run, tmp_path: Path) -> None:
    """No branch is ended before it worked."""
    stages = "".join(f'{id} [shape=parallelogram, tool_command="echo {id} > {id}.mark"];' for id in "abc")
    result = await run(stages + THREE, working_dir=tmp_path)
    assert result.status == "success", result.failure_reason
    assert sorted(path.name for path in tmp_path.glob("*.mark")) == ["a.mark", "b.mark", "c.mark"]
    assert sorted(event.branch for event in run.events(ParallelBranchCompleted)) == ["a", "b", "c"]


async def test_branches_run_at_once_up_to_max_parallel(run: Run) -> None:
    under_way: set[str] = set()
    most = 0

    async def work(node: Node, context: Context) -> None:
        nonlocal most
        under_way.add(node.id)
        most = max(most, len(under_way))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        under_way.remove(node.id)

    body = SHAPES.replace("shape=component", "shape=component, max_parallel=3") + "".join(
        f"fork -> n{number} -> join;" for number in range(10)
    )
    assert (await run(body, handlers={"codergen": Doing(work)})).status == "success"
    assert most == 3


async def test_branches_meet_each_other_when_they_run_at_once(run: Run) -> None:
    arrived = {"a": anyio.Event(), "b": anyio.Event(), "c": anyio.Event()}

    async def work(node: Node, context: Context) -> None:
        if node.id in arrived:
            arrived[node.id].set()
            for event in arrived.values():
                await event.wait()

    assert (await run(THREE, handlers={"codergen": Doing(work)})).status == "success"


async def test_branches_are_isolated_and_leave_the_context_as_it_was(run: Run) -> None:
    seen: dict[str, Any] = {}

    def note(node: Node, context: Context) -> Outcome:
        seen[node.id] = (context.get("shared"), context.get("x"))
        return Outcome.success(context_updates={"x": node.id, "shared": node.id})

    body = SHAPES + "fork -> a -> a2 -> join; fork -> b -> b2 -> join;"
    result = await run(body, dict.fromkeys(("a", "a2", "b", "b2", "after"), note), context={"shared": "before"})
    assert seen == {
        "a": ("before", None),
        "b": ("before", None),
        "a2": ("a", "a"),
        "b2": ("b", "b"),
        "after": ("before", None),
    }
    updates = {one["id"]: one["context_updates"] for one in result.context["parallel.results"]}
    assert updates == {"a": {"x": "a2", "shared": "a2"}, "b": {"x": "b2", "shared": "b2"}}


async def test_results_reach_the_fan_in_and_the_next_stage(tmp_path: Path) -> None:
    """Ids, outcomes, outputs."""
    prompts: dict[str, str] = {}

    async def backend(node: Node, prompt: str, context: Context) -> str:
        prompts[node.id] = prompt
        return 'Well: {"best_id": "b", "reason": "wit"}' if node.id == "join" else f"words of {node.id}"

    body = THREE.replace("shape=tripleoctagon", 'shape=tripleoctagon, prompt="Choose the wittiest for $goal"')
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")  # type: ignore[arg-type]
    result = await runner.run(f"digraph g {{ goal=fun; {body} }}")
    assert result.status == "success", result.failure_reason
    for id in ("a", "b", "c"):
        assert f"words of {id}" in prompts["join"]
        assert f"words of {id}" in prompts["after"]
    assert "Choose the wittiest for fun" in prompts["join"]
    assert "- b: success, chosen (words of b)" in prompts["after"]
    assert result.context["parallel.fan_in.best_id"] == "b"
    assert result.context["parallel.fan_in.best_outcome"] == "success"
    first = result.context["parallel.results"][0]
    assert (first["id"], first["outcome"], first["response"], first["last_node"]) == ("a", "success", "words of a", "a")
    assert (tmp_path / "run" / "join" / "prompt.md").read_text() == prompts["join"]
    assert "best_id" in (tmp_path / "run" / "join" / "response.md").read_text()


async def test_a_model_that_names_no_candidate_fails_the_fan_in(tmp_path: Path) -> None:
    async def backend(node: Node, prompt: str, context: Context) -> str:
        return "I like them all."

    body = THREE.replace("shape=tripleoctagon", 'shape=tripleoctagon, prompt="Choose"')
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")  # type: ignore[arg-type]
    result = await runner.run(f"digraph g {{ {body} }}")
    assert result.failure_reason == "fan-in 'join': of the candidates a, b, c the model named none"


async def test_an_agent_names_the_best_by_its_report(tmp_path: Path) -> None:
    async def backend(node: Node, prompt: str, context: Context) -> str | Outcome:
        return Outcome.success("c it is", preferred_label="c") if node.id == "join" else "words"

    body = THREE.replace("shape=tripleoctagon", 'shape=tripleoctagon, prompt="Choose"')
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")  # type: ignore[arg-type]
    result = await runner.run(f"digraph g {{ {body} }}")
    assert result.context["parallel.fan_in.best_id"] == "c"


@pytest.mark.parametrize(
    ("script", "best"),
    [
        ({}, "a"),
        ({"a": "fail"}, "b"),
        ({"a": "partial_success"}, "b"),
        ({"c": Outcome.success(context_updates={"score": 0.5})}, "c"),
        ({"a": "fail", "b": "partial_success", "c": "fail"}, "b"),
    ],
)
async def test_fan_in_chooses_by_outcome_then_score_then_id(run: Run, script: dict[str, Any], best: str) -> None:
    result = await run(THREE, script)
    assert result.status == "success", result.failure_reason
    assert result.context["parallel.fan_in.best_id"] == best


async def test_fan_in_without_results_fails(run: Run) -> None:
    result = await run("start [shape=Mdiamond]; exit [shape=Msquare]; j [shape=tripleoctagon]; start -> j -> exit")
    assert "no parallel results to evaluate" in result.failure_reason


async def test_a_raising_branch_leaves_its_siblings_alone(run: Run) -> None:
    raised = anyio.Event()

    async def work(node: Node, context: Context) -> None:
        if node.id == "b":
            raised.set()
            raise RuntimeError("boom")
        await raised.wait()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    result = await run(THREE, handlers={"codergen": Doing(work)})
    assert result.status == "success"
    outcomes = {one["id"]: one["outcome"] for one in result.context["parallel.results"]}
    assert outcomes == {"a": "success", "b": "fail", "c": "success"}
    assert result.node_outcomes["fork"].status is StageStatus.PARTIAL_SUCCESS
    assert "boom" in result.context["parallel.results"][1]["failure_reason"]
    [done] = run.events(ParallelCompleted)
    assert (done.success_count, done.failure_count) == (2, 1)


@pytest.mark.parametrize("limited", ["b", "fork"])
async def test_a_hanging_branch_is_bounded_by_its_own_or_the_fan_outs_timeout(run: Run, limited: str) -> None:
    """The join goes on with the others."""

    async def work(node: Node, context: Context) -> None:
        if node.id == "b":
            await anyio.sleep_forever()

    result = await run(THREE + f'{limited} [timeout="200ms"]', handlers={"codergen": Doing(work)})
    assert result.status == "success", result.failure_reason
    [hung] = [one for one in result.context["parallel.results"] if one["id"] == "b"]
    assert hung["outcome"] == "fail"
    assert "took longer than its timeout of 200ms" in hung["failure_reason"]


async def test_all_branches_failed_fails_the_fan_in_whose_edges_decide(run: Run) -> None:
    script: dict[str, Any] = dict.fromkeys("abc", "fail")
    result = await run(THREE, script)
    assert result.status == "fail"
    assert "fan-in 'join': all branches failed: a (scripted)" in result.failure_reason
    assert "after" not in run.calls


async def test_a_failed_fan_in_follows_its_fail_edge(run: Run) -> None:
    body = THREE.replace("join -> after", 'join -> mend [condition="outcome=fail"]; mend -> exit; join -> after')
    result = await run(body, dict.fromkeys("abc", "fail"))
    assert (result.status, run.calls[-1]) == ("success", "mend")


async def test_all_branches_failed_never_slips_through_an_ordinary_join(run: Run) -> None:
    body = THREE.replace("join [shape=tripleoctagon]", "join")
    assert (await run(body, {"a": "fail"})).node_outcomes["fork"].status is StageStatus.PARTIAL_SUCCESS
    failed = await Run(run.folder / "second")(body, dict.fromkeys("abc", "fail"))
    assert failed.failure_reason.startswith("fan-out 'fork': 0 of 3 branches succeeded; failed: a (scripted)")


async def test_first_success_ends_the_fan_out_and_cancels_the_rest(run: Run) -> None:
    async def work(node: Node, context: Context) -> Outcome | None:
        if node.id == "a":
            return Outcome.fail("no")
        if node.id == "c":
            await anyio.sleep_forever()
        return None

    body = THREE.replace("shape=component", "shape=component, join_policy=first_success")
    result = await run(body, handlers={"codergen": Doing(work)})
    assert result.status == "success", result.failure_reason
    outcomes = {one["id"]: one["outcome"] for one in result.context["parallel.results"]}
    assert outcomes == {"a": "fail", "b": "success", "c": "skipped"}
    assert result.context["parallel.fan_in.best_id"] == "b"
    assert result.node_outcomes["fork"].status is StageStatus.SUCCESS


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_abandoned_stage_is_told_to_have_ended(run: Run) -> None:
    async def work(node: Node, context: Context) -> None:
        if node.id == "c":
            await anyio.sleep_forever()

    body = THREE.replace("shape=component", "shape=component, join_policy=first_success")
    assert (await run(body, handlers={"codergen": Doing(work)})).status == "success"
    ends = [event.index for event in run.events(StageCompleted) + run.events(StageFailed)]
    assert sorted(ends) == sorted(event.index for event in run.events(StageStarted))
    (stopped,) = run.events(StageFailed)
    assert (stopped.name, stopped.error) == ("c", "stage 'c' was stopped before it ended")
    assert read_states(read_events(run.folder / "run"))["c"] is StageState.FAILED


async def test_logs_of_all_branches_are_kept_once(run: Run) -> None:
    async def work(node: Node, context: Context) -> None:
        context.append_log(f"{node.id} was here")

    body = THREE.replace("start -> fork", "start -> before -> fork")
    result = await run(body, handlers={"codergen": Doing(work)})
    assert result.status == "success"
    logs = Checkpoint.load(run.folder / "run").logs
    assert logs == [f"{name} was here" for name in ("before", "a", "b", "c", "after")]


async def test_first_success_without_any_fails(run: Run) -> None:
    body = THREE.replace("shape=component", "shape=component, join_policy=first_success")
    result = await run(body, dict.fromkeys("abc", "fail"))
    assert "join_policy first_success needs 1, but 0 of 3 branches succeeded" in result.failure_reason
    assert result.node_outcomes["fork"].status is StageStatus.FAIL


@pytest.mark.parametrize(
    ("count", "failing", "status"),
    [("join_count=2,", "a", "success"), ("join_count=2,", "ab", "fail"), ("", "a", "success"), ("", "ab", "fail")],
)
async def test_quorum(run: Run, count: str, failing: str, status: str) -> None:
    body = THREE.replace("shape=component", f"shape=component, {count} join_policy=quorum, max_parallel=1")
    result = await run(body, dict.fromkeys(failing, "fail"))
    assert result.status == status
    assert ("after" in run.calls) == (status == "success")


async def test_quorum_beyond_the_number_of_branches_is_a_clear_failure(run: Run) -> None:
    body = THREE.replace("shape=component", "shape=component, join_policy=quorum, join_count=4")
    assert "join_count is 4, but there are 3 branches" in (await run(body)).failure_reason
    assert run.calls == []


async def test_a_failure_is_routed_within_its_branch(run: Run) -> None:
    body = SHAPES + 'fork -> a -> join; a -> mend [condition="outcome=fail"]; mend -> join; fork -> b -> join;'
    body += 'b [retry_target=mend_b]; mend_b; b -> mend_b [condition="context.never=1"]; mend_b -> join;'
    result = await run(body, {"a": "fail", "b": "fail"})
    assert result.status == "success"
    assert sorted(run.calls) == ["a", "after", "b", "mend", "mend_b"]
    assert [one["outcome"] for one in result.context["parallel.results"]] == ["success", "success"]


async def test_retries_work_within_a_branch(run: Run) -> None:
    result = await run(THREE + "a [max_retries=1]", {"a": ["fail", "success"]})
    assert [one["outcome"] for one in result.context["parallel.results"]] == ["success"] * 3
    assert run.calls.count("a") == 2


async def test_retrying_a_fan_out_keeps_the_branches_that_succeeded(run: Run) -> None:
    body = SHAPES.replace("shape=component", "shape=component, max_retries=1, join_policy=quorum, join_count=2")
    result = await run(body + "fork -> a -> a2 -> join; fork -> b -> join;", {"a2": ["fail", "success"]})
    assert result.status == "success"
    assert sorted(run.calls) == ["a", "a2", "a2", "after", "b"]


async def test_a_branch_that_leads_back_to_its_fan_out_fails(run: Run) -> None:
    body = THREE + 'a -> fork [condition="outcome=success"];'
    result = await run(body)
    assert result.status == "success"
    assert "leads back to it" in result.context["parallel.results"][0]["failure_reason"]
    assert run.calls.count("a") == 1


async def test_a_branch_can_not_restart_the_run(run: Run) -> None:
    result = await run(THREE + 'a -> x [condition="outcome=success", loop_restart=true]; x -> join;')
    assert "a branch can't restart the run" in result.context["parallel.results"][0]["failure_reason"]


async def test_goal_gates_in_branches_are_kept_at_the_exit(run: Run) -> None:
    result = await run(THREE + "b [goal_gate=true]", {"b": "fail"})
    assert "goal gate 'b' is unsatisfied" in result.failure_reason
    assert "after" in run.calls


async def test_visits_of_branches_count_for_the_run(run: Run) -> None:
    body = (
        THREE.replace("join -> after", "join -> again; again -> fork; again -> after")
        + "a [max_visits=2]; max_node_visits=4"
    )
    result = await run(body, {"again": Outcome.success(suggested_next_ids=("fork",))}, context={})
    assert result.status == "fail"
    assert run.calls.count("a") == 2


async def test_nested_fan_outs(run: Run) -> None:
    body = (
        SHAPES
        + """fork -> a -> inner -> c -> inner_join; inner -> d -> inner_join; inner_join -> e -> join
        fork -> b -> join; inner [shape=component]; inner_join [shape=tripleoctagon];"""
    )
    result = await run(body, {"d": "fail"})
    assert result.status == "success", result.failure_reason
    assert sorted(run.calls) == ["a", "after", "b", "c", "d", "e"]
    assert result.completed_nodes == (
        *("start", "a", "c", "d", "inner", "inner_join", "e", "b", "fork", "join", "after", "exit"),
    )
    assert [one["id"] for one in result.context["parallel.results"]] == ["a", "b"]
    assert [event.branch_count for event in run.events(ParallelStarted)] == [2, 2]


async def test_a_node_that_branches_share_runs_for_one_at_a_time(run: Run) -> None:
    under_way = []

    async def work(node: Node, context: Context) -> None:
        if node.id == "review":
            under_way.append(node.id)
            assert len(under_way) == 1
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            under_way.pop()

    body = SHAPES + "fork -> a -> review -> join; fork -> b -> review;"
    result = await run(body, handlers={"codergen": Doing(work)})
    assert result.status == "success", result.failure_reason
    assert result.completed_nodes.count("review") == 2


async def test_human_gates_within_branches(run: Run) -> None:
    asked = []

    def answer(question: Any) -> Any:
        asked.append(question.stage)
        return Answer(value="N")

    body = (
        SHAPES
        + """fork -> g1 -> yes1 [label="[Y] Yes"]; g1 -> no1 [label="[N] No"]; yes1 -> join; no1 -> join
        fork -> g2 -> yes2 [label="[Y] Yes"]; g2 -> no2 [label="[N] No"]; yes2 -> join; no2 -> join
        g1 [shape=hexagon]; g2 [shape=hexagon]"""
    )
    body = body.replace("fork -> g1 ->", "fork -> g1; g1 ->").replace("fork -> g2 ->", "fork -> g2; g2 ->")
    result = await run(body, interviewer=CallbackInterviewer(answer))
    assert result.status == "success", result.failure_reason
    assert sorted(asked) == ["g1", "g2"]
    assert sorted(run.calls) == ["after", "no1", "no2"]
    approved = Run(run.folder / "second")
    assert (await approved(body, interviewer=AutoApproveInterviewer())).status == "success"
    assert sorted(approved.calls) == ["after", "yes1", "yes2"]


async def test_conditions_choose_the_branches(run: Run) -> None:
    body = SHAPES + 'fork -> a -> join; fork -> b [condition="context.with_b=yes"]; b -> join;'
    assert (await run(body, context={"with_b": "no"})).status == "success"
    assert run.calls == ["a", "after"]


async def test_branches_that_never_meet_end_the_run(run: Run) -> None:
    body = "start [shape=Mdiamond]; exit [shape=Msquare]; start -> fork; fork [shape=component]; fork -> a; fork -> b;"
    result = await run(body + "start -> exit [weight=-1]")
    assert (result.status, sorted(run.calls)) == ("success", ["a", "b"])


async def test_stage_events_of_branches_have_numbers_of_their_own(run: Run) -> None:
    await run(THREE)
    started = [event.index for event in run.events(StageStarted)]
    assert sorted(started) == list(range(len(started)))
    assert len(run.events(StageCompleted)) == len(started)


async def test_resume_in_the_middle_of_a_fan_out_runs_only_what_is_unfinished(run: Run) -> None:
    hold = anyio.Event()

    async def work(node: Node, context: Context) -> Outcome | None:
        calls.append(node.id)
        if node.id == "b":
            return Outcome.fail("no")
        if node.id == "c2":
            hold.set()
            await anyio.sleep_forever()
        return Outcome.success(context_updates={f"by.{node.id}": 1})

    calls: list[str] = []
    body = SHAPES + "fork -> a -> join; fork -> b -> join; fork -> c -> c2 -> c3 -> join;"
    runner = PipelineRunner(logs_root=run.folder / "run", handlers={"codergen": Doing(work)})
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.run, f"digraph g {{ {body} }}")
            await hold.wait()
            runner.cancel()
    assert sorted(calls) == ["a", "b", "c", "c2"]
    saved = json.loads((run.folder / "run" / "checkpoint.json").read_bytes())
    assert {number: branch["status"] for number, branch in saved["branches"].items()} == {
        "0": "completed",
        "1": "failed",
        "2": "running",
    }
    result = await run(body, resume=True)
    assert result.status == "success", result.failure_reason
    assert run.calls == ["c2", "c3", "after"]
    assert result.completed_nodes == ("start", "a", "b", "c", "c2", "c3", "fork", "join", "after", "exit")
    updates = {one["id"]: one["context_updates"] for one in result.context["parallel.results"]}
    assert updates == {"a": {"by.a": 1}, "b": {}, "c": {"by.c": 1}}
    assert (run.folder / "run" / "b" / "status.json").exists()


async def test_resume_of_a_failed_fan_out_tries_the_failed_stages_again(run: Run) -> None:
    body = SHAPES + "fork -> a -> join; fork -> b -> b2 -> join;"
    body = body.replace("shape=component", "shape=component, join_policy=quorum, join_count=2")
    failed = await run(body, {"b2": "fail"})
    assert failed.status == "fail"
    resumed = await run(body, resume=True)
    assert (resumed.status, run.calls) == ("success", ["b2", "after"])
    assert resumed.completed_nodes.count("a") == 1


async def test_a_loop_runs_the_branches_afresh(run: Run) -> None:
    body = THREE.replace("join -> after", 'join -> check; check -> fork [condition="outcome=fail"]; check -> after')
    result = await run(body, {"check": ["fail", "success"], "a": ["fail", "success"]})
    assert result.status == "success", result.failure_reason
    assert [run.calls.count(id) for id in "abc"] == [2, 2, 2]
    assert [one["outcome"] for one in result.context["parallel.results"]] == ["success"] * 3
