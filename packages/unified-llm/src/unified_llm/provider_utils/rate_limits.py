"""Rate-limit headers -> RateLimitInfo (section 3.12). Pure.

OpenAI and its kin send `x-ratelimit-*` with resets as durations ("12ms", "1m30s"), Anthropic `anthropic-ratelimit-*`
with resets as RFC 3339 times.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from unified_llm.spec.response import RateLimitInfo

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|s|m|h|d)")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0


def parse_rate_limit(headers: Mapping[str, str], *, now: datetime | None = None) -> RateLimitInfo | None:
    """What the headers (lower-case names) say about budgets; None if nothing.

    `reset_at` is when the last of the budgets is whole again. `now` is the time that durations count from; by
    default the current time.
    """
    if not any("ratelimit" in name for name in headers):
        return None
    tokens = "tokens" if "anthropic-ratelimit-tokens-limit" in headers else "input-tokens"
    info = RateLimitInfo(
        requests_remaining=_count(
            headers, "x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining"
        ),
        requests_limit=_count(
            headers, "x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit", "x-ratelimit-limit"
        ),
        tokens_remaining=_count(headers, "x-ratelimit-remaining-tokens", f"anthropic-ratelimit-{tokens}-remaining"),
        tokens_limit=_count(headers, "x-ratelimit-limit-tokens", f"anthropic-ratelimit-{tokens}-limit"),
        reset_at=_reset(headers, tokens, now or datetime.now(UTC)),
    )
    return None if info == RateLimitInfo() else info


def _count(headers: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        value = headers.get(name, "").strip()
        # A negative number is how some servers say that they don't know.
        if value.isascii() and value.isdigit():
            return int(value[:18])
    return None


def _reset(headers: Mapping[str, str], tokens: str, now: datetime) -> datetime | None:
    names = (
        "x-ratelimit-reset-requests",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-reset",
        "anthropic-ratelimit-requests-reset",
        f"anthropic-ratelimit-{tokens}-reset",
    )
    times = [time for name in names if (time := _time(headers.get(name, "").strip(), now)) is not None]
    return max(times, default=None)


def _time(value: str, now: datetime) -> datetime | None:
    """A duration, a number of seconds, an epoch in seconds or milliseconds, or an RFC 3339 time."""
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        pass
    else:
        if number > 1e11:
            number /= 1000
        if number > 1e9:
            return datetime.fromtimestamp(number, UTC) if number < 1e11 else None
        return now + timedelta(seconds=number) if 0 <= number < _LONGEST else None
    if "".join(number + unit for number, unit in _DURATION.findall(value)) == value:
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))
        return now + timedelta(seconds=seconds) if seconds < _LONGEST else None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
