"""Rate-limit headers of the providers."""

from datetime import UTC, datetime, timedelta

import pytest
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.spec.response import RateLimitInfo

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def test_openai_style():
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0.5s",
    }
    assert parse_rate_limit(headers, now=NOW) == RateLimitInfo(
        requests_remaining=59,
        requests_limit=60,
        tokens_remaining=149984,
        tokens_limit=150000,
        reset_at=NOW + timedelta(minutes=6, seconds=0.5),
    )


def test_anthropic_style():
    headers = {
        "anthropic-ratelimit-requests-limit": "5",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-30T12:00:10Z",
        "anthropic-ratelimit-tokens-limit": "25000",
        "anthropic-ratelimit-tokens-remaining": "16000",
        "anthropic-ratelimit-tokens-reset": "2026-11-30T12:00:05Z",
        "anthropic-ratelimit-input-tokens-remaining": "1",
    }
    assert parse_rate_limit(headers, now=NOW) == RateLimitInfo(
        requests_remaining=0,
        requests_limit=5,
        tokens_remaining=16000,
        tokens_limit=25000,
        reset_at=NOW + timedelta(seconds=10),
    )


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("12ms", 0.012),
        ("1h2m3s", 3723),
        ("30", 30),
        ("0.5", 0.5),
        (str(int(NOW.timestamp()) + 9), 9),
        (str((int(NOW.timestamp()) + 9) * 1000), 9),
        ("2026-11-30T12:00:09Z", 9),
        ("2026-11-30T13:00:09+01:00", 9),
    ],
)
def test_resets(reset, seconds):
    info = parse_rate_limit({"x-ratelimit-reset-requests": reset}, now=NOW)
    assert info == RateLimitInfo(reset_at=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("value", ["", "-1", "unlimited", "nan", "inf", "-3s", "1e300", "9" * 40, "1s later"])
def test_nonsense_is_ignored(value):
    headers = {"x-ratelimit-reset-requests": value, "x-ratelimit-remaining-requests": value.replace("9", "-")}
    assert parse_rate_limit(headers, now=NOW) is None


def test_other_headers_say_nothing():
    assert parse_rate_limit({"content-type": "application/json"}) is None
