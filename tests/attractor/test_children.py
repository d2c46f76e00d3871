"""Pipelines that are stages of others: sub-pipelines and manager loops (sections 4.11 and 9.4)."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import Outcome, ValidationError, parse_dot
from attractor.backends.agent import AgentBackend
from attractor.engine.limits import Limits
from attractor.event_log import read_events
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.checkpoint import Checkpoint
from attractor.state.suspensions import find_suspensions, give_value
from attractor.state.usage import TokenUsage
from attractor.suspension import Suspend
from attractor.testing import ScriptedHandler
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter, respond

CHILD = """digraph child { start [shape=Mdiamond]; exit [shape=Msquare]; %s
    one [prompt="One of $goal"]; two; start -> one -> two -> exit }"""
SUB = """digraph parent { goal="build"; start [shape=Mdiamond]; exit [shape=Msquare]; %s
    before; sub [type=pipeline, "stack.child_dotfile"="child.dot" %s]; after
    start -> before -> sub -> after -> exit }"""
MANAGER = """digraph parent { goal="build"; "stack.child_dotfile"="child.dot"; start [shape=Mdiamond]
    exit [shape=Msquare]; boss [shape=house, "manager.poll_interval"="20ms" %s]; start -> boss -> exit }"""


class Work:
    """Notes which node ran under which goal; waits where a node's `event` says so."""

    def __init__(self, replies: dict[str, Any] | None = None) -> None:
        self.ran: list[str] = []
        self.seen: dict[str, dict[str, Any]] = {}
        self.started = {name: anyio.Event() for name in ("one", "two")}
        self.gates: dict[str, anyio.Event] = {}
        self._replies = replies or {}

    async def execute(self, node: Any, context: Any, graph: Any, logs_root: Path) -> Outcome:
        self.ran.append(node.id)
        self.seen[node.id] = context.snapshot()
        if node.id in self.started:
            self.started[node.id].set()
        if node.id in self.gates:
            await self.gates[node.id].wait()
        reply = self._replies.get(node.id)
        if callable(reply):
            reply = reply(context)
        if isinstance(reply, list):
            reply = reply.pop(0)
        return reply or Outcome.success(context_updates={f"by.{node.id}": graph.goal})


async def run(folder: Path, parent: str, child: str = CHILD % "", work: Any = None, **options: Any) -> RunResult:
    (folder / "child.dot").write_text(child)
    runner = PipelineRunner(
        logs_root=folder / "run", working_dir=folder, handlers={"codergen": work or Work()}, **options
    )
    return await runner.run(parent)


async def resume(folder: Path, work: Any, **options: Any) -> RunResult:
    return await PipelineRunner(handlers={"codergen": work}, **options).resume(folder / "run")


def events(folder: Path, *kinds: str) -> list[Any]:
    return [event for event in read_events(folder) if event.type in kinds]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_sub_pipeline_is_a_stage(tmp_path: Path) -> None:
    work = Work({"before": Outcome.success(context_updates={"plan": "small"})})
    result = await run(tmp_path, SUB % ("", ""), work=work)
    assert (result.status, result.completed_nodes) == ("success", ("start", "before", "sub", "after", "exit"))
    assert work.ran == ["before", "one", "two", "after"]
    assert work.seen["one"]["plan"] == "small", "the child begins with the parent's context"
    assert work.seen["one"]["stack.parent.node"] == "sub"
    assert result.context["sub.by.two"] == "build", "what it changed comes back; it had no goal of its own"
    assert "by.two" not in result.context
    assert "sub.plan" not in result.context, "what it was given and left alone does not"
    child = tmp_path / "run/sub/child-0"
    assert result.context["sub.run_dir"] == str(child)
    assert Checkpoint.load(child).completed_nodes == ["start", "one", "two", "exit"]
    assert [event.status for event in events(tmp_path / "run", "ChildCompleted")] == ["success"]
    assert [event.name for event in events(child, "StageStarted")] == ["start", "one", "two", "exit"]


async def test_a_child_keeps_its_own_goal(tmp_path: Path) -> None:
    result = await run(tmp_path, SUB % ("", ""), CHILD % 'goal="own"')
    assert result.context["sub.by.one"] == "own"


async def test_a_failing_child_fails_its_stage_and_is_routed(tmp_path: Path) -> None:
    parent = SUB.replace("after -> exit", 'after -> exit; sub -> mend [condition="outcome=fail"]; mend -> exit')
    result = await run(tmp_path, parent % ("", ""), work=Work({"two": Outcome.fail("no luck")}))
    assert (result.status, result.completed_nodes) == ("success", ("start", "before", "sub", "mend", "exit"))
    assert "the child pipeline child.dot of 'sub' failed" in result.node_outcomes["sub"].failure_reason
    assert "no luck" in result.node_outcomes["sub"].failure_reason


async def test_a_retry_goes_on_with_the_child(tmp_path: Path) -> None:
    work = Work({"two": [Outcome.fail("flaky"), Outcome.success()]})
    result = await run(tmp_path, SUB % ("", ', max_retries=1, retry_policy="linear"'), work=work)
    assert result.status == "success"
    assert work.ran == ["before", "one", "two", "two", "after"]


async def test_every_visit_is_a_child_of_its_own(tmp_path: Path) -> None:
    parent = SUB.replace(
        "after -> exit",
        'after -> exit [condition="outcome=success"]; after -> before [label=again, condition="outcome=again"]',
    )
    again = Outcome.fail("once more", word="again")
    work = Work({"after": [again, Outcome.success()]})
    result = await run(tmp_path, parent % ("", ""), work=work)
    assert result.status == "success"
    assert work.ran == ["before", "one", "two", "after"] * 2
    assert sorted(path.name for path in (tmp_path / "run/sub").glob("child-*")) == ["child-0", "child-1"]


async def test_a_resumed_parent_tries_the_failed_node_of_the_child_again(tmp_path: Path) -> None:
    failed = await run(tmp_path, SUB % ("", ""), work=Work({"two": Outcome.fail("broken")}))
    assert failed.status == "fail"
    work = Work()
    assert (await resume(tmp_path, work)).status == "success"
    assert work.ran == ["two", "after"]


@pytest.mark.parametrize("parent", [SUB % ("", ""), MANAGER % ""], ids=["sub-pipeline", "manager"])
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelling_the_parent_cancels_the_child(tmp_path: Path, parent: str) -> None:
    (tmp_path / "child.dot").write_text(CHILD % "")
    work = Work()
    work.gates["two"] = anyio.Event()
    runner = PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path, handlers={"codergen": work})
    results = []

    async def go() -> None:
        results.append(await runner.run(parent))

    with anyio.fail_after(3):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            await work.started["two"].wait()
            runner.cancel()
    assert results[0].cancelled
    child = next((tmp_path / "run").glob("*/child-0"))
    assert Checkpoint.load(child).status == "cancelled"
    finished = Work()
    assert (await resume(tmp_path, finished)).status == "success"
    assert [name for name in finished.ran if name in ("one", "two")] == ["two"], "no completed node ran again"


def spend(tokens: int) -> Any:
    def reply(context: Any) -> Outcome:
        context.run.add_usage(TokenUsage(input_tokens=tokens, cost=tokens / 1000))
        return Outcome.success()

    return reply


async def test_what_a_child_uses_counts_once(tmp_path: Path) -> None:
    work = Work({"one": spend(10), "two": [Outcome.fail("broken")]})
    failed = await run(tmp_path, SUB % ("", ""), work=work)
    assert failed.usage is not None
    assert failed.usage.total_tokens == 10
    result = await resume(tmp_path, Work({"two": spend(5)}))
    assert result.usage is not None
    assert (result.usage.total_tokens, result.usage.cost) == (15, pytest.approx(0.015))


async def test_a_cancelled_child_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "child.dot").write_text(CHILD % "")
    work = Work({"one": spend(10)})
    work.gates["two"] = anyio.Event()
    runner = PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path, handlers={"codergen": work})
    results = []

    async def go() -> None:
        results.append(await runner.run(SUB % ("", "")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await work.started["two"].wait()
        runner.cancel()
    result = await resume(tmp_path, Work({"two": spend(5)}))
    assert [each.usage.total_tokens for each in (results[0], result) if each.usage] == [10, 15]


async def test_budgets_of_the_parent_stop_the_child(tmp_path: Path) -> None:
    work = Work({"before": spend(4), "one": spend(10)})
    result = await run(tmp_path, SUB % ("", ""), work=work, limits=Limits(max_tokens=14))
    assert work.ran == ["before", "one"]
    assert "used 14 tokens of its max_tokens of 14" in result.failure_reason


async def test_budgets_count_children_in_branches_together(tmp_path: Path) -> None:
    parent = """digraph parent { start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]
        join [shape=tripleoctagon]; "stack.child_dotfile"="child.dot"; max_tokens=15
        left [type=pipeline]; right [type=pipeline]; start -> fork; fork -> left -> join; fork -> right -> join
        join -> exit }"""
    work = Work({"one": spend(8), "two": spend(8)})
    both = work.gates["one"] = anyio.Event()

    class Together:
        async def execute(self, node: Any, context: Any, graph: Any, logs_root: Path) -> Outcome:
            if "one" in work.ran:
                both.set()
            return await work.execute(node, context, graph, logs_root)

    result = await run(tmp_path, parent, work=Together())
    assert result.status == "fail"
    assert "max_tokens of 15" in result.failure_reason
    assert (work.ran.count("one"), work.ran.count("two") <= 1) == (2, True)


async def test_a_pipeline_that_runs_itself_ends(tmp_path: Path) -> None:
    parent = SUB % ("", "")
    result = await run(tmp_path, parent, parent.replace("before; sub", "sub").replace("before -> ", ""))
    assert result.status == "fail"
    assert "more than 8 deep; does one of them run itself?" in result.failure_reason
    assert len(list((tmp_path / "run").rglob("manifest.json"))) == 9


@pytest.mark.parametrize("parent", [SUB % ("", ""), MANAGER % ""], ids=["sub-pipeline", "manager"])
async def test_a_missing_child_file_fails_at_once(tmp_path: Path, parent: str) -> None:
    result = await PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path).run(parent)
    assert result.status == "fail"
    assert f"child.dot does not exist; looked for {tmp_path / 'child.dot'}" in result.failure_reason


async def test_a_child_with_errors_says_them(tmp_path: Path) -> None:
    result = await run(tmp_path, SUB % ("", ""), "digraph child { start [shape=Mdiamond]; start -> a }")
    assert "exit" in result.failure_reason
    result = await PipelineRunner(logs_root=tmp_path / "run2", working_dir=tmp_path).run(
        (SUB % ("", "")).replace("child.dot", ".")
    )
    assert "does not exist" in result.failure_reason


async def test_no_child_file_is_an_error_of_the_graph(tmp_path: Path) -> None:
    parent = (SUB % ("", "")).replace('"stack.child_dotfile"="child.dot"', "")
    with pytest.raises(ValidationError, match=r"(?s)sub.*stack\.child_dotfile"):
        await PipelineRunner(logs_root=tmp_path / "run").run(parent)


async def test_a_child_works_in_its_own_directory(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    child = CHILD.replace("two;", 'two [shape=parallelogram, tool_command="pwd"];') % ""
    result = await run(tmp_path, SUB % ("", ', "stack.child_workdir"="inner"'), child)
    assert result.context["sub.tool.output"].strip() == str((tmp_path / "inner").resolve())


async def test_a_manager_ends_with_its_child(tmp_path: Path) -> None:
    result = await run(tmp_path, MANAGER % "")
    assert (result.status, result.node_outcomes["boss"].notes) == ("success", "Child completed: child.dot, 4 nodes")
    told = {key: result.context[f"stack.child.{key}"] for key in ("status", "outcome", "completed", "active_stage")}
    assert told == {"status": "completed", "outcome": "success", "completed": 4, "active_stage": ""}
    assert result.context["boss.by.two"] == "build"


async def test_a_manager_fails_with_its_child(tmp_path: Path) -> None:
    result = await run(tmp_path, MANAGER % "", work=Work({"two": Outcome.fail("no luck")}))
    assert "no luck" in result.failure_reason
    assert (result.context["stack.child.status"], result.context["stack.child.outcome"]) == ("failed", "fail")


async def test_a_manager_stops_where_its_condition_holds(tmp_path: Path) -> None:
    work = Work()
    work.gates["two"] = anyio.Event()
    stop = ', "manager.stop_condition"="context.stack.child.active_stage=two && stack.child.completed >= 2"'
    result = await run(tmp_path, MANAGER % stop, work=work)
    assert (result.status, result.node_outcomes["boss"].notes) == ("success", "Stop condition satisfied")
    assert Checkpoint.load(tmp_path / "run/boss/child-0").status == "cancelled"


async def test_a_manager_gives_up_after_its_cycles(tmp_path: Path) -> None:
    work = Work()
    work.gates["two"] = anyio.Event()
    result = await run(tmp_path, MANAGER % ', "manager.max_cycles"=3', work=work)
    assert "max cycles exceeded: the child has not ended after 3 looks" in result.failure_reason
    assert Checkpoint.load(tmp_path / "run/boss/child-0").status == "cancelled"
    # Another attempt goes on with the child.
    finished = Work()
    assert (await resume(tmp_path, finished)).status == "success"
    assert finished.ran == ["two"]


async def test_a_manager_tells_of_progress(tmp_path: Path) -> None:
    work = Work()
    work.gates["two"] = anyio.Event()

    async def open_gate() -> None:
        await work.started["two"].wait()
        while not events(tmp_path / "run", "ChildProgressed"):
            await anyio.sleep(0.01)
        work.gates["two"].set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_gate)
        result = await run(tmp_path, MANAGER % "", work=work)
    assert result.status == "success"
    seen = events(tmp_path / "run", "ChildStarted", "ChildProgressed", "ChildCompleted")
    assert (seen[0].type, seen[-1].type) == ("ChildStarted", "ChildCompleted")
    assert "running" in {event.status for event in seen[1:-1]}


async def test_steering_reaches_the_agent_at_work(tmp_path: Path) -> None:
    """The child's agent gets to read what the manager's prompt says, after the tool round in progress."""
    (tmp_path / "child.dot").write_text(
        """digraph child { start [shape=Mdiamond]; exit [shape=Msquare]; work [prompt="Work."]
        start -> work -> exit }"""
    )
    seen = anyio.Event()

    def answer(request: Any) -> Any:
        if "Use tabs for build." in str(request.messages[2:]):
            seen.set()
            return "Done, with tabs."
        return respond(tool_calls=[("shell", {"command": "sleep 0.1"})])

    class Endless(ScriptedAdapter):
        def _next(self, request: Any) -> Any:
            self.requests.append(request)
            step = answer(request)
            return respond(step, model=request.model, provider=self.name) if isinstance(step, str) else step

    adapter = Endless()
    backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=tmp_path)
    parent = MANAGER % ', "manager.actions"="observe,steer,wait", prompt="Use tabs for $goal."'
    with anyio.fail_after(20):
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run", working_dir=tmp_path).run(parent)
    assert result.status == "success"
    assert seen.is_set()
    [steered] = events(tmp_path / "run", "ChildSteered")
    assert steered.text == "Use tabs for build."
    stage = tmp_path / "run/boss/child-0" / steered.stage
    assert (stage / "steering.md").read_text() == "Use tabs for build.\n\n"


async def test_a_manager_steers_only_where_its_guard_says_so(tmp_path: Path) -> None:
    work = Work()
    work.gates["two"] = anyio.Event()
    options = (
        ', "manager.actions"="observe,steer,wait", "manager.steer_cooldown"="0s", "manager.max_cycles"=5'
        ', prompt="Hurry."'
        ', "manager.steer_condition"="stack.child.active_stage=nothing"'
    )
    await run(tmp_path, MANAGER % options, work=work)
    assert not events(tmp_path / "run", "ChildSteered")


async def test_a_manager_watches_the_run_of_another(tmp_path: Path) -> None:
    work = Work()
    work.gates["two"] = anyio.Event()
    (tmp_path / "child.dot").write_text(CHILD % "")
    other = PipelineRunner(logs_root=tmp_path / "other", handlers={"codergen": work})
    results = []

    async def manage() -> None:
        watch = ', "stack.child_autostart"=false, "stack.child_run_dir"="other"'
        results.append(await run(tmp_path, MANAGER % watch))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manage)
        tasks.start_soon(other.run, CHILD % "")
        await work.started["two"].wait()
        while not events(tmp_path / "run", "ChildProgressed"):
            await anyio.sleep(0.01)
        work.gates["two"].set()
    assert results[0].status == "success"
    assert results[0].context["stack.child.status"] == "completed"
    assert not list((tmp_path / "run/boss").glob("child-*"))


async def test_watching_needs_a_run_directory(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"(?s)boss.*stack\.child_run_dir"):
        await run(tmp_path, MANAGER % ', "stack.child_autostart"=false')


async def test_handlers_and_transforms_serve_children_too(tmp_path: Path) -> None:
    handler = ScriptedHandler()
    child = CHILD.replace("two;", "two [type=special];") % ""
    (tmp_path / "child.dot").write_text(child)
    runner = PipelineRunner(
        logs_root=tmp_path / "run", working_dir=tmp_path, handlers={"special": handler}, context={"a": 1}
    )
    assert (await runner.run(SUB % ("", ""))).status == "success"
    assert handler.calls == ["two"]
    manifest = json.loads((tmp_path / "run/sub/child-0/manifest.json").read_text())
    assert manifest["context"]["a"] == 1


@pytest.mark.parametrize("parent", [SUB % ("", ""), MANAGER % ""], ids=["sub-pipeline", "manager"])
async def test_a_parent_waits_with_its_child(tmp_path: Path, parent: str) -> None:
    asks = [True]

    def reply(context: Any) -> Outcome:
        if asks and not context.run.given:
            raise Suspend("which?")
        return Outcome.success(context_updates={"chosen": context.run.given[0]})

    result = await run(tmp_path, parent, work=Work({"two": reply}))
    assert (result.waiting, result.status) == (True, "fail")
    [child] = (tmp_path / "run").glob("*/child-0")
    [waiting] = find_suspensions(Checkpoint.load(child))
    give_value(child, waiting.id, "this")
    work = Work({"two": reply})
    done = await resume(tmp_path, work)
    assert done.status == "success"
    assert next(value for key, value in done.context.items() if key.endswith(".chosen")) == "this"
    assert "one" not in work.ran


async def test_files_are_looked_for_beside_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "child.dot").write_text(CHILD % "")
    monkeypatch.chdir(tmp_path)
    graph = parse_dot(SUB % ("", ""), "pipelines/parent.dot")
    work = Work({"before": Outcome.fail("not yet")})
    first = PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path, handlers={"codergen": work})
    assert (await first.run(graph)).status == "fail"
    monkeypatch.chdir(folder.parent.parent)
    # Whoever resumes has the graph from the run directory, and may be anywhere.
    graph = parse_dot((tmp_path / "run/pipeline.dot").read_text(), str(tmp_path / "run/pipeline.dot"))
    again = PipelineRunner(handlers={"codergen": Work()})
    assert (await again.resume(tmp_path / "run", graph=graph)).status == "success"
