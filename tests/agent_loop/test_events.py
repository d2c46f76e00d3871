"""Readers of events: replay, many at once, the end, and those who are too slow."""

from typing import Any

import anyio
import pytest
from agent_loop import EventKind, EventsLostError
from agent_loop.events import EventEmitter

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


async def test_every_reader_gets_everything_in_order() -> None:
    emitter = EventEmitter("s")
    got: list[list[Any]] = [[], [], []]

    async def read(index: int) -> None:
        async for event in emitter.events():
            got[index].append(event.data.get("number", event.kind))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, 0)
        emitter.emit(EventKind.SESSION_START)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(read, 1)
        for number in range(5):
            emitter.emit(EventKind.WARNING, number=number)
            await anyio.wait_all_tasks_blocked()
        emitter.emit(EventKind.SESSION_END)
        emitter.emit(EventKind.WARNING, number="after the end")
    with anyio.fail_after(1):
        await read(2)
    assert got == [[EventKind.SESSION_START, 0, 1, 2, 3, 4, EventKind.SESSION_END]] * 3


async def test_a_reader_too_far_behind_gets_an_error_and_nobody_else_does() -> None:
    emitter = EventEmitter("s", max_behind=3)
    slow, quick = emitter.events(), emitter.events()
    emitter.emit(EventKind.SESSION_START)
    assert (await anext(slow)).kind is EventKind.SESSION_START
    for number in range(4):
        emitter.emit(EventKind.WARNING, number=number)
        await anext(quick)
    with pytest.raises(EventsLostError, match="more than 3 events behind"):
        await anext(slow)
    emitter.emit(EventKind.SESSION_END)
    assert [event.kind async for event in quick][-1] is EventKind.SESSION_END


async def test_a_late_reader_may_replay_more_than_one_may_be_behind() -> None:
    emitter = EventEmitter("s", max_behind=3)
    for number in range(10):
        emitter.emit(EventKind.WARNING, number=number)
    emitter.emit(EventKind.SESSION_END)
    assert len([event async for event in emitter.events()]) == 11


async def test_a_reader_that_leaves_waits_no_more() -> None:
    emitter = EventEmitter("s")
    emitter.emit(EventKind.SESSION_START)
    with anyio.move_on_after(0.01):
        async for _ in emitter.events():
            pass
    emitter.emit(EventKind.SESSION_END)
    assert len([event async for event in emitter.events()]) == 2
