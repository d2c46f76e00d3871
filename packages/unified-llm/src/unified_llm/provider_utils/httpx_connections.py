"""Connections to one endpoint through httpx or httpx2, each in a transport of its own.

The libraries' own pool looks through all its connections and all its requests whenever a request begins or ends, which
with 64 in flight costs more than all the rest. Here the connection that became idle last is taken, however many there
are. The work that a client does for each call and an API has no use for (cookies, redirects, authentication) is left
out.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import anyio

MAX_IDLE = 256
"""Connections that are kept for later calls."""
IDLE_SECONDS = 60.0
"""Long enough for a person to read an answer and go on over the same connection."""
_CLOSE_SECONDS = 2.0


class Connections:
    """Has the methods of the libraries' `AsyncClient` that we use, and never has a request wait for another.

    `make_transport` returns an `AsyncHTTPTransport` of `library`. `clock` returns seconds.
    """

    def __init__(
        self, library: ModuleType, make_transport: Callable[[], Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.is_closed = False
        self._library = library
        self._make_transport = make_transport
        self._clock = clock
        self._headers = dict(library.AsyncClient(transport=make_transport(), trust_env=False).headers)
        self._busy: set[Any] = set()
        self._idle: deque[tuple[Any, float]] = deque()  # and since when, the longest first

    def build_request(
        self, method: str, url: Any, *, content: bytes, headers: Mapping[str, str], extensions: dict[str, Any]
    ) -> Any:
        """The request, with the headers that the library's client sends beside the caller's."""
        merged = self._headers | {name.lower(): value for name, value in headers.items()}
        return self._library.Request(method, url, headers=merged, content=content, extensions=extensions)

    async def send(self, request: Any, *, stream: bool) -> Any:
        """The answer's head. Closing the answer gives its connection back; `stream` must be true."""
        transport = await self._take()
        try:
            response = await transport.handle_async_request(request)
        except BaseException:
            await self._drop(transport)
            raise
        response.request = request
        response.stream = _leased(self._library)(response.stream, lambda: self._give_back(transport))
        return response

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self.is_closed = True
        transports = [*self._busy, *(transport for transport, _ in self._idle)]
        self._busy.clear()
        self._idle.clear()
        for transport in transports:
            await transport.aclose()

    async def _take(self) -> Any:
        if self.is_closed:
            raise RuntimeError("the connections have been closed")
        while self._idle and self._idle[0][1] < self._clock() - IDLE_SECONDS:
            await self._drop(self._idle.popleft()[0])
        transport = self._idle.pop()[0] if self._idle else self._make_transport()
        self._busy.add(transport)
        return transport

    async def _give_back(self, transport: Any) -> None:
        if transport not in self._busy:
            return
        self._busy.discard(transport)
        self._idle.append((transport, self._clock()))
        if len(self._idle) > MAX_IDLE:
            await self._drop(self._idle.popleft()[0])

    async def _drop(self, transport: Any) -> None:
        """Close a connection for good, also for a caller that is being cancelled."""
        self._busy.discard(transport)
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await transport.aclose()


@cache
def _leased(library: ModuleType) -> type[Any]:
    """A class for the library's bodies that tell when they are closed."""

    base: Any = library.AsyncByteStream

    class LeasedStream(base):  # type: ignore[misc]
        def __init__(self, stream: Any, give_back: Callable[[], Awaitable[None]]) -> None:
            self._stream = stream
            self._give_back = give_back

        def __aiter__(self) -> AsyncIterator[bytes]:
            iterator: AsyncIterator[bytes] = self._stream.__aiter__()
            return iterator

        async def aclose(self) -> None:
            try:
                await self._stream.aclose()
            finally:
                await self._give_back()

    return LeasedStream
