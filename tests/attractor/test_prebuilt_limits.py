"""What a run of a Python graph may use and how deep runs lie within runs, across the borders of Python and DOT."""

from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor import PipelineRunner
from attractor.graph import Graph as Pipeline
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.prebuilt import (
    START,
    ChildError,
    CompiledGraph,
    Graph,
    LimitError,
    Limits,
    NodeContext,
    NodeError,
    PipelineNode,
    State,
    StepLimitError,
    add,
)
from attractor.state.context import Context
from attractor.state.usage import TokenUsage


class Work(State):
    count: Annotated[int, add]


def spend(state: Work, ctx: NodeContext) -> dict[str, Any]:
    ctx.run.add_usage(TokenUsage(input_tokens=5, cost=0.5))
    return {"count": 1}


class Spender:
    async def execute(self, node: Node, context: Context, graph: Pipeline, logs_root: Path) -> Outcome:
        context.run.add_usage(TokenUsage(input_tokens=5, cost=0.5))
        return Outcome.success(context_updates={"count": context.get("count", 0) + 1})


HANDLERS = {"spend": Spender()}
CHILD = """digraph child { start [shape=Mdiamond]; done [shape=Msquare]; a [type=spend]; b [type=spend]; c [type=spend]
    start -> a -> b -> c -> done }"""


def chain(length: int) -> Graph[Work]:
    graph = Graph(Work, name="chain")
    names = [f"n{number}" for number in range(length)]
    for source, name in zip((START, *names), names, strict=False):
        graph.add_node(name, spend).add_edge(source, name)
    return graph


@pytest.mark.parametrize(
    ("limits", "message"),
    [(Limits(max_tokens=10), "used 10 tokens of its max_tokens of 10"), (Limits(max_cost=0.9), r"cost \$1.0000 of")],
)
async def test_budget_stops_the_run_which_goes_on_with_a_higher_one(
    tmp_path: Path, limits: Limits, message: str
) -> None:
    with pytest.raises(LimitError, match=f"run r stopped at node 'n2': the run {message}"):
        await chain(4).compile(checkpointer=tmp_path, limits=limits).invoke({}, run_id="r")
    compiled = chain(4).compile(checkpointer=tmp_path)
    assert compiled.state("r") == {"count": 2}
    assert await compiled.resume(run_id="r") == {"count": 4}
    assert [step.node for step in compiled.history("r")] == ["n0", "n1", "n2", "n3"]


async def test_time_limit_stops_the_run() -> None:
    async def wait(state: Work) -> None:
        await anyio.sleep_forever()

    compiled = Graph(Work).add_node(wait).add_edge(START, "wait").compile(limits=Limits(max_duration=0.05))
    with pytest.raises(LimitError, match=r"stopped at node 'wait': the run took longer than max_duration \(0\.05 s\)"):
        await compiled.invoke({})


async def test_the_time_limit_of_a_node_is_a_failure_of_the_node() -> None:
    async def wait(state: Work) -> None:
        await anyio.sleep_forever()

    graph = Graph(Work).add_node("wait", wait, timeout=0.05).add_edge(START, "wait")
    with pytest.raises(NodeError, match="longer than its timeout"):
        await graph.compile().invoke({})


async def test_step_limit_is_such_a_limit_and_goes_before_max_node_visits() -> None:
    graph = Graph(Work).add_node("a", lambda state: {"count": 1}).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "again", {"again": "a", "stop": "END"})
    with pytest.raises(StepLimitError, match="took 150 steps") as caught:
        await graph.compile(step_limit=150, limits=Limits(max_node_visits=3)).invoke({})
    assert isinstance(caught.value, LimitError)


async def test_step_limit_counts_the_steps_in_front_of_branches_and_in_them() -> None:
    def build(step_limit: int) -> CompiledGraph[Work]:
        graph = chain(2)
        for name in ("a", "b"):
            graph.add_node(name, spend).add_node(f"{name}2", spend).add_edge("n1", name).add_edge(name, f"{name}2")
            graph.add_edge(f"{name}2", "end")
        return graph.add_node("end", lambda state: {"count": 10}).compile(step_limit=step_limit)

    with pytest.raises(StepLimitError, match="the run took 3 steps, and its graph's step_limit is 3"):
        await build(3).invoke({})
    assert await build(7).invoke({}) == {"count": 16}


async def test_error_of_an_attempt_that_was_mended_is_not_told_of_a_limit() -> None:
    """The node failed once, was tried again, and is where the run stops then."""
    failed = []

    def flaky(state: Work, ctx: NodeContext) -> dict[str, Any]:
        if not failed:
            failed.append(1)
            raise ConnectionError
        return spend(state, ctx)

    graph = Graph(Work).add_node("flaky", flaky, max_retries=1, retry_policy="aggressive").add_edge(START, "flaky")
    graph.add_conditional_edges("flaky", lambda state: "again", {"again": "flaky", "stop": "END"})
    with pytest.raises(LimitError, match="stopped at node 'flaky': the run used 10 tokens"):
        await graph.compile(limits=Limits(max_tokens=10)).invoke({})


async def test_inner_graph_uses_the_budget_of_the_outer_one(tmp_path: Path) -> None:
    inner = chain(3).compile()
    outer = Graph(Work).add_node("first", spend).add_node("inner", inner.as_node(output=lambda state: {}))
    outer.add_edge(START, "first").add_edge("first", "inner")
    compiled = outer.compile(checkpointer=tmp_path, limits=Limits(max_tokens=15))
    with pytest.raises(NodeError, match=r"'inner' failed.* used 15 tokens of its max_tokens of 15") as caught:
        await compiled.invoke({}, run_id="r")
    assert isinstance(caught.value.__cause__, ChildError)
    raised = outer.compile(checkpointer=tmp_path, limits=Limits(max_tokens=25))
    await raised.resume(run_id="r")


async def test_pipeline_within_a_graph_uses_its_budget() -> None:
    graph = Graph(Work).add_node("pipeline", PipelineNode(CHILD)).add_edge(START, "pipeline")
    with pytest.raises(NodeError, match="used 10 tokens of its max_tokens of 10"):
        await graph.compile(handlers=HANDLERS, limits=Limits(max_tokens=10)).invoke({})
    assert await graph.compile(handlers=HANDLERS, limits=Limits(max_tokens=20)).invoke({}) == {"count": 3}


async def test_graph_within_a_pipeline_uses_its_budget(tmp_path: Path) -> None:
    source = """digraph outer { max_tokens=10; start [shape=Mdiamond]; done [shape=Msquare]; py [type=mine]
        start -> py -> done }"""
    runner = PipelineRunner(logs_root=tmp_path / "run", handlers={"mine": chain(3).compile().as_handler()})
    result = await runner.run(source)
    assert not result.status.is_success
    assert "used 10 tokens of its max_tokens of 10" in result.failure_reason


def nest(compiled: CompiledGraph[Work], levels: int) -> CompiledGraph[Work]:
    """Around the graph so many others, by turns written in Python and in DOT."""
    for level in range(levels):
        if level % 2:
            graph = Graph(Work).add_node("inner", compiled.as_node(output=lambda state: {"count": 1}))
            compiled = graph.add_edge(START, "inner").compile()
        else:
            source = """digraph g { start [shape=Mdiamond]; done [shape=Msquare]; py [type=py]; start -> py -> done }"""
            handler = compiled.as_handler(output=lambda state: {"count": 1})
            graph = Graph(Work).add_node("inner", PipelineNode(source)).add_edge(START, "inner")
            compiled = graph.compile(handlers={"py": handler})
    return compiled


async def test_depth_is_counted_through_python_and_dot() -> None:
    leaf = Graph(Work).add_node("leaf", lambda state: {"count": 1}).add_edge(START, "leaf").compile()
    # Each level in DOT is two runs: the pipeline, and the graph within it.
    assert await nest(leaf, 5).invoke({}) == {"count": 1}
    with pytest.raises(NodeError, match="pipelines lie within pipelines more than 8 deep"):
        await nest(leaf, 6).invoke({})


async def test_graph_that_runs_itself_comes_to_an_end() -> None:
    async def itself(state: Work, ctx: NodeContext) -> Any:
        return await compiled.as_node()(state, ctx)

    compiled = Graph(Work).add_node(itself).add_edge(START, "itself").compile()
    with pytest.raises(NodeError, match="more than 8 deep; does one of them run itself"):
        await compiled.invoke({})
