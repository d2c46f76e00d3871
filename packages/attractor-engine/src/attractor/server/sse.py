"""The events of runs as server-sent events.

A run's events.jsonl is the one source. Whoever comes late or back reads it from where they were, and a reader who is
slow reads it later; so a reader costs the run nothing, and no queue grows for one who doesn't read.
"""

from pathlib import Path

import anyio
from starlette.types import Receive, Scope, Send

from attractor.events import PipelineCompleted, PipelineFailed
from attractor.server.event_tail import Tail, Tails

KEEP_ALIVE_SECONDS = 15.0
PATIENCE_SECONDS = 30.0
TERMINAL = (PipelineCompleted.__name__, PipelineFailed.__name__)
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that buffer would keep events back.
    (b"x-accel-buffering", b"no"),
]
_OPENING = b"retry: 2000\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"


class EventStream:
    """An ASGI response with the events of a run after number `after`, those to come included.

    It ends after the event that ends the run, or when nobody executes the run any more. With `follow` false it ends
    with the last event that there is. A reader who takes nothing for `patience` seconds is dropped.
    """

    def __init__(
        self,
        folder: Path,
        tails: Tails,
        *,
        after: int = 0,
        follow: bool = True,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._folder = folder
        self._tails = tails
        self._after = after
        self._follow = follow
        self._keep_alive = keep_alive
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch, receive, tasks.cancel_scope)
            with self._tails.following(self._folder) as tail:
                await self._stream(tail, send)
            tasks.cancel_scope.cancel()

    async def _stream(self, tail: Tail, send: Send) -> None:
        if not await self._send(send, _OPENING):
            return
        offset, number, last = 0, self._after, ""
        if number and number >= tail.number:
            offset, last = tail.offset, tail.last
        while True:
            if offset < tail.offset:
                batch = await self._tails.read(tail, offset, number)
                data = batch.after(number)
                offset, last, number = batch.end, batch.last or last, max(number, batch.last_number)
                if data and not await self._send(send, data):
                    return
            elif last in TERMINAL or not self._follow or tail.abandoned or tail.stopped:
                await send({"type": "http.response.body", "body": b""})
                return
            else:
                await tail.wait(self._keep_alive)
                is_silent = offset == tail.offset and not (tail.abandoned or tail.stopped)
                if is_silent and not await self._send(send, _KEEP_ALIVE):
                    return

    async def _send(self, send: Send, data: bytes) -> bool:
        """Whether the reader took it in time. One who doesn't is dropped, and may come back with Last-Event-ID."""
        with anyio.move_on_after(self._patience):
            await send({"type": "http.response.body", "body": data, "more_body": True})
            return True
        return False


async def _watch(receive: Receive, streaming: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    streaming.cancel()
