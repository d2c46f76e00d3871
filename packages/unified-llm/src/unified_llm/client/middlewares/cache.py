"""Answering a request that was answered before, without asking the provider again."""

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import anyio

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.client.middlewares.request_json import fingerprint
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.response_events import events_of
from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response

# An answer that was cut off or filtered is not worth repeating.
_CACHEABLE = ("stop", "tool_calls")


@runtime_checkable
class CacheStore(Protocol):
    """Where cached answers lie. Keys are 64 hexadecimal digits; a Response turns into JSON and back by
    `response.model_dump_json()` and `Response.model_validate_json(text)`. What a store raises reaches the caller.
    """

    async def get(self, key: str) -> Response | None:
        """The answer under that key, or None."""
        ...

    async def put(self, key: str, response: Response) -> None:
        """Keep the answer, for as long and in as much room as the store sees fit."""
        ...


class MemoryCacheStore:
    """The last `max_entries` answers used, each for at most `ttl` seconds (None: no limit). `clock` counts seconds."""

    def __init__(
        self, max_entries: int = 1000, *, ttl: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if max_entries < 1:
            raise ConfigurationError(f"max_entries must be at least 1, but is {max_entries}")
        if ttl is not None and not ttl > 0:
            raise ConfigurationError(f"ttl must be a positive number of seconds, but is {ttl!r}")
        self._max_entries = max_entries
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, Response]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: str) -> Response | None:
        """The answer under that key, unless it is too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        stored, response = entry
        if self._ttl is not None and self._clock() - stored >= self._ttl:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return response

    async def put(self, key: str, response: Response) -> None:
        """Keep the answer; the one that was longest unused makes room."""
        self._entries[key] = (self._clock(), response)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)


@dataclass(slots=True)
class _Flight:
    """Calls that ask the same at the same time: the first asks the provider, the others wait for its answer."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    callers: int = 0


class CacheMiddleware:
    """Answers from `store` (by default the last 1,000 answers, in memory) what was asked before.

    Two requests are the same if their JSON is: provider, model, messages, tools, options, metadata; the functions
    behind tools don't count. Whole and streamed calls share their answers; a cached answer is streamed as one delta a
    part, with all START and END events. Equal calls at the same time reach the provider once, except for streams,
    whose readers may take their time. Only complete answers are kept (finish reason "stop" or "tool_calls"), errors
    never.

    A cached answer is the first one's copy, id and usage included, though it costs nothing: put the cache before a
    budget or a rate limit, so that they don't see it. `hits` and `misses` count.
    """

    def __init__(self, store: CacheStore | None = None) -> None:
        self._store: CacheStore = MemoryCacheStore() if store is None else store
        self._flights: dict[str, _Flight] = {}
        self.hits = 0
        self.misses = 0

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """The cached answer, or a new one."""
        key = fingerprint(request)
        async with self._alone(key):
            if (cached := await self._look_up(key)) is not None:
                return cached
            response = await call_next(request)
            await self._keep(key, response)
            return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """The cached answer as events, or a new stream, kept once it has finished."""
        key = fingerprint(request)
        if (cached := await self._look_up(key)) is not None:
            for event in events_of(cached, chunk=None):
                yield event
            return
        accumulator = StreamAccumulator()
        async with EventStream(call_next(request)) as events:
            async for event in events:
                accumulator.process(event)
                if event.type == StreamEventType.FINISH:
                    await self._keep(key, accumulator.response())
                yield event

    async def _look_up(self, key: str) -> Response | None:
        cached = await self._store.get(key)
        if cached is None:
            self.misses += 1
        else:
            self.hits += 1
        return cached

    async def _keep(self, key: str, response: Response) -> None:
        if response.finish_reason.reason in _CACHEABLE:
            await self._store.put(key, response)

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        flight = self._flights.setdefault(key, _Flight())
        flight.callers += 1
        try:
            async with flight.lock:
                yield
        finally:
            flight.callers -= 1
            if not flight.callers:
                del self._flights[key]
