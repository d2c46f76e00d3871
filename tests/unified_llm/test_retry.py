"""Retrying (section 6.6), on a virtual clock."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import (
    AccessDeniedError,
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    RequestTimeoutError,
    RetryPolicy,
    SDKError,
    ServerError,
    retry,
)

NO_JITTER = RetryPolicy(max_retries=3, jitter=False)


class Clock:
    """Notes the sleeps instead of sleeping."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    left = list(errors)

    async def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


async def test_success_needs_no_sleep() -> None:
    clock = Clock()
    assert await retry(failing(), NO_JITTER, sleep=clock.sleep) == "done"
    assert clock.sleeps == []


async def test_delays_grow_exponentially() -> None:
    clock = Clock()
    call = failing(ServerError("1"), NetworkError("2"), RateLimitError("3"))
    assert await retry(call, NO_JITTER, sleep=clock.sleep) == "done"
    assert clock.sleeps == [1.0, 2.0, 4.0]


async def test_the_last_error_is_raised_when_retries_are_used_up() -> None:
    clock = Clock()
    with pytest.raises(ServerError, match="third"):
        await retry(
            failing(ServerError("first"), ServerError("second"), ServerError("third")),
            RetryPolicy(jitter=False),
            sleep=clock.sleep,
        )
    assert clock.sleeps == [1.0, 2.0]


async def test_zero_retries_disable_retrying() -> None:
    clock = Clock()
    with pytest.raises(ServerError):
        await retry(failing(ServerError("x")), RetryPolicy(max_retries=0), sleep=clock.sleep)
    assert clock.sleeps == []


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("401"),
        AccessDeniedError("403"),
        NotFoundError("404"),
        InvalidRequestError("400"),
        ContextLengthError("413"),
        QuotaExceededError("402"),
        ContentFilterError("blocked"),
        RequestTimeoutError("late"),
        ValueError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_final_errors_are_raised_at_once(error: Exception) -> None:
    clock = Clock()
    with pytest.raises(type(error)):
        await retry(failing(error), NO_JITTER, sleep=clock.sleep)
    assert clock.sleeps == []


async def test_a_provider_error_of_unknown_kind_is_retried() -> None:
    assert await retry(failing(ProviderError("?")), NO_JITTER, sleep=Clock().sleep) == "done"


async def test_should_retry_opts_in_to_timeouts() -> None:
    call = failing(RequestTimeoutError("late"))
    assert await retry(call, NO_JITTER, sleep=Clock().sleep, should_retry=lambda error: True) == "done"


@pytest.mark.parametrize("retry_after", [0.0, 0.25, 59.0, 60.0])
async def test_retry_after_replaces_the_backoff(retry_after: float) -> None:
    clock = Clock()
    await retry(failing(RateLimitError("slow", retry_after=retry_after)), RetryPolicy(), sleep=clock.sleep)
    assert clock.sleeps == [retry_after]


async def test_retry_after_beyond_max_delay_is_raised_at_once() -> None:
    clock = Clock()
    with pytest.raises(RateLimitError) as caught:
        await retry(failing(RateLimitError("slow", retry_after=60.5)), RetryPolicy(), sleep=clock.sleep)
    assert caught.value.retry_after == 60.5
    assert clock.sleeps == []


async def test_on_retry_hears_of_every_wait() -> None:
    heard: list[tuple[str, int, float]] = []

    async def on_retry(error: Exception, attempt: int, delay: float) -> None:
        heard.append((str(error), attempt, delay))

    policy = RetryPolicy(jitter=False, on_retry=on_retry)
    await retry(failing(ServerError("a"), ServerError("b")), policy, sleep=Clock().sleep)
    assert heard == [("a", 0, 1.0), ("b", 1, 2.0)]


async def test_a_sync_on_retry_is_accepted() -> None:
    heard: list[Any] = []
    policy = RetryPolicy(jitter=False, on_retry=lambda *facts: heard.append(facts))
    await retry(failing(ServerError("a")), policy, sleep=Clock().sleep)
    assert len(heard) == 1


@given(
    attempt=st.integers(0, 5000),
    base=st.floats(0, 100),
    multiplier=st.floats(1, 10),
    maximum=st.floats(0, 1000),
    draw=st.floats(0.5, 1.5),
)
def test_backoff_stays_within_its_bounds(
    attempt: int, base: float, multiplier: float, maximum: float, draw: float
) -> None:
    policy = RetryPolicy(base_delay=base, backoff_multiplier=multiplier, max_delay=maximum)
    delay = policy.backoff(attempt, random=lambda low, high: draw)
    assert 0 <= delay <= maximum * draw


def test_jitter_is_half_around_the_delay() -> None:
    asked: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    assert RetryPolicy().backoff(2, random=draw) == 6.0
    assert asked == [(0.5, 1.5)]


@pytest.mark.parametrize("field", ["max_retries", "base_delay", "max_delay", "backoff_multiplier"])
def test_negative_numbers_are_refused_by_name(field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        RetryPolicy(**{field: -1})


def test_errors_say_whether_to_retry() -> None:
    def tree(kind: type[SDKError]) -> set[type[SDKError]]:
        return {kind}.union(*(tree(sub) for sub in kind.__subclasses__()))

    retried = {kind.__name__ for kind in tree(SDKError) if kind("x").retryable}
    assert retried == {"ProviderError", "RateLimitError", "ServerError", "NetworkError", "StreamError"}
