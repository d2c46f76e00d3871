"""A stream that can be iterated, closed, and used in `async with`."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from anyio import CancelScope

from unified_llm.spec.events import StreamEvent


class EventStream:
    """The events of one request. The connection is released when the stream ends, fails, is cancelled or closed.

    Breaking out of a bare `async for` leaves the release to the garbage collector; `async with` doesn't.
    """

    def __init__(
        self, events: AsyncIterator[StreamEvent], opened: list[AsyncIterator[StreamEvent]] | None = None
    ) -> None:
        """`opened` lists iterators beneath `events`, and may grow while it runs; they are closed after it."""
        self._events = events
        self._opened = [] if opened is None else opened
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            return await self._events.__anext__()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Release the connection; the stream is over. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        # Shielded: a cancelled reader must still give the connection back.
        with CancelScope(shield=True):
            for iterator in (self._events, *self._opened):
                if (close := getattr(iterator, "aclose", None)) is not None:
                    await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
