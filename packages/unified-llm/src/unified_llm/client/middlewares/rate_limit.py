"""Staying under a provider's rate limits instead of running into them (section 6.7)."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.client.middlewares.metering import StreamMeter, estimate_input_tokens, total_tokens
from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.events import StreamEvent
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response


class TokenBucket:
    """Holds `per_minute` units at most, begins full and refills evenly. It may be overdrawn, and then owes."""

    def __init__(self, per_minute: float, clock: Callable[[], float]) -> None:
        self._capacity = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._level = self._capacity
        self._updated: float | None = None

    def wait_for(self, amount: float) -> float:
        """Seconds until the amount is there. More than a full bucket is there when the bucket is full."""
        missing = min(amount, self._capacity) - self._refilled()
        # Less than a millionth is rounding, and a wait for it might be too short for the clock to move.
        return missing / self._rate if missing > 1e-6 else 0.0

    def take(self, amount: float) -> None:
        """Take the amount out; a negative one puts it back."""
        self._level = min(self._capacity, self._refilled() - amount)

    def _refilled(self) -> float:
        now = self._clock()
        if self._updated is not None:
            self._level = min(self._capacity, self._level + max(0.0, now - self._updated) * self._rate)
        self._updated = now
        return self._level


class RateLimitMiddleware:
    """Delays calls so that they stay under `requests_per_minute` and `tokens_per_minute` (input and output together).

    Calls go in the order they came, none overtakes; a call that is cancelled while it waits takes nothing. After a
    pause a burst of up to a minute's worth may pass at once, as with the providers' own limits. The tokens of a call
    are estimated from its prompt when it starts, and put right when its usage is known. A failed call counts as a
    request.

    With `provider`, only calls to that one are counted and delayed: add one middleware a provider. `clock` and `sleep`
    are in seconds, by default those of the event loop.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        provider: str | None = None,
        clock: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        if requests_per_minute is None and tokens_per_minute is None:
            raise ConfigurationError("a rate limit needs requests_per_minute, tokens_per_minute or both")
        for name, limit in (("requests_per_minute", requests_per_minute), ("tokens_per_minute", tokens_per_minute)):
            if limit is not None and not limit > 0:
                raise ConfigurationError(f"{name} must be positive, but is {limit!r}")
        self._requests = None if requests_per_minute is None else TokenBucket(requests_per_minute, clock)
        self._tokens = None if tokens_per_minute is None else TokenBucket(tokens_per_minute, clock)
        self._provider = provider
        self._sleep = sleep
        # Locks are given in the order in which they were asked for. Whoever holds it is the next to go.
        self._turn = anyio.Lock()

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """Wait for the turn, then call."""
        if not self._applies_to(request):
            return await call_next(request)
        estimate = await self._admit(request)
        used = 0
        try:
            response = await call_next(request)
            used = total_tokens(response.usage)
            return response
        finally:
            self._settle(estimate, used)

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """Wait for the turn, then stream."""
        counted = self._applies_to(request)
        estimate = await self._admit(request) if counted else 0
        meter = StreamMeter(request)
        try:
            async with EventStream(call_next(request)) as events:
                async for event in events:
                    meter.process(event)
                    yield event
        finally:
            if counted:
                self._settle(estimate, total_tokens(meter.usage()))

    def _applies_to(self, request: Request) -> bool:
        return self._provider is None or self._provider == request.provider

    async def _admit(self, request: Request) -> int:
        """Wait until both buckets have enough, take it, and return the number of tokens taken."""
        estimate = 0 if self._tokens is None else estimate_input_tokens(request)
        demands = [(bucket, n) for bucket, n in ((self._requests, 1), (self._tokens, estimate)) if bucket is not None]
        async with self._turn:
            while (delay := max(bucket.wait_for(n) for bucket, n in demands)) > 0:
                await self._sleep(delay)
            for bucket, n in demands:
                bucket.take(n)
        return estimate

    def _settle(self, estimate: int, used: int) -> None:
        if self._tokens is not None:
            self._tokens.take(used - estimate)
