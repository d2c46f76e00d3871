"""What can end a high-level call early: its abort signal and its time limits (section 4.7)."""

import math
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import current_token

from unified_llm.spec.abort import AbortSignal
from unified_llm.spec.errors import RequestTimeoutError
from unified_llm.spec.request import TimeoutConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the event loop's clock, and what to say when it has passed."""

    time: float
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one call. A bare number of seconds as `timeout` is the total."""

    timeout: TimeoutConfig
    abort_signal: AbortSignal | None = None

    def total_deadline(self) -> Deadline | None:
        """The end of the whole operation, counted from now."""
        return _deadline(self.timeout.total, "timeout.total")

    def step_deadline(self, total: Deadline | None) -> Deadline | None:
        """The end of one model call that starts now: the nearer of its own and the operation's."""
        step = _deadline(self.timeout.per_step, "timeout.per_step")
        if step is None or total is None:
            return step or total
        return min(step, total, key=lambda deadline: deadline.time)

    async def run(self, call: Callable[[], Awaitable[T]], deadline: Deadline | None) -> T:
        """Await `call()`; cancel it and raise AbortError or RequestTimeoutError when a bound is reached."""
        signal = self.abort_signal
        if signal is None and deadline is None:
            return await call()
        if signal is not None:
            signal.raise_if_aborted()
        with anyio.CancelScope(deadline=math.inf if deadline is None else deadline.time) as scope:
            unsubscribe = signal.on_abort(_canceller(scope)) if signal is not None else None
            try:
                return await call()
            finally:
                if unsubscribe is not None:
                    unsubscribe()
        if signal is not None:
            signal.raise_if_aborted()
        assert deadline is not None
        raise RequestTimeoutError(f"{deadline.name} of {deadline.seconds:g} s passed")


def _deadline(seconds: float | None, name: str) -> Deadline | None:
    return None if seconds is None else Deadline(anyio.current_time() + seconds, name, seconds)


def _canceller(scope: anyio.CancelScope) -> Callable[[], None]:
    """A function that cancels the scope from whichever thread aborts, without ever waiting for the event loop.

    anyio's own way from a foreign thread waits for an answer, which a loop that is just ending never gives.
    """
    loop_thread = threading.get_ident()
    loop: Any = current_token().native_token
    post = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon

    def cancel() -> None:
        if threading.get_ident() == loop_thread:
            scope.cancel()
            return
        with suppress(RuntimeError):  # the loop is gone, and the call with it
            post(scope.cancel)

    return cancel
