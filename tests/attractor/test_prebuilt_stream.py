"""Watching a run of a Python graph: events and updates as they come, and leaving in the middle."""

from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor.errors import RunDirectoryError
from attractor.events import Event, PipelineCompleted, PipelineFailed, PipelineStarted, StageActivity, StageCompleted
from attractor.prebuilt import START, Graph, InterruptError, NodeContext, NodeError, State, StateUpdate, append

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    items: Annotated[list[Any], append]


async def step(state: Work, ctx: NodeContext) -> dict[str, Any]:
    ctx.emit(f"in {ctx.node}")
    return {"items": ctx.node}


def chain(*names: str) -> Graph[Work]:
    graph = Graph(Work)
    for source, name in zip((START, *names), names, strict=False):
        graph.add_node(name, step).add_edge(source, name)
    return graph


@BOTH
async def test_updates_come_behind_the_end_of_their_node() -> None:
    async with chain("a", "b").compile().stream({"items": ["0"]}) as run:
        items = [item async for item in run]
    updates = [item for item in items if isinstance(item, StateUpdate)]
    assert updates == [
        StateUpdate(node="a", update={"items": "a"}, state={"items": ["0", "a"]}),
        StateUpdate(node="b", update={"items": "b"}, state={"items": ["0", "a", "b"]}),
    ]
    for update in updates:
        before = items[items.index(update) - 1]
        assert isinstance(before, StageCompleted)
        assert before.name == update.node
    assert isinstance(items[0], PipelineStarted)
    assert isinstance(items[-1], PipelineCompleted)
    assert run.result == {"items": ["0", "a", "b"]}


@BOTH
async def test_what_happens_is_told_while_the_node_still_works() -> None:
    told = anyio.Event()

    async def wait(state: Work, ctx: NodeContext) -> dict[str, Any]:
        ctx.emit("half done")
        await told.wait()
        return {"items": "done"}

    compiled = Graph(Work).add_node(wait).add_edge(START, "wait").compile()
    with anyio.fail_after(20):
        async with compiled.stream({}) as run:
            async for item in run:
                if isinstance(item, StageActivity):
                    assert item.text == "half done"
                    told.set()
    assert run.result == {"items": ["done"]}


@BOTH
async def test_leaving_early_cancels_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    patient = True

    async def wait(state: Work) -> dict[str, Any]:
        if patient:
            await anyio.sleep_forever()
        return {"items": "waited"}

    async def watch() -> None:
        async with compiled.stream({}, run_id="r") as run:
            async for item in run:
                if isinstance(item, StateUpdate):
                    with pytest.raises(RuntimeError, match="has no result yet"):
                        _ = run.result
                    raise LookupError("mine")

    compiled = chain("a").add_node(wait).add_edge("a", "wait").compile(checkpointer=tmp_path)
    with pytest.raises(LookupError, match="mine"):
        await watch()
    assert compiled.state("r") == {"items": ["a"]}
    patient = False
    assert await compiled.resume(run_id="r") == {"items": ["a", "waited"]}


async def test_failure_comes_behind_the_last_item() -> None:
    def boom(state: Work) -> None:
        raise KeyError("boom")

    async def watch() -> None:
        async for item in run:
            items.append(item)  # noqa: PERF401 (what came before the error counts)

    items: list[Event | StateUpdate] = []
    async with chain("a").add_node(boom).add_edge("a", "boom").compile().stream({}) as run:
        with pytest.raises(NodeError, match="boom") as caught:
            await watch()
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(items[-1], PipelineFailed)


@BOTH
async def test_resumed_run_tells_what_is_new(tmp_path: Path) -> None:
    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        return {"items": ctx.interrupt("more?")}

    compiled = chain("a").add_node(ask).add_edge("a", "ask").compile(checkpointer=tmp_path)
    async with compiled.stream({}, run_id="r") as run:
        with pytest.raises(InterruptError) as caught:
            _ = [item async for item in run]
    assert caught.value.payload == "more?"
    async with compiled.stream_resumed("yes", run_id="r") as run:
        items = [item async for item in run]
    assert [item.node for item in items if isinstance(item, StateUpdate)] == ["ask"]
    assert [item.name for item in items if isinstance(item, StageCompleted)] == ["ask", "END"]
    assert run.result == {"items": ["a", "yes"]}
    async with compiled.stream_resumed(run_id="r") as run:
        with anyio.fail_after(20):
            assert [item async for item in run] == []
    assert run.result == {"items": ["a", "yes"]}


async def test_run_that_can_not_begin_says_so(tmp_path: Path) -> None:
    compiled = chain("a").compile(checkpointer=tmp_path)
    await compiled.invoke({}, run_id="r")
    async with compiled.stream({}, run_id="r") as run:
        with anyio.fail_after(20), pytest.raises(RunDirectoryError, match="already holds a run"):
            _ = [item async for item in run]


async def test_observer_is_told_every_event(tmp_path: Path) -> None:
    seen: list[Event] = []
    await chain("a").compile().invoke({}, on_event=seen.append)
    assert isinstance(seen[0], PipelineStarted)
    assert isinstance(seen[-1], PipelineCompleted)
    assert [event.sequence for event in seen] == list(range(1, len(seen) + 1))


async def test_parallel_branches_tell_their_updates() -> None:
    graph = Graph(Work)
    for name in ("a", "b", "c"):
        graph.add_node(name, step).add_edge(START, name)
    async with graph.compile().stream({}) as run:
        updates = {item.node: item.state async for item in run if isinstance(item, StateUpdate)}
    assert updates == {name: {"items": [name]} for name in ("a", "b", "c")}
