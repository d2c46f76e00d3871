"""The loop: steps, routing, retries, goal gates, limits, restarts (sections 3.2 to 3.7)."""

import json
from pathlib import Path

import anyio
import pytest
from attractor.dot import parse_dot
from attractor.engine.execution import Execution
from attractor.engine.limits import Limits
from attractor.event_log import EventLog, read_events
from attractor.events import Event, StageCompleted, StageFailed, StageRetrying, StageStarted
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.handlers.defaults import build_registry
from attractor.outcome import Outcome, StageStatus
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.json_values import encode_json
from attractor.state.step import RunStatus
from attractor.testing import Reply, ScriptedHandler


class Walk:
    """Executes graphs in a directory, without parsing, lint or a runner around it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waits: list[float] = []

    async def __call__(
        self,
        body: str,
        script: dict[str, Reply | list[Reply]] | None = None,
        *,
        limits: Limits | None = None,
        **handlers: Handler,
    ) -> Checkpoint:
        graph = parse_dot(f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; {body} }}")
        self.handler = ScriptedHandler(script)
        registry = build_registry().merged_with({"codergen": self.handler, **handlers})
        log = EventLog(self.folder)
        execution = Execution(
            self.folder, graph, registry, log.emit, {}, limits=limits or Limits.of_graph(graph), sleep=self._sleep
        )
        execution.begin("run", "hash")
        try:
            await execution.run()
        finally:
            log.close()
            self.checkpoint = execution.checkpoint
        return execution.checkpoint

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await anyio.lowlevel.checkpoint()

    @property
    def calls(self) -> list[str]:
        return self.handler.calls

    @property
    def events(self) -> list[Event]:
        return list(read_events(self.folder))


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    return Walk(tmp_path)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_engine_walks_a_linear_pipeline_from_start_to_exit(walk: Walk) -> None:
    end = await walk("start -> a -> b -> c -> exit")
    assert (end.status, end.current_node) == (RunStatus.COMPLETED, "exit")
    assert end.completed_nodes == ["start", "a", "b", "c", "exit"]
    assert walk.calls == ["a", "b", "c"]


async def test_outcome_is_written_to_status_json_of_each_stage(walk: Walk) -> None:
    await walk("start -> a -> exit", {"a": Outcome.success("fine", context_updates={"k": 1})})
    status = json.loads((walk.folder / "a" / "status.json").read_bytes())
    assert (status["outcome"], status["status"], status["notes"], status["context_updates"]) == (
        "success",
        "success",
        "fine",
        {"k": 1},
    )
    assert (walk.folder / "start" / "status.json").exists()


async def test_conditional_branching_follows_success_and_fail_paths(walk: Walk) -> None:
    body = """start -> test -> gate; gate [shape=diamond]
              gate -> exit [label=Yes, condition="outcome=success"]
              gate -> fix [label=No, condition="outcome!=success"]; fix -> test"""
    end = await walk(body, {"test": ["fail", "success"]})
    assert end.completed_nodes == ["start", "test", "gate", "fix", "test", "gate", "exit"]


async def test_chained_diamonds_pass_the_outcome_on(walk: Walk) -> None:
    body = """start -> a -> d1 -> d2; d1 [shape=diamond]; d2 [shape=diamond]
              d2 -> exit [condition="outcome=success"]; d2 -> b [condition="outcome=needs_work"]; b -> exit"""
    end = await walk(body, {"a": Outcome.fail("x", word="needs_work", terminal=True)})
    assert end.completed_nodes == ["start", "a", "d1", "d2", "b", "exit"]


async def test_context_updates_from_one_node_are_visible_to_the_next(walk: Walk) -> None:
    seen: list[object] = []

    def look(node: Node, context: Context) -> Outcome:
        seen.extend(context.get(key) for key in ("color", "outcome", "preferred_label", "current_node", "graph.goal"))
        return Outcome.success()

    outcome = Outcome.success(context_updates={"color": "blue"}, preferred_label="Go")
    await walk('goal="ship"; start -> a -> b -> exit', {"a": outcome, "b": look})
    assert seen == ["blue", "success", "Go", "b", "ship"]


async def test_retry_on_failure_with_max_retries_2_makes_three_attempts_then_cleanup(walk: Walk) -> None:
    body = 'a [max_retries=2]; start -> a -> exit; a -> cleanup [condition="outcome=fail"]; cleanup -> exit'
    end = await walk(body, {"a": ["retry", RuntimeError("boom"), "retry"]})
    assert walk.calls == ["a", "a", "a", "cleanup"]
    assert (end.status, end.node_retries, end.executions["a"]) == (RunStatus.COMPLETED, {"a": 2}, 3)
    assert end.context_values["internal.retry_count.a"] == 2
    assert len(walk.waits) == 2
    kinds = [type(event) for event in walk.events if getattr(event, "name", "") == "a"]
    assert kinds == [StageStarted, StageFailed, StageRetrying, StageFailed, StageRetrying, StageFailed]


async def test_retry_counter_is_reset_by_success(walk: Walk) -> None:
    end = await walk("a [max_retries=2]; start -> a -> exit", {"a": ["retry", "success"]})
    assert end.context_values["internal.retry_count.a"] == 0
    assert end.node_retries == {"a": 1}


async def test_failed_node_goes_to_its_retry_target_although_edges_exist(walk: Walk) -> None:
    body = 'build [retry_target=fix]; start -> build -> exit [condition="outcome=success"]; fix -> build'
    end = await walk(body, {"build": ["fail", "success"]})
    assert (walk.calls, end.status) == (["build", "fix", "build"], RunStatus.COMPLETED)


async def test_failed_node_without_target_fails_the_run_with_its_reason(walk: Walk) -> None:
    end = await walk('start -> a; a -> exit [condition="outcome=success"]', {"a": Outcome.fail("no luck")})
    assert (end.status, end.reason, end.next_node) == (RunStatus.FAILED, "no luck", "a")


async def test_goal_gate_blocks_exit_and_goes_to_the_retry_target(walk: Walk) -> None:
    body = """gate [goal_gate=true, retry_target=work]; start -> work -> gate
              gate -> exit [condition="outcome=success"]; gate -> exit [condition="outcome=fail"]"""
    end = await walk(body, {"gate": ["fail", "success"]})
    assert (walk.calls, end.status) == (["work", "gate", "work", "gate"], RunStatus.COMPLETED)
    assert end.gate_rounds == 1


async def test_goal_gate_allows_exit_when_all_satisfied(walk: Walk) -> None:
    end = await walk("a [goal_gate=true]; start -> a -> exit", {"a": "partial_success"})
    assert end.status is RunStatus.COMPLETED


async def test_goal_gate_without_retry_target_fails_the_run(walk: Walk) -> None:
    end = await walk('a [goal_gate=true]; start -> a; a -> exit [condition="outcome=fail"]', {"a": "fail"})
    assert (end.status, end.next_node) == (RunStatus.FAILED, "a")
    assert "goal gate 'a' is unsatisfied" in end.reason


async def test_goal_gate_rounds_are_bounded(walk: Walk) -> None:
    body = (
        """gate [goal_gate=true, retry_target=work]; start -> work -> gate; gate -> exit [condition="outcome=fail"]"""
    )
    replies: list[Reply] = [Outcome.fail(f"reason {n}") for n in range(9)]
    end = await walk(body, {"gate": replies}, limits=Limits(max_goal_gate_rounds=2))
    assert (end.status, walk.calls.count("gate")) == (RunStatus.FAILED, 3)
    assert "after 2 rounds" in end.reason


async def test_goal_gate_is_checked_at_a_dead_end_too(walk: Walk) -> None:
    body = 'g [goal_gate=true]; start -> g -> exit; g -> b [condition="outcome=fail"]'
    end = await walk(body, {"g": "fail"})
    assert (end.completed_nodes, end.status) == (["start", "g", "b"], RunStatus.FAILED)


async def test_run_stops_after_max_node_visits(walk: Walk) -> None:
    end = await walk('max_node_visits=5; start -> a -> b -> a; b -> exit [condition="context.x=1"]')
    assert (walk.calls.count("a"), end.status, end.next_node) == (5, RunStatus.FAILED, "a")
    assert "visited more than 5 times" in end.reason


async def test_max_visits_of_a_node_counts_for_that_node(walk: Walk) -> None:
    end = await walk("a [max_visits=2]; start -> a -> a")
    assert (walk.calls, end.status) == (["a", "a"], RunStatus.FAILED)


async def test_breaker_ends_a_run_whose_stage_fails_the_same_way_three_times(walk: Walk) -> None:
    body = 'start -> a; a -> exit; a -> fix [condition="outcome=fail"]; fix -> a'
    same: list[Reply] = [Outcome.fail("same")] * 9
    end = await walk(body, {"a": same})
    assert (walk.calls.count("a"), end.status) == (3, RunStatus.FAILED)
    assert "failed the same way on 3 visits in a row: same" in end.reason


async def test_an_edge_for_retry_is_taken_when_no_attempts_are_left(walk: Walk) -> None:
    body = 'a [max_retries=1]; start -> a; a -> exit; a -> c [condition="outcome=fail"]; c -> exit'
    body += '; a -> b [condition="outcome=retry"]; b -> exit'
    end = await walk(body, {"a": "retry"})
    assert (walk.calls, end.status) == (["a", "a", "b"], RunStatus.COMPLETED)
    assert end.node_outcomes["a"].status is StageStatus.FAIL


async def test_breaker_is_for_failures_of_one_kind_in_a_row(walk: Walk) -> None:
    body = 'start -> a; a -> exit; a -> fix [condition="outcome=fail"]; fix -> a'
    replies: list[Reply] = [*(Outcome.fail(reason) for reason in ("x", "x", "y", "x", "x")), "success"]
    assert (await walk(body, {"a": replies})).status is RunStatus.COMPLETED


async def test_breaker_leaves_progress_alone(walk: Walk) -> None:
    body = 'start -> a; a -> exit; a -> fix [condition="outcome=fail"]; fix -> a'
    replies: list[Reply] = [*(Outcome.fail(f"{n} tests fail") for n in (5, 4, 3, 2)), "success"]
    assert (await walk(body, {"a": replies})).status is RunStatus.COMPLETED


async def test_max_duration_stops_a_stage_that_hangs(walk: Walk) -> None:
    class Hanging:
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            await anyio.sleep_forever()
            raise AssertionError

    end = await walk("max_duration=50ms; start -> a -> exit", codergen=Hanging())
    assert (end.status, end.next_node) == (RunStatus.FAILED, "a")
    assert "max_duration" in end.reason


async def test_node_timeout_stops_the_work_and_fails_the_stage(walk: Walk) -> None:
    stopped = anyio.Event()

    class Hanging:
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            try:
                await anyio.sleep_forever()
            finally:
                stopped.set()
            raise AssertionError

    body = 'a [timeout="30ms", type=hang]; start -> a -> exit; a -> b [condition="outcome=fail"]; b -> exit'
    end = await walk(body, hang=Hanging())
    assert stopped.is_set()
    assert end.completed_nodes == ["start", "a", "b", "exit"]
    assert "timeout of 30ms" in end.node_outcomes["a"].failure_reason


async def test_skipped_stage_proceeds_and_leaves_no_outcome(walk: Walk) -> None:
    body = 'start -> a -> b -> d; d [shape=diamond]; d -> exit [condition="outcome=success"]; d -> c'
    end = await walk(body, {"b": "skipped"})
    assert end.completed_nodes == ["start", "a", "b", "d", "exit"]
    assert "b" not in end.node_outcomes
    assert end.context_values["outcome"] == "success"


async def test_skipped_stage_leaves_the_outcome_in_the_context_alone(walk: Walk) -> None:
    body = 'start -> a -> b; b -> c [condition="context.outcome=success"]; b -> exit; c -> exit'
    assert (await walk(body, {"b": "skipped"})).completed_nodes == ["start", "a", "b", "c", "exit"]


async def test_handler_exception_becomes_fail(walk: Walk) -> None:
    end = await walk("start -> a -> exit", {"a": ValueError("boom")})
    assert end.status is RunStatus.FAILED
    assert end.reason == "stage 'a' raised ValueError: boom"


async def test_context_value_that_is_not_json_fails_with_node_and_key(walk: Walk) -> None:
    body = "a [max_retries=3]; start -> a -> exit"
    end = await walk(body, {"a": Outcome.success(context_updates={"good": 1, "bad": {1, 2}})})
    assert end.status is RunStatus.FAILED
    assert "stage 'a': context key 'bad'" in end.reason
    assert "good" not in end.context_values
    assert walk.calls == ["a"], "another attempt would not mend it"


class Silent:
    """Returns nothing."""

    def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        context.set("seen", True)
        return None  # type: ignore[return-value]


async def test_auto_status_stands_for_a_handler_that_reports_nothing(walk: Walk) -> None:
    end = await walk("a [auto_status=true, type=silent]; start -> a -> exit", silent=Silent())
    assert end.status is RunStatus.COMPLETED
    assert end.node_outcomes["a"].notes == "auto-status: handler completed without writing status"
    assert end.context_values["seen"] is True


async def test_without_auto_status_a_handler_must_report(walk: Walk) -> None:
    end = await walk("a [type=silent]; start -> a -> exit", silent=Silent())
    assert "returned no Outcome" in end.reason


async def test_allow_partial_accepts_exhausted_retries(walk: Walk) -> None:
    end = await walk("a [max_retries=1, allow_partial=true]; start -> a -> exit", {"a": ["retry", "retry"]})
    assert end.node_outcomes["a"].status is StageStatus.PARTIAL_SUCCESS
    assert end.status is RunStatus.COMPLETED


async def test_loop_restart_begins_again_in_a_fresh_directory(walk: Walk) -> None:
    body = """start -> a -> check; check -> a [condition="outcome=fail", loop_restart=true]
              check -> exit [condition="outcome=success"]"""
    remembered: list[object] = []

    def note(node: Node, context: Context) -> Outcome:
        remembered.append(context.get("color"))
        return Outcome.success(context_updates={"color": "blue"})

    end = await walk(body, {"a": note, "check": ["fail", "fail", "success"]})
    assert (end.status, end.restarts) == (RunStatus.COMPLETED, 2)
    assert end.completed_nodes == ["a", "check", "exit"]
    assert end.visits["a"] == 3
    assert remembered == [None, None, None]
    assert Checkpoint.load(walk.folder).status is RunStatus.RESTARTED
    assert Checkpoint.load(walk.folder / "restart-1").status is RunStatus.RESTARTED
    assert Checkpoint.load(walk.folder / "restart-2").status is RunStatus.COMPLETED
    assert (walk.folder / "restart-2" / "a" / "status.json").exists()


async def test_loop_restart_comes_to_an_end(walk: Walk) -> None:
    end = await walk("max_node_visits=4; start -> a; a -> a [loop_restart=true]; a -> exit [weight=-1]")
    assert (end.status, walk.calls) == (RunStatus.FAILED, ["a"] * 4)


async def test_cancellation_leaves_a_checkpoint(walk: Walk) -> None:
    reached = anyio.Event()

    class Waiting:
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            reached.set()
            await anyio.sleep_forever()
            raise AssertionError

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: walk("start -> a -> b -> exit; b [type=wait]", wait=Waiting()))
        await reached.wait()
        tasks.cancel_scope.cancel()
    saved = Checkpoint.load(walk.folder)
    assert (saved.status, saved.current_node, saved.next_node) == (RunStatus.CANCELLED, "a", "b")


async def test_incoming_edge_and_history_are_known_to_handlers(walk: Walk) -> None:
    facts: list[object] = []

    def look(node: Node, context: Context) -> Outcome:
        run = context.run
        facts.extend([run.incoming_edge and run.incoming_edge.label, run.previous_node, list(run.node_outcomes)])
        return Outcome.success()

    await walk("start -> a; a -> b [label=Go]; b -> exit", {"b": look})
    assert facts == ["Go", "a", ["start", "a"]]


def test_registry_resolves_type_then_shape_then_default() -> None:
    graph = parse_dot(
        "digraph g { a [shape=parallelogram, type=custom]; b [shape=parallelogram, type=odd]; c [shape=star] }"
    )
    custom, tool, default = ScriptedHandler(), ScriptedHandler(), ScriptedHandler()
    registry = HandlerRegistry({"custom": custom, "tool": tool}, default)
    assert [registry.resolve(graph.nodes[id]) for id in "abc"] == [custom, tool, default]
    again = ScriptedHandler()
    registry.register("custom", again)
    assert registry.resolve(graph.nodes["a"], graph) is again


async def test_ten_and_more_nodes(walk: Walk) -> None:
    chain = " -> ".join(f"n{number}" for number in range(50))
    end = await walk(f"start -> {chain} -> exit")
    assert (end.status, len(end.completed_nodes)) == (RunStatus.COMPLETED, 52)


async def test_stage_events_count_from_zero(walk: Walk) -> None:
    await walk("start -> a -> exit")
    found = [(event.name, event.index) for event in walk.events if isinstance(event, StageStarted | StageCompleted)]
    assert found == [("start", 0), ("start", 0), ("a", 1), ("a", 1), ("exit", 2), ("exit", 2)]
    assert [event.sequence for event in walk.events] == list(range(1, len(walk.events) + 1))


def test_everything_in_a_record_is_json() -> None:
    event = StageRetrying(sequence=3, time=1.5, name="a", index=0, attempt=2, delay=0.25)
    record = json.loads(encode_json(event.to_record()))
    assert record == {
        "type": "StageRetrying",
        "sequence": 3,
        "time": 1.5,
        "name": "a",
        "index": 0,
        "attempt": 2,
        "delay": 0.25,
    }
    assert Event.from_record(record) == event
