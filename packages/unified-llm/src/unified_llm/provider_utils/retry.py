"""Retrying one call (section 6.6). The high-level functions use it; `Client` and adapters never retry by themselves."""

import inspect
import random as _random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from unified_llm.spec.errors import ConfigurationError, SDKError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long to wait. Delays are in seconds.

    `max_retries` doesn't count the first attempt; 0 disables retrying. `on_retry(error, attempt, delay)` is called
    before each wait, with `attempt` counting from 0; it may be async.
    """

    max_retries: int = 2
    base_delay: float = 1.0
    max_delay: float = 60.0
    backoff_multiplier: float = 2.0
    jitter: bool = True
    on_retry: Callable[[Exception, int, float], Any] | None = None

    def __post_init__(self) -> None:
        for field in ("max_retries", "base_delay", "max_delay", "backoff_multiplier"):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not value >= 0:
                raise ConfigurationError(f"RetryPolicy.{field} must be a number, not negative, but is {value!r}")
        if self.on_retry is not None and not callable(self.on_retry):
            raise ConfigurationError(f"RetryPolicy.on_retry must be callable, but is {self.on_retry!r:.100}")

    def backoff(self, attempt: int, *, random: Callable[[float, float], float] = _random.uniform) -> float:
        """The delay before retry number `attempt`, counted from 0. `random(low, high)` draws the jitter."""
        try:
            delay = min(self.base_delay * self.backoff_multiplier**attempt, self.max_delay)
        except OverflowError:
            delay = self.max_delay
        return delay * random(0.5, 1.5) if self.jitter else delay


DEFAULT_POLICY = RetryPolicy()


def is_retryable(error: Exception) -> bool:
    """The classification of section 6.3. An exception that isn't an SDKError is a fault of the program, not retried."""
    return isinstance(error, SDKError) and error.retryable


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy = DEFAULT_POLICY,
    *,
    should_retry: Callable[[Exception], bool] | None = None,
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    random: Callable[[float, float], float] = _random.uniform,
) -> T:
    """Await `call()` until it succeeds, fails for good, or the retries are used up; then raise its last error.

    A provider's `retry_after` replaces the computed delay. If it exceeds `policy.max_delay` the error is raised at
    once. `should_retry` replaces `is_retryable`, for instance to retry timeouts too. Cancellation is never retried.
    """
    attempt = 0
    while True:
        try:
            return await call()
        except Exception as error:
            if attempt >= policy.max_retries or not (should_retry or is_retryable)(error):
                raise
            delay = getattr(error, "retry_after", None)
            if delay is None:
                delay = policy.backoff(attempt, random=random)
            elif delay > policy.max_delay:
                raise
            if policy.on_retry is not None:
                noticed = policy.on_retry(error, attempt, delay)
                if inspect.isawaitable(noticed):
                    await noticed
        # Outside the except block, so that the failed attempt's frames are not kept alive while waiting.
        await sleep(delay)
        attempt += 1
