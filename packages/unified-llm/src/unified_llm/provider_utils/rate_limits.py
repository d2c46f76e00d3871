"""Rate-limit headers -> RateLimitInfo (section 3.12). Pure.

OpenAI and its kin send `x-ratelimit-*` with resets as durations ("12ms", "1m30s"), Anthropic `anthropic-ratelimit-*`
with resets as RFC 3339 times. Others name the span (`x-ratelimit-remaining-tokens-minute`) or send `ratelimit-*`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

from unified_llm.spec.response import RateLimitInfo

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|s|m|h|d)")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0
# How the headers may be called. The shortest span is what a caller meets first.
_SPANS = ("", "-second", "-minute", "-hour", "-day")
_TOKENS = tuple(f"x-ratelimit-{{}}-tokens{span}" for span in _SPANS)
_REQUESTS = (
    *(f"x-ratelimit-{{}}-requests{span}" for span in _SPANS),
    "anthropic-ratelimit-requests-{}",
    "x-ratelimit-{}",
    "ratelimit-{}",
)


def parse_rate_limit(headers: Mapping[str, str], *, now: datetime | None = None) -> RateLimitInfo | None:
    """What the headers (lower-case names) say about budgets; None if nothing.

    `reset_at` is when the last of the budgets is whole again. `now` is the time that durations count from; by
    default the current time.
    """
    if not any("ratelimit" in name for name in headers):
        return None
    tokens = "tokens" if "anthropic-ratelimit-tokens-limit" in headers else "input-tokens"
    token_names = (*_TOKENS, f"anthropic-ratelimit-{tokens}-{{}}")
    info = RateLimitInfo(
        requests_remaining=_count(headers, _REQUESTS, "remaining"),
        requests_limit=_count(headers, _REQUESTS, "limit"),
        tokens_remaining=_count(headers, token_names, "remaining"),
        tokens_limit=_count(headers, token_names, "limit"),
        reset_at=_reset(headers, (*_REQUESTS, *token_names), now or datetime.now(UTC)),
    )
    return None if info == RateLimitInfo() else info


@cache
def _spelled(names: tuple[str, ...], what: str) -> tuple[str, ...]:
    return tuple(name.format(what) for name in names)


def _count(headers: Mapping[str, str], names: tuple[str, ...], what: str) -> int | None:
    for name in _spelled(names, what):
        value = headers.get(name, "").strip()
        # A negative number is how some servers say that they don't know.
        if value.isascii() and value.isdigit():
            return int(value[:18])
    return None


def _reset(headers: Mapping[str, str], names: tuple[str, ...], now: datetime) -> datetime | None:
    values = (headers.get(name, "").strip() for name in _spelled(names, "reset"))
    times = [time for value in values if (time := _time(value, now)) is not None]
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
