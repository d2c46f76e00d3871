"""Iterating over the stream of a run of a Python graph without `async with`."""

import gc
import threading
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor.events import Event, PipelineCompleted, PipelineStarted
from attractor.prebuilt import START, ChannelError, CompiledGraph, Graph, NodeError, State, StateUpdate, append

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    items: Annotated[list[Any], append]


class Waiting:
    """A graph of two nodes, whose second waits the first time. `ended` counts how often it was left."""

    def __init__(self, folder: Path) -> None:
        self.is_patient = True
        self.ended = 0
        graph = Graph(Work).add_node("a", lambda state: {"items": "a"}).add_node("wait", self.wait)
        graph.add_edge(START, "a").add_edge("a", "wait")
        self.compiled = graph.compile(checkpointer=folder)

    async def wait(self, state: Work) -> dict[str, Any]:
        try:
            if self.is_patient:
                await anyio.sleep_forever()
        finally:
            self.ended += 1
        return {"items": "waited"}

    async def go_on(self) -> Work:
        """Resume at once, whatever is still ending."""
        self.is_patient = False
        return await self.compiled.resume(run_id="r")


def quick() -> CompiledGraph[Work]:
    return Graph(Work).add_node("a", lambda state: {"items": "a"}).add_edge(START, "a").compile()


@BOTH
async def test_full_iteration() -> None:
    items: list[Event | StateUpdate] = []
    run = quick().stream({"items": ["0"]})
    async for item in run:
        items.append(item)  # noqa: PERF401 (as users write it)
    assert isinstance(items[0], PipelineStarted)
    assert isinstance(items[-1], PipelineCompleted)
    assert [item.state for item in items if isinstance(item, StateUpdate)] == [{"items": ["0", "a"]}]
    assert run.result == {"items": ["0", "a"]}
    assert [item async for item in run] == []
    await run.aclose()


@BOTH
async def test_break_ends_the_run_which_can_be_resumed_at_once(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    async for item in waiting.compiled.stream({}, run_id="r"):
        if isinstance(item, StateUpdate):
            break
    with anyio.fail_after(20):
        assert await waiting.go_on() == {"items": ["a", "waited"]}


@BOTH
async def test_break_ends_the_run_which_can_be_streamed_on_at_once(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    async for item in waiting.compiled.stream({}, run_id="r"):
        if isinstance(item, StateUpdate):
            break
    waiting.is_patient = False
    with anyio.fail_after(20):
        run = waiting.compiled.stream_resumed(run_id="r")
        assert [item.node async for item in run if isinstance(item, StateUpdate)] == ["wait"]
    assert run.result == {"items": ["a", "waited"]}


@BOTH
async def test_exception_in_the_body_ends_the_run(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)

    async def watch() -> None:
        async for item in waiting.compiled.stream({}, run_id="r"):
            if isinstance(item, StateUpdate):
                raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await watch()
    with anyio.fail_after(20):
        assert await waiting.go_on() == {"items": ["a", "waited"]}


@BOTH
async def test_cancellation_ends_the_run_before_it_comes_out(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    seen: list[str] = []
    with anyio.move_on_after(60) as scope:
        async for item in waiting.compiled.stream({}, run_id="r"):
            if isinstance(item, StateUpdate):
                seen.append(item.node)
                scope.cancel()
    assert scope.cancelled_caught
    assert seen == ["a"]
    assert "cancelled" in (tmp_path / "r" / "checkpoint.json").read_text()
    assert await waiting.go_on() == {"items": ["a", "waited"]}


@BOTH
async def test_closing_waits_for_the_end(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    run = waiting.compiled.stream({}, run_id="r")
    await run.aclose()
    async for item in run:
        if isinstance(item, StateUpdate):
            break
    await run.aclose()
    assert "cancelled" in (tmp_path / "r" / "checkpoint.json").read_text()
    with anyio.fail_after(20):
        assert [item async for item in run] == []
    with pytest.raises(RuntimeError, match="a stream is one run"):
        async with run:
            pass


@BOTH
async def test_stream_that_another_thread_forgets_ends_too(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    held = [waiting.compiled.stream({}, run_id="r")]
    async for item in held[0]:
        if isinstance(item, StateUpdate):
            break
    thread = threading.Thread(target=held.clear)
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    gc.collect()
    with anyio.fail_after(20):
        assert await waiting.go_on() == {"items": ["a", "waited"]}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_stream_may_outlive_its_event_loop(tmp_path: Path, backend: str) -> None:
    waiting = Waiting(tmp_path)
    held = [waiting.compiled.stream({}, run_id="r")]

    async def begin() -> None:
        async for item in held[0]:
            if isinstance(item, StateUpdate):
                return

    anyio.run(begin, backend=backend)
    anyio.run(held[0].aclose, backend=backend)
    assert waiting.ended <= 1
    held.clear()
    gc.collect()
    assert anyio.run(waiting.go_on, backend=backend) == {"items": ["a", "waited"]}


@BOTH
async def test_errors_come_out_plain() -> None:
    def boom(state: Work) -> None:
        raise KeyError("boom")

    compiled = Graph(Work).add_node(boom).add_edge(START, "boom").compile()
    with pytest.raises(NodeError, match="boom") as caught:
        _ = [item async for item in compiled.stream({})]
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ChannelError, match="wrong"):
        _ = [item async for item in compiled.stream({"wrong": 1})]


@BOTH
async def test_streams_run_side_by_side() -> None:
    compiled = quick()
    first, second = compiled.stream({"items": ["1"]}), compiled.stream({"items": ["2"]})
    async for _ in first:
        async for _ in second:
            pass
    assert (first.result, second.result) == ({"items": ["1", "a"]}, {"items": ["2", "a"]})


async def test_history_tells_the_whole_of_a_list_that_grew(tmp_path: Path) -> None:
    graph = Graph(Work).add_node("a", lambda state: {"items": "a"}).add_node("b", lambda state: {"items": "b"})
    compiled = graph.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=tmp_path)
    await compiled.invoke({"items": ["0"]}, run_id="r")
    assert [step.changed for step in compiled.history("r")] == [{"items": ["0", "a"]}, {"items": ["0", "a", "b"]}]
