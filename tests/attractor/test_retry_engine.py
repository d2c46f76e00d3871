"""Retry policies and the attempts of one stage (sections 3.5 and 3.6, Appendix D)."""

from collections.abc import Callable

import pytest
from attractor.dot import parse_dot
from attractor.engine.retry import (
    PRESETS,
    BackoffConfig,
    RetryPolicy,
    build_retry_policy,
    execute_with_retry,
    is_retryable,
)
from attractor.errors import ContextValueError
from attractor.outcome import Outcome, StageStatus
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import AuthenticationError, NetworkError, RateLimitError, RequestTimeoutError

RETRY = Outcome(status=StageStatus.RETRY, failure_reason="not yet")


def middle(low: float, high: float) -> float:
    return (low + high) / 2


async def run(
    replies: list[Outcome | Exception], policy: RetryPolicy, allow_partial: bool = False
) -> tuple[Outcome, int, list[float]]:
    waits: list[float] = []
    left = iter(replies)

    async def attempt() -> Outcome:
        reply = next(left)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))

    outcome, attempts = await execute_with_retry(
        attempt, policy, node_id="n", allow_partial=allow_partial, sleep=sleep, uniform=middle
    )
    return outcome, attempts, waits


@pytest.mark.parametrize(
    ("name", "attempts", "delays"),
    [
        ("none", 1, []),
        ("standard", 5, [200, 400, 800, 1600, 3200]),
        ("aggressive", 5, [500, 1000, 2000, 4000, 8000]),
        ("linear", 3, [500, 500, 500]),
        ("patient", 3, [2000, 6000, 18000]),
    ],
)
def test_backoff_between_retries_of_each_preset(name: str, attempts: int, delays: list[int]) -> None:
    policy = PRESETS[name]
    assert policy.max_attempts == attempts
    assert [policy.backoff.delay_for_attempt(n, middle) for n in range(1, len(delays) + 1)] == delays


@given(st.integers(1, 10_000), st.booleans())
def test_backoff_stays_within_its_cap_and_jitter(attempt: int, jitter: bool) -> None:
    delay = BackoffConfig(jitter=jitter).delay_for_attempt(attempt)
    assert 100 <= delay <= 90_000
    assert jitter or delay <= 60_000


def test_jitter_is_applied_to_backoff_delays_when_configured() -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    assert BackoffConfig().delay_for_attempt(1, uniform) == 300
    assert BackoffConfig(jitter=False).delay_for_attempt(1, uniform) == 200
    assert asked == [(0.5, 1.5)]


@pytest.mark.parametrize(
    ("graph", "node", "attempts"),
    [
        ("", "", 1),
        ("", "max_retries=3", 4),
        ("default_max_retries=2", "", 3),
        ("default_max_retry=2", "", 3),
        ("default_max_retries=2", "max_retries=0", 1),
        ("", "retry_policy=linear", 3),
        ("", "retry_policy=linear, max_retries=7", 8),
        ("", "retry_policy=unheard_of, max_retries=1", 2),
        ("retry_policy=linear", "retry_policy=unheard_of", 3),
        ("", "max_retries=-4", 1),
        ("default_max_retries=5", "shape=diamond", 1),
        ("default_max_retries=5", "shape=Mdiamond", 1),
    ],
)
def test_retry_count_respects_the_configured_limit(graph: str, node: str, attempts: int) -> None:
    parsed = parse_dot(f"digraph g {{ {graph}; n [{node}] }}")
    assert build_retry_policy(parsed.nodes["n"], parsed).max_attempts == attempts


async def test_retry_and_fail_outcomes_are_retried() -> None:
    ok = Outcome.success()
    assert await run([RETRY, Outcome.fail("x"), ok], RetryPolicy(max_attempts=4)) == (ok, 3, [0.2, 0.4])


async def test_terminal_failure_is_not_retried() -> None:
    outcome = Outcome.fail("no such key", terminal=True)
    assert await run([outcome], RetryPolicy(max_attempts=4)) == (outcome, 1, [])


async def test_retries_exhausted_becomes_fail() -> None:
    outcome, attempts, _ = await run([RETRY] * 3, RetryPolicy(max_attempts=3))
    assert (outcome.status, attempts) == (StageStatus.FAIL, 3)
    assert "max retries exceeded (3 attempts): not yet" in outcome.failure_reason


async def test_retries_exhausted_with_allow_partial_becomes_partial_success() -> None:
    outcome, _, _ = await run([RETRY], RetryPolicy(), allow_partial=True)
    assert outcome.status is StageStatus.PARTIAL_SUCCESS
    failed, _, _ = await run([Outcome.fail("x")], RetryPolicy(), allow_partial=True)
    assert failed.status is StageStatus.FAIL, "a failure is no request for another attempt"


async def test_exception_is_retried_then_becomes_fail() -> None:
    outcome, attempts, _ = await run([RuntimeError("boom"), RuntimeError("boom")], RetryPolicy(max_attempts=2))
    assert (outcome.status, outcome.terminal, attempts) == (StageStatus.FAIL, False, 2)
    assert outcome.failure_reason == "stage 'n' raised RuntimeError: boom"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (RateLimitError("429"), True),
        (NetworkError("reset"), True),
        (RequestTimeoutError("slow"), True),
        (TimeoutError(), True),
        (RuntimeError("anything"), True),
        (AuthenticationError("401"), False),
        (ContextValueError("not JSON"), False),
    ],
)
async def test_error_categories(error: Exception, retryable: bool) -> None:
    assert is_retryable(error) is retryable
    outcome, attempts, _ = await run([error, Outcome.success()], RetryPolicy(max_attempts=2))
    assert outcome.status is (StageStatus.SUCCESS if retryable else StageStatus.FAIL)
    assert outcome.terminal is not retryable
    assert attempts == (2 if retryable else 1)


async def test_the_provider_says_how_long_to_wait() -> None:
    _, _, waits = await run([RateLimitError("429", retry_after=7.0), Outcome.success()], RetryPolicy(max_attempts=2))
    assert waits == [7.0]


@pytest.mark.parametrize("hint", ["Wed, 21 Oct 2026 07:28:00 GMT", float("nan"), float("inf"), -3, True, [5], None])
async def test_a_hint_that_is_no_number_of_seconds_is_none(hint: object) -> None:
    """Other people's exceptions have attributes of that name too, and no exception leaves a stage."""
    error = RuntimeError("busy")
    error.retry_after = hint  # type: ignore[attr-defined]
    ok = Outcome.success()
    assert await run([error, ok], RetryPolicy(max_attempts=2)) == (ok, 2, [0.2])


async def test_own_predicate() -> None:
    never: Callable[[Exception], bool] = lambda error: False  # noqa: E731
    outcome, attempts, _ = await run([RuntimeError("x")], RetryPolicy(max_attempts=9, should_retry=never))
    assert (outcome.terminal, attempts) == (True, 1)
