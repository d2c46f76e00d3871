"""Graphs within graphs: Python in DOT, DOT in Python, Python in Python; waiting, failing and usage included."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from attractor import PipelineRunner, give_value, parse_dot
from attractor.graph import Graph as Pipeline
from attractor.graph import Node
from attractor.interviewers import DeferringInterviewer
from attractor.interviewers.questions import QuestionStore
from attractor.outcome import Outcome
from attractor.prebuilt import (
    END,
    START,
    ChildError,
    Graph,
    InterruptError,
    NodeContext,
    NodeError,
    PipelineNode,
    State,
    append,
    find_interrupts,
)
from attractor.state.context import Context
from attractor.state.usage import TokenUsage


class Work(State):
    items: Annotated[list[Any], append]
    text: str


class Upper:
    """A handler: makes context value `text` upper case."""

    def __init__(self) -> None:
        self.calls = 0
        self.broken = False

    async def execute(self, node: Node, context: Context, graph: Pipeline, logs_root: Path) -> Outcome:
        self.calls += 1
        context.run.add_usage(TokenUsage(input_tokens=5))
        if self.broken:
            return Outcome.fail("it is broken")
        return Outcome.success(context_updates={"text": context.get_string("text").upper(), "other": 1})


CHILD = "digraph child { start [shape=Mdiamond]; done [shape=Msquare]; up [type=upper]; start -> up -> done }"
PARENT = """digraph parent { start [shape=Mdiamond]; done [shape=Msquare]
    a [type=upper]; py [type=mine]; b [type=upper]
    start -> a -> py; py -> b [label="more"]; py -> done [label="enough"]; b -> done }"""


def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"items": ctx.interrupt("inner?")}


def shout(state: Work, ctx: NodeContext) -> dict[str, Any]:
    ctx.run.add_usage(TokenUsage(input_tokens=2))
    return {"text": state["text"] + "!", "items": "shouted"}


def one_node(name: str, function: Any) -> Graph[Work]:
    return Graph(Work).add_node(name, function).add_edge(START, name)


@pytest.mark.parametrize("source", ["text", "graph", "file"])
async def test_dot_pipeline_is_a_node(tmp_path: Path, source: str) -> None:
    (tmp_path / "child.dot").write_text(CHILD)
    pipeline = {"text": CHILD, "graph": parse_dot(CHILD), "file": Path("child.dot")}[source]
    graph = one_node("before", shout).add_node("dot", PipelineNode(pipeline)).add_edge("before", "dot")
    compiled = graph.compile(checkpointer=tmp_path / "runs", handlers={"upper": Upper()}, working_dir=tmp_path)
    assert await compiled.invoke({"text": "hi"}, run_id="r") == {"text": "HI!", "items": ["shouted"]}
    assert (tmp_path / "runs" / "r" / "dot" / "child-0" / "journal.jsonl").exists()


async def test_what_goes_in_and_out_of_a_pipeline_can_be_said() -> None:
    node = PipelineNode(CHILD, input=lambda state: {"text": "given"}, output=lambda values: {"items": values["other"]})
    graph = one_node(node.__name__, node)
    assert await graph.compile(handlers={"upper": Upper()}).invoke({"text": "hi"}) == {"text": "hi", "items": [1]}


async def test_failing_pipeline_fails_its_node_and_goes_on_where_it_was(tmp_path: Path) -> None:
    upper = Upper()
    upper.broken = True
    compiled = one_node("dot", PipelineNode(CHILD)).compile(checkpointer=tmp_path, handlers={"upper": upper})
    with pytest.raises(NodeError, match="ChildError: the graph within node 'dot' failed: it is broken"):
        await compiled.invoke({"text": "hi"})
    upper.broken = False
    assert (await compiled.resume())["text"] == "HI"
    assert upper.calls == 2


async def test_failing_pipeline_is_retried_as_its_node_says() -> None:
    upper = Upper()
    upper.broken = True
    graph = Graph(Work).add_node("dot", PipelineNode(CHILD), max_retries=1, retry_policy="none").add_edge(START, "dot")
    with pytest.raises(NodeError) as caught:
        await graph.compile(handlers={"upper": upper}).invoke({"text": "hi"})
    assert isinstance(caught.value.__cause__, ChildError)
    assert upper.calls == 2


async def test_question_of_a_pipeline_within_a_graph_is_one_of_the_run(tmp_path: Path) -> None:
    gate = """digraph gate { start [shape=Mdiamond]; done [shape=Msquare]; ok [shape=hexagon, label="Fine?"]
        up [type=upper]; start -> ok; ok -> up [label="Yes"]; ok -> done [label="No"]; up -> done }"""
    compiled = one_node("dot", PipelineNode(gate)).compile(
        checkpointer=tmp_path, handlers={"upper": Upper()}, interviewer=DeferringInterviewer()
    )
    with pytest.raises(InterruptError, match="waits for the answer to a question") as caught:
        await compiled.invoke({"text": "hi"}, run_id="r")
    assert caught.value.interrupts == ()
    questions = QuestionStore(tmp_path / "r")
    (asked,) = questions.list_open()
    questions.answer(asked.id, "Yes")
    assert (await compiled.resume(run_id="r"))["text"] == "HI"


async def test_python_graph_is_a_handler_of_a_pipeline(tmp_path: Path) -> None:
    compiled = one_node("shout", shout).compile()
    handler = compiled.as_handler(label=lambda state: "more" if len(state["text"]) < 10 else "enough")
    runner = PipelineRunner(
        logs_root=tmp_path / "run", handlers={"mine": handler, "upper": Upper()}, context={"text": "hi"}
    )
    result = await runner.run(PARENT)
    assert result.status == "success", result.failure_reason
    assert result.completed_nodes == ("start", "a", "py", "b", "done")
    assert {key: value for key, value in result.context.items() if key.startswith("py.")} == {
        "py.text": "HI!",
        "py.items": ["shouted"],
    }
    assert (tmp_path / "run" / "py" / "child-0" / "pipeline.dot").exists()
    # Five of each pipeline stage, two of the Python node.
    assert result.usage == TokenUsage(input_tokens=12)


async def test_failing_graph_fails_the_stage_of_a_pipeline(tmp_path: Path) -> None:
    handler = one_node("boom", lambda state: 1 / 0).compile().as_handler()
    result = await PipelineRunner(logs_root=tmp_path, handlers={"mine": handler, "upper": Upper()}).run(PARENT)
    assert result.status == "fail"
    assert "the graph graph of 'py' failed: stage 'boom' raised ZeroDivisionError" in result.failure_reason


async def test_what_goes_in_and_out_of_a_handler_can_be_said(tmp_path: Path) -> None:
    handler = (
        one_node("shout", shout)
        .compile()
        .as_handler(input=lambda values: {"text": values["text"] + "?"}, output=lambda state: {"said": state["text"]})
    )
    runner = PipelineRunner(logs_root=tmp_path, handlers={"mine": handler, "upper": Upper()}, context={"text": "hi"})
    assert (await runner.run(PARENT)).context["said"] == "HI?!"


async def test_pipeline_waits_for_the_interrupt_of_a_graph_within_it(tmp_path: Path) -> None:
    handlers = {"mine": one_node("ask", ask).compile().as_handler(), "upper": Upper()}
    result = await PipelineRunner(logs_root=tmp_path / "run", handlers=handlers).run(PARENT)
    assert result.waiting
    (waits,) = find_interrupts(tmp_path / "run")
    assert (waits.node, waits.payload) == ("ask", "inner?")
    give_value(waits.run_dir, waits.id, "yes")
    result = await PipelineRunner(handlers=handlers).resume(tmp_path / "run")
    assert result.status == "success", result.failure_reason
    assert result.context["py.items"] == ["yes"]


async def test_python_graph_is_a_node_of_another(tmp_path: Path) -> None:
    inner = one_node("shout", shout)
    inner.add_conditional_edges("shout", lambda state: len(state["text"]) < 5, {True: "shout", False: END})
    outer = one_node("first", shout)
    outer.add_node("inner", inner.compile().as_node(output=lambda state: {"text": state["text"], "items": "inner"}))
    outer.add_edge("first", "inner")
    compiled = outer.compile(checkpointer=tmp_path)
    assert await compiled.invoke({"text": "hi"}) == {"text": "hi!!!", "items": ["shouted", "inner"]}


async def test_channels_that_both_have_go_in_and_out_by_their_names() -> None:
    class Small(State):
        text: str
        count: int

    inner = Graph(Small).add_node("up", lambda state: {"text": state["text"].upper(), "count": 1}).add_edge(START, "up")
    outer = one_node("inner", inner.compile().as_node())
    assert await outer.compile().invoke({"text": "hi", "items": [1]}) == {"text": "HI", "items": [1]}


async def test_interrupts_within_are_answered_from_outside(tmp_path: Path) -> None:
    inner = (
        one_node("ask", ask).compile().as_node(input=lambda state: {}, output=lambda state: {"items": state["items"]})
    )
    graph = Graph(Work).add_node("inner", inner).add_node("beside", shout)
    graph.add_edge(START, "inner").add_edge(START, "beside")
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({"text": "hi"}, run_id="r")
    assert caught.value.payload == "inner?"
    assert [found.node for found in caught.value.interrupts] == ["ask"]
    again = graph.compile(checkpointer=tmp_path)
    assert await again.resume("yes", run_id="r") == {"text": "hi!", "items": ["yes", "shouted"]}
