"""Not asking a provider that keeps failing."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.provider_utils.retry import is_retryable
from unified_llm.spec.errors import ConfigurationError, ProviderError, ServerError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response


class CircuitState(StrEnum):
    """CLOSED lets calls through, OPEN refuses them, HALF_OPEN lets one through to see whether the provider is back."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(slots=True)
class _Circuit:
    """What is known about one provider. `opened_at` is None while closed; `trying` while the one call is on its way."""

    failures: int = 0
    opened_at: float | None = None
    trying: bool = False
    last_failure: str = ""


class CircuitBreakerMiddleware:
    """After `max_failures` failures in a row, refuses calls to that provider for `reset_after` seconds.

    Then one call is let through: if it succeeds all are again, if it fails the wait begins anew. Each provider of the
    client has its own circuit. Only what `counts(error)` says counts as a failure, by default retryable errors (rate
    limits, 5xx, network, broken streams). A refusal that is the request's own fault shows that the provider is there.
    What tells nothing of the provider, such as a cancelled call or a stream left by its reader, changes nothing.

    A refused call raises ServerError with `error_code="circuit_open"` and `retry_after`, the seconds until a call may
    be let through; it is retryable, so `generate()` waits that long, and a fallback moves on at once. `clock` counts
    seconds.
    """

    def __init__(
        self,
        max_failures: int = 5,
        *,
        reset_after: float = 30.0,
        counts: Callable[[Exception], bool] = is_retryable,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_failures < 1:
            raise ConfigurationError(f"max_failures must be at least 1, but is {max_failures}")
        if not reset_after > 0:
            raise ConfigurationError(f"reset_after must be a positive number of seconds, but is {reset_after!r}")
        self._max_failures = max_failures
        self._reset_after = reset_after
        self._counts = counts
        self._clock = clock
        self._circuits: dict[str | None, _Circuit] = {}

    def state(self, provider: str) -> CircuitState:
        """Where the provider's circuit stands now."""
        circuit = self._circuits.get(provider)
        if circuit is None or circuit.opened_at is None:
            return CircuitState.CLOSED
        waited = self._clock() - circuit.opened_at >= self._reset_after
        return CircuitState.HALF_OPEN if circuit.trying or waited else CircuitState.OPEN

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """Call, unless the circuit is open."""
        circuit, trial = self._admit(request)
        try:
            response = await call_next(request)
        except BaseException as error:
            self._note_error(circuit, trial, error)
            raise
        self._note_success(circuit, trial)
        return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """Stream, unless the circuit is open. A stream succeeds when it has finished."""
        circuit, trial = self._admit(request)
        finished = False
        try:
            async with EventStream(call_next(request)) as events:
                async for event in events:
                    if event.type == StreamEventType.FINISH:
                        finished = True
                        self._note_success(circuit, trial)
                    yield event
        except BaseException as error:
            if not finished:
                self._note_error(circuit, trial, error)
            raise

    def _admit(self, request: Request) -> tuple[_Circuit, bool]:
        """The provider's circuit, and whether this call is the one that tries it. Raises if the circuit is open."""
        circuit = self._circuits.setdefault(request.provider, _Circuit())
        if circuit.opened_at is None:
            return circuit, False
        remaining = circuit.opened_at + self._reset_after - self._clock()
        if remaining > 0 or circuit.trying:
            raise self._refusal(request.provider, circuit, remaining if remaining > 0 else self._reset_after)
        circuit.trying = True
        return circuit, True

    def _refusal(self, provider: str | None, circuit: _Circuit, retry_after: float) -> ServerError:
        return ServerError(
            f"{provider} failed {circuit.failures} times in a row, so the request was not sent; "
            f"the next attempt may be made in {retry_after:.1f} s. The last failure was {circuit.last_failure}",
            provider=provider,
            error_code="circuit_open",
            retry_after=retry_after,
        )

    def _note_success(self, circuit: _Circuit, trial: bool) -> None:
        # What was sent before the circuit opened tells nothing about the provider's state now.
        if trial or circuit.opened_at is None:
            circuit.failures = 0
            circuit.opened_at = None
            circuit.trying = False

    def _note_error(self, circuit: _Circuit, trial: bool, error: BaseException) -> None:
        if trial:
            circuit.trying = False
        if isinstance(error, Exception) and self._counts(error):
            if trial or circuit.opened_at is None:
                circuit.failures += 1
                circuit.last_failure = f"{type(error).__name__}: {error}"
                if trial or circuit.failures >= self._max_failures:
                    circuit.opened_at = self._clock()
        elif isinstance(error, ProviderError):
            self._note_success(circuit, trial)
