"""Parallel branches of Python graphs: their updates are merged in the order of the edges, whichever ends first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor.event_log import read_events
from attractor.events import ParallelBranchStarted
from attractor.prebuilt import (
    END,
    START,
    ChannelError,
    Graph,
    GraphError,
    NodeContext,
    NodeError,
    State,
    add,
    append,
    merge,
    union,
)
from hypothesis import given, settings
from hypothesis import strategies as st


class Work(State):
    items: Annotated[list[str], append]
    names: Annotated[list[str], union]
    facts: Annotated[dict[str, int], merge]
    count: Annotated[int, add]
    text: str


class Order:
    """Lets nodes end in a given order only."""

    def __init__(self, names: Sequence[str]) -> None:
        self._done = {name: anyio.Event() for name in names}
        self._before = dict(zip(names[1:], names, strict=False))

    async def wait(self, name: str) -> None:
        if name in self._before:
            await self._done[self._before[name]].wait()
        self._done[name].set()


def fan(branches: int, order: Order | None = None) -> Graph[Work]:
    """START -> split -> b0 ... bN -> join -> END."""

    async def report(state: Work, ctx: NodeContext) -> dict[str, Any]:
        if order is not None:
            await order.wait(ctx.node)
        name = ctx.node
        return {"items": name, "names": [name, "all"], "facts": {name: 1, "last": len(name)}, "count": 1, "text": name}

    graph = Graph(Work).add_node("split", lambda state: {"items": "split"}).add_edge(START, "split")
    graph.add_node("join", lambda state: {"items": "join"})
    for number in range(branches):
        graph.add_node(f"b{number}", report).add_edge("split", f"b{number}").add_edge(f"b{number}", "join")
    return graph


@given(st.permutations(["b0", "b1", "b2", "b3", "b4", "b5"]))
@settings(max_examples=25, deadline=None)
def test_merge_does_not_depend_on_who_ends_first(order: list[str]) -> None:
    names = [f"b{number}" for number in range(6)]

    async def run() -> Work:
        return await fan(6, Order(order)).compile().invoke({"items": [], "count": 10})

    assert anyio.run(run) == {
        "items": ["split", *names, "join"],
        "names": ["b0", "all", *names[1:]],
        "facts": {"b0": 1, "last": 2, **dict.fromkeys(names, 1)},
        "count": 16,
        "text": "b5",
    }


UPDATES = st.fixed_dictionaries(
    {},
    optional={
        "items": st.lists(st.text(max_size=2), max_size=3),
        "names": st.lists(st.text(max_size=1), max_size=3),
        "facts": st.dictionaries(st.text(max_size=1), st.integers(), max_size=3),
        "count": st.integers(),
        "text": st.text(max_size=3),
    },
)


@given(st.lists(st.lists(UPDATES, min_size=1, max_size=3), min_size=2, max_size=4))
@settings(max_examples=25, deadline=None)
def test_branches_give_what_they_would_one_after_the_other(branches: list[list[dict[str, Any]]]) -> None:
    parallel, serial = Graph(Work), Graph(Work)
    serial_names = [START]
    for number, updates in enumerate(branches):
        before = START
        for place, update in enumerate(updates):
            name = f"n{number}-{place}"
            parallel.add_node(name, lambda state, update=update: update).add_edge(before, name)
            serial.add_node(name, lambda state, update=update: update).add_edge(serial_names[-1], name)
            serial_names.append(name)
            before = name

    async def run(graph: Graph[Work]) -> Work:
        return await graph.compile().invoke({"items": ["first"]})

    assert anyio.run(run, parallel) == anyio.run(run, serial)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_branches_run_at_once_and_see_their_own_state_alone() -> None:
    met = 0
    everybody = anyio.Event()

    async def meet(state: Work, ctx: NodeContext) -> dict[str, Any]:
        nonlocal met
        met += 1
        if met == 6:
            everybody.set()
        await everybody.wait()
        return {"items": ctx.node}

    def look(state: Work, ctx: NodeContext) -> dict[str, Any]:
        return {"text": ",".join(state["items"])}

    graph = Graph(Work).add_node(look)
    for number in range(6):
        name = f"b{number}"
        graph.add_node(name, meet).add_edge(START, name)
        if number == 5:
            graph.add_node("own", look).add_edge(name, "own").add_edge("own", "look")
        else:
            graph.add_edge(name, "look")
    compiled = graph.compile()
    with anyio.fail_after(20):
        assert (await compiled.invoke({}))["text"] == "b0,b1,b2,b3,b4,b5"


async def test_branch_state_is_that_of_the_branch(tmp_path: Path) -> None:
    compiled = fan(2).compile(checkpointer=tmp_path)
    await compiled.invoke({})
    seen = {found.node: found.state["items"] for found in compiled.history()}
    assert seen == {
        "split": ["split"],
        "b0": ["split", "b0"],
        "b1": ["split", "b1"],
        "split.branches": ["split", "b0", "b1"],
        "join": ["split", "b0", "b1", "join"],
    }


async def test_history_of_a_branch_has_what_was_there_before(tmp_path: Path) -> None:
    class More(Work):
        title: str

    graph = Graph(More)
    for name in ("a", "b"):
        graph.add_node(name, lambda state, ctx: {"items": ctx.node}).add_edge(START, name)
    compiled = graph.compile(checkpointer=tmp_path)
    await compiled.invoke({"title": "kept"})
    assert [step.state for step in compiled.history() if step.node == "b"] == [{"title": "kept", "items": ["b"]}]


async def test_branches_within_branches_are_merged_inside_first() -> None:
    graph = Graph(Work)
    for name in ("outer", "left", "right", "x", "y", "inner_join", "join"):
        graph.add_node(name, lambda state, ctx: {"items": ctx.node, "text": ctx.node})
    graph.add_edge(START, "outer").add_edge("outer", "left").add_edge("outer", "right")
    graph.add_edge("left", "x").add_edge("left", "y").add_edge("x", "inner_join").add_edge("y", "inner_join")
    graph.add_edge("inner_join", "join").add_edge("right", "join")
    result = await graph.compile().invoke({})
    assert result == {"items": ["outer", "left", "x", "y", "inner_join", "right", "join"], "text": "join"}


async def test_branches_can_be_gone_through_again_in_a_loop() -> None:
    graph = fan(2)
    graph.add_conditional_edges("join", lambda state: state["count"] < 4, {True: "split", False: END})
    result = await graph.compile().invoke({})
    assert result["items"] == ["split", "b0", "b1", "join"] * 2


async def test_branch_may_loop_and_choose() -> None:
    graph = Graph(Work)
    graph.add_node("left", lambda state: {"items": "left", "count": 1}).add_node("right", lambda state: {"items": "r"})
    graph.add_node("join", lambda state: {"items": "join"})
    graph.add_edge(START, "left").add_edge(START, "right").add_edge("right", "join")
    graph.add_conditional_edges("left", lambda state: state["count"] < 3, {True: "left", False: "join"})
    assert (await graph.compile().invoke({}))["items"] == ["left", "left", "left", "r", "join"]


async def test_number_of_branches_at_once_can_be_bounded(tmp_path: Path) -> None:
    running, most = 0, 0

    async def count(state: Work) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.005)
        running -= 1

    graph = Graph(Work).add_node("split", lambda state: None, max_parallel=2).add_edge(START, "split")
    for number in range(6):
        graph.add_node(f"b{number}", count).add_edge("split", f"b{number}")
    await graph.compile(checkpointer=tmp_path).invoke({}, run_id="r")
    assert most == 2
    assert sum(isinstance(event, ParallelBranchStarted) for event in read_events(tmp_path / "r")) == 6


async def test_failing_branch_is_named_and_the_others_are_not_repeated(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = True

    async def work(state: Work, ctx: NodeContext) -> dict[str, Any]:
        ran.append(ctx.node)
        if broken and ctx.node in ("b1", "b2"):
            raise ConnectionError(ctx.node)
        return {"items": ctx.node}

    graph = Graph(Work).add_node("join", work)
    for number in range(4):
        graph.add_node(f"b{number}", work).add_edge(START, f"b{number}").add_edge(f"b{number}", "join")
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(NodeError, match="node 'b1' failed: ConnectionError: b1") as caught:
        await compiled.invoke({}, run_id="r")
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert sorted(ran) == ["b0", "b1", "b2", "b3"]
    broken = False
    assert (await compiled.resume(run_id="r"))["items"] == ["b0", "b1", "b2", "b3", "join"]
    assert sorted(ran[4:]) == ["b1", "b2", "join"]


async def test_of_many_failing_branches_the_first_is_named() -> None:
    async def work(state: Work, ctx: NodeContext) -> dict[str, Any]:
        if ctx.node in ("b2", "b10", "b11"):
            raise ConnectionError(ctx.node)
        return {"items": ctx.node}

    graph = Graph(Work)
    for number in range(12):
        graph.add_node(f"b{number}", work).add_edge(START, f"b{number}")
    with pytest.raises(NodeError, match="node 'b2' failed: ConnectionError: b2"):
        await graph.compile().invoke({})


async def test_update_that_can_not_be_merged_names_its_node() -> None:
    class Odd(State):
        text: Annotated[str, lambda old, new: old + new]

    graph = Graph(Odd).add_node("number", lambda state: {"text": 1}).add_node("word", lambda state: {"text": "a"})
    graph.add_edge(START, "number").add_edge(START, "word")
    with pytest.raises(NodeError, match=r"merging the update of node 'word': the reducer of channel 'text'") as caught:
        await graph.compile().invoke({})
    assert isinstance(caught.value.__cause__, ChannelError)
    assert caught.value.node == "START.branches"


async def test_branch_without_a_node_ends_where_the_others_join() -> None:
    graph = Graph(Work)
    for name in ("a", "b", "c"):
        graph.add_node(name, lambda state, ctx: {"items": ctx.node})
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("b", "c")
    assert (await graph.compile().invoke({}))["items"] == ["a", "b", "c"]


def test_branch_that_leads_back_to_its_beginning_is_refused() -> None:
    graph = fan(2)
    graph.add_node("back", lambda state: None).add_edge("split", "back").add_edge("back", "split")
    with pytest.raises(GraphError, match="the branch from 'split' to 'back' leads back to 'split' before"):
        graph.compile()


def test_branch_that_may_lead_back_is_refused_and_a_loop_behind_the_join_is_not() -> None:
    graph = fan(2)
    graph.add_node("back", lambda state: None).add_edge("split", "back")
    graph.add_conditional_edges("back", lambda state: "on", {"again": "split", "on": END})
    with pytest.raises(GraphError, match=r"'back' leads back to 'split' before the branches meet at 'END'"):
        graph.compile()
    inner = Graph(Work).add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("a", "d")
    for name in ("a", "b", "c", "d", "meet"):
        inner.add_node(name, lambda state: None)
    inner.add_edge("c", "meet").add_conditional_edges("d", lambda state: 1, {1: "a", 2: "meet"}).add_edge("b", "meet")
    with pytest.raises(GraphError, match=r"from 'a' to 'd' leads back to 'a' before the branches meet at 'meet'"):
        inner.compile()
