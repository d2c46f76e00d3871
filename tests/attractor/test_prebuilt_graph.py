"""Graphs written in Python: what a run of one gives, and what is refused before and while it runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor.dot import parse_dot
from attractor.errors import RunDirectoryError
from attractor.event_log import read_events
from attractor.events import StageActivity, StageRetrying
from attractor.prebuilt import (
    END,
    START,
    ChannelError,
    Graph,
    GraphError,
    NodeContext,
    NodeError,
    RouteError,
    State,
    StepLimitError,
    add,
    append,
    merge,
)

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    items: Annotated[list[str], append]
    count: Annotated[int, add]
    facts: Annotated[dict[str, int], merge]
    text: str


async def step(state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"items": ctx.node, "count": 1}


def chain(*names: str) -> Graph[Work]:
    graph = Graph(Work)
    for source, name in zip((START, *names), names, strict=False):
        graph.add_node(name, step)
        graph.add_edge(source, name)
    return graph


@BOTH
async def test_nodes_run_in_order_and_updates_are_folded() -> None:
    result = await chain("a", "b").compile().invoke({"text": "as it was"})
    assert result == {"text": "as it was", "items": ["a", "b"], "count": 2}


async def test_input_is_taken_as_it_is_and_not_folded() -> None:
    graph = Graph(Work).add_node("a", lambda state: {"count": state["count"]}).add_edge(START, "a")
    assert await graph.compile().invoke({"count": 5, "items": ["x"]}) == {"count": 10, "items": ["x"]}


@BOTH
async def test_any_function_is_a_node() -> None:
    def plain(state: Work) -> dict[str, str]:
        return {"items": "plain"}

    def plain_with_context(state: Work, ctx: NodeContext) -> dict[str, str]:
        return {"items": ctx.node}

    async def waiting(state: Work) -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return {"items": "waiting"}

    class Callable:
        async def __call__(self, state: Mapping[str, Any], ctx: NodeContext) -> None:
            assert state["items"] == ["plain", "plain_with_context", "waiting"]

    graph = Graph(Work).add_node(plain).add_node(plain_with_context).add_node(waiting).add_node("quiet", Callable())
    graph.add_node("shout", lambda state, loud="!": {"text": loud})
    graph.add_edge(START, "plain").add_edge("plain", "plain_with_context").add_edge("plain_with_context", "waiting")
    graph.add_edge("waiting", "quiet").add_edge("quiet", "shout").add_edge("shout", END)
    result = await graph.compile().invoke({})
    assert result == {"items": ["plain", "plain_with_context", "waiting"], "text": "!"}


async def test_nodes_get_a_copy_of_the_state() -> None:
    def spoil(state: Work) -> None:
        state["items"].append("spoilt")

    graph = Graph(Work).add_node(spoil).add_edge(START, "spoil")
    assert await graph.compile().invoke({"items": ["fine"]}) == {"items": ["fine"]}


@pytest.mark.parametrize("keys", [("again", "done"), (True, False), (1, 2)])
async def test_router_sees_the_state_behind_its_node_and_chooses_the_edge(keys: tuple[Any, Any]) -> None:
    again, done = keys
    graph = chain("a")
    graph.add_conditional_edges("a", lambda state: again if state["count"] < 3 else done, {again: "a", done: END})
    assert (await graph.compile().invoke({}))["items"] == ["a", "a", "a"]


async def test_start_can_branch_by_the_input() -> None:
    async def choose(state: Work) -> str:
        return state["text"]

    graph = Graph(Work).add_node("left", step).add_node("right", step)
    graph.add_conditional_edges(START, choose, {"l": "left", "r": "right"})
    assert (await graph.compile().invoke({"text": "r"}))["items"] == ["right"]


async def test_failing_node_is_named_and_its_error_is_the_cause(tmp_path: Path) -> None:
    def boom(state: Work) -> None:
        raise KeyError("no such thing")

    graph = chain("a").add_node(boom).add_edge("a", "boom")
    with pytest.raises(NodeError, match=r"node 'boom' failed: KeyError: 'no such thing'") as caught:
        await graph.compile(checkpointer=tmp_path).invoke({}, run_id="r")
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.node, caught.value.run_dir) == ("boom", tmp_path / "r")


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"itmes": "x"}, r"the update of node 'a' names channel 'itmes', which Work doesn't declare; it has: items,"),
        (["items"], r"the update of node 'a' must be a dict of channels, not list"),
        ({"text": object()}, r"the update of node 'a': channel 'text': the value of type object is not JSON"),
        ({"count": "three"}, r"the update of node 'a': the reducer of channel 'count' can't take 'three': TypeError"),
        ({"facts": 3}, r"the update of node 'a': the reducer of channel 'facts' can't take 3: TypeError"),
    ],
    ids=["undeclared", "no dict", "no JSON", "wrong for add", "wrong for merge"],
)
async def test_bad_update_names_node_and_channel_and_is_not_retried(update: Any, message: str) -> None:
    calls = []
    graph = Graph(Work).add_node("a", lambda state: calls.append(1) or update, max_retries=3).add_edge(START, "a")
    with pytest.raises(NodeError, match=message) as caught:
        await graph.compile().invoke({"count": 1})
    assert isinstance(caught.value.__cause__, ChannelError)
    assert caught.value.node == "a"
    assert len(calls) == 1


async def test_what_a_custom_reducer_gives_must_be_json_too() -> None:
    class Odd(State):
        seen: Annotated[list[int], lambda old, new: {*old, new}]

    graph = Graph(Odd).add_node("a", lambda state: {"seen": 1}).add_edge(START, "a")
    with pytest.raises(NodeError, match=r"stage 'a': context key 'state.seen': the value of type set is not JSON"):
        await graph.compile().invoke({})


async def test_unknown_router_key_names_node_and_key() -> None:
    graph = chain("a")
    graph.add_conditional_edges("a", lambda state: "maybe", {"yes": END, "no": "a"})
    with pytest.raises(NodeError, match=r"the router of node 'a' gave the key 'maybe'; its edges have: 'yes', 'no'"):
        await graph.compile().invoke({})


async def test_failing_router_is_told_from_its_node() -> None:
    graph = chain("a")
    graph.add_conditional_edges("a", lambda state: state["absent"], {"yes": END})  # type: ignore[typeddict-item]
    with pytest.raises(NodeError, match=r"the router of node 'a' raised KeyError: 'absent'") as caught:
        await graph.compile().invoke({})
    assert isinstance(caught.value.__cause__, RouteError)


@pytest.mark.parametrize(
    ("input", "message"),
    [
        ({"nothing": 1}, "the input names channel 'nothing', which Work doesn't declare"),
        ({"text": b"raw"}, "the input: channel 'text': the value of type bytes is not JSON"),
        ("text", "the input must be a dict of channels, not str"),
    ],
    ids=["undeclared", "no JSON", "no dict"],
)
async def test_bad_input_is_refused_before_anything_runs(tmp_path: Path, input: Any, message: str) -> None:
    with pytest.raises(ChannelError, match=message):
        await chain("a").compile(checkpointer=tmp_path).invoke(input)
    assert list(tmp_path.iterdir()) == []


async def test_step_limit_is_an_error_of_its_own_and_may_be_raised(tmp_path: Path) -> None:
    graph = chain("a")
    graph.add_conditional_edges("a", lambda state: state["count"] < 150, {True: "a", False: END})
    with pytest.raises(StepLimitError, match=r"the run took 20 steps, and its graph's step_limit is 20"):
        await graph.compile(checkpointer=tmp_path, step_limit=20).invoke({}, run_id="r")
    more = graph.compile(checkpointer=tmp_path)
    assert more.state("r")["count"] == 20
    assert (await more.resume(run_id="r"))["count"] == 150


async def test_engine_retries_a_node_and_gives_each_attempt_its_time(tmp_path: Path) -> None:
    attempts = []

    async def flaky(state: Work, ctx: NodeContext) -> dict[str, Any]:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        if ctx.attempt == 2:
            raise ConnectionError
        return {"text": f"attempt {ctx.attempt}"}

    graph = Graph(Work).add_node(flaky, max_retries=2, timeout=0.05).add_edge(START, "flaky")
    result = await graph.compile(checkpointer=tmp_path).invoke({}, run_id="r")
    assert result["text"] == "attempt 3"
    assert attempts == [1, 2, 3]
    retries = [event.attempt for event in read_events(tmp_path / "r") if isinstance(event, StageRetrying)]
    assert retries == [2, 3]


async def test_time_limit_of_a_node_fails_it() -> None:
    graph = Graph(Work).add_node("slow", lambda state: anyio.sleep_forever(), timeout=0.01)
    with pytest.raises(NodeError, match=r"node 'slow' failed: stage 'slow' took longer than its timeout of 10ms"):
        await graph.add_edge(START, "slow").compile().invoke({})


@BOTH
async def test_nodes_tell_observers_what_they_do_from_any_thread(tmp_path: Path) -> None:
    def threaded(state: Work, ctx: NodeContext) -> None:
        ctx.emit("half done")

    async def waiting(state: Work, ctx: NodeContext) -> None:
        ctx.emit("nearly done")

    graph = Graph(Work).add_node(threaded).add_node(waiting).add_edge(START, "threaded").add_edge("threaded", "waiting")
    await graph.compile(checkpointer=tmp_path).invoke({}, run_id="r")
    told = [(event.name, event.text) for event in read_events(tmp_path / "r") if isinstance(event, StageActivity)]
    assert told == [("threaded", "half done"), ("waiting", "nearly done")]


async def test_node_has_a_directory_in_that_of_its_run(tmp_path: Path) -> None:
    async def write(state: Work, ctx: NodeContext) -> None:
        ctx.directory.mkdir(exist_ok=True)
        (ctx.directory / "note.txt").write_text(ctx.run_id)
        assert ctx.run_dir == tmp_path / "r"

    await Graph(Work).add_node(write).add_edge(START, "write").compile(checkpointer=tmp_path).invoke({}, run_id="r")
    assert (tmp_path / "r" / "write" / "note.txt").read_text() == "r"


async def test_nothing_is_kept_without_a_checkpointer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    compiled = chain("a").compile()
    await compiled.invoke({})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RunDirectoryError, match="compile the graph with a checkpointer"):
        compiled.state()


async def test_run_ids_are_used_once(tmp_path: Path) -> None:
    compiled = chain("a").compile(checkpointer=tmp_path)
    await compiled.invoke({}, run_id="r")
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        await compiled.invoke({}, run_id="r")
    with pytest.raises(RunDirectoryError, match=r"run id '\.\./out' can't name a directory"):
        await compiled.invoke({}, run_id="../out")


async def test_one_graph_runs_many_times_at_once(tmp_path: Path) -> None:
    compiled = chain("a", "b").compile(checkpointer=tmp_path)
    results: dict[int, Work] = {}

    async def run(number: int) -> None:
        results[number] = await compiled.invoke({"count": number}, run_id=f"r{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(run, number)
    assert {number: result["count"] for number, result in results.items()} == {n: n + 2 for n in range(5)}
    assert compiled.state("r3") == results[3]


async def test_history_has_the_state_behind_each_step(tmp_path: Path) -> None:
    compiled = chain("a", "b").compile(checkpointer=tmp_path)
    await compiled.invoke({"text": "t"})
    first, second = compiled.history()
    assert (first.node, first.state, first.changed) == ("a", {"text": "t", "items": ["a"], "count": 1}, first.changed)
    assert first.changed == {"items": ["a"], "count": 1}
    assert (second.number, second.node, second.state) == (2, "b", compiled.state())


def test_graph_is_the_one_that_its_dot_gives() -> None:
    graph = chain("a", "b")
    graph.add_node("c", step, max_retries=2, timeout=1.5).add_edge("a", "c")
    graph.add_conditional_edges("c", lambda state: "x", {"x": "b", "y": END})
    compiled = graph.compile()
    assert parse_dot(compiled.to_dot()) == compiled.graph
    assert compiled.graph.nodes["c"].max_retries == 2
    assert compiled.graph.nodes["c"].timeout == 1.5
    assert [(edge.target, edge.label) for edge in compiled.graph.outgoing_edges("c")] == [("b", "x"), ("END", "y")]


async def test_graph_can_be_drawn() -> None:
    svg = await chain("first", "second").compile().to_svg()
    assert b"<svg" in svg
    assert b"second" in svg


def lost(graph: Graph[Work]) -> None:
    graph.add_node("lost", step)


def unknown_target(graph: Graph[Work]) -> None:
    graph.add_edge("a", "bb")


def unknown_source(graph: Graph[Work]) -> None:
    graph.add_edge("z", "b")


def unknown_conditional_target(graph: Graph[Work]) -> None:
    graph.add_conditional_edges("b", lambda state: "x", {"x": "nowhere"})


def into_start(graph: Graph[Work]) -> None:
    graph.add_edge("b", START)


def out_of_end(graph: Graph[Work]) -> None:
    graph.add_edge(END, "a")


def alike_keys(graph: Graph[Work]) -> None:
    graph.add_conditional_edges("b", lambda state: "Yes", {"Yes": "a", "yes ": END})


def empty_key(graph: Graph[Work]) -> None:
    graph.add_conditional_edges("b", lambda state: "", {"": END})


def no_keys(graph: Graph[Work]) -> None:
    graph.add_conditional_edges("b", lambda state: "", {})


def endless(graph: Graph[Work]) -> None:
    graph.add_edge("b", "a")


def taken_by_branches(graph: Graph[Work]) -> None:
    graph.add_node("a.branches", step).add_edge("b", "a.branches").add_edge("a", END)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lost, "no path leads from START to 'lost'"),
        (unknown_target, r"an edge from 'a' to 'b', 'bb': no node 'bb'; did you mean 'b'\?"),
        (unknown_source, "no node 'z'; there are: a, b"),
        (unknown_conditional_target, "no node 'nowhere'"),
        (into_start, "can't lead to START"),
        (out_of_end, "an edge can't begin at END"),
        (alike_keys, "keys that can't be told apart: 'Yes', 'yes '"),
        (empty_key, "the key '', which is empty as text"),
        (no_keys, "the conditional edges of 'b' have no targets"),
        (endless, "no path leads from START to END"),
        (taken_by_branches, "the name 'a.branches' is taken by what stands behind 'a'"),
    ],
    ids=lambda value: value.__name__ if callable(value) else " ",
)
def test_what_can_not_run_is_not_compiled(spoil: Any, message: str) -> None:
    graph = chain("a", "b")
    spoil(graph)
    with pytest.raises(GraphError, match=message):
        graph.compile()


def test_graph_without_a_beginning_is_not_compiled() -> None:
    with pytest.raises(GraphError, match="add an edge from START"):
        Graph(Work).add_node("a", step).compile()


def test_mistakes_are_told_where_they_are_made() -> None:
    graph = chain("a")
    with pytest.raises(GraphError, match="there is a node 'a' already"):
        graph.add_node("a", step)
    with pytest.raises(GraphError, match="there is a node 'END' already"):
        graph.add_node(END, step)
    with pytest.raises(GraphError, match="a node needs a name"):
        graph.add_node(lambda state: None)
    with pytest.raises(GraphError, match="node 'b' has no function"):
        graph.add_node("b")  # type: ignore[call-overload]
    with pytest.raises(GraphError, match="there is an edge from 'START' to 'a' already"):
        graph.add_edge(START, "a")
    with pytest.raises(GraphError, match="it can't have conditional ones besides"):
        graph.add_conditional_edges(START, lambda state: "x", {"x": "a"})
    graph.add_conditional_edges("a", lambda state: "x", {"x": END})
    with pytest.raises(GraphError, match="'a' has conditional edges; it can't have the edge to 'END' besides"):
        graph.add_edge("a", END)
    with pytest.raises(ValueError, match="max_retries must not be negative, as -1 is"):
        graph.add_node("c", step, max_retries=-1)
    with pytest.raises(ValueError, match="the time limit must be positive, as 0 is not"):
        graph.add_node("c", step, timeout=0)
    with pytest.raises(ValueError, match="there is no retry_policy 'stubborn'; there are: none, standard"):
        graph.add_node("c", step, retry_policy="stubborn")
    with pytest.raises(ValueError, match="step_limit must be at least 1"):
        graph.compile(step_limit=0)
    with pytest.raises(GraphError, match="is no TypedDict"):
        Graph(dict)  # type: ignore[type-var]
