"""What a coding agent's command line is asked, and what it answered: the part that all of them share."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from unified_llm import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    SDKError,
    ServerError,
    Usage,
)

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCall:
    """How a command line is to be called. What is empty isn't passed on.

    `session` is the conversation to carry on; `stage_dir` a directory, outside the work, where the agent may write;
    `options` are the user's own, which win over ours.
    """

    model: str = ""
    effort: str = ""
    session: str = ""
    stage_dir: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAnswer:
    """What it said, as far as it got.

    `complete` says that its closing event came. `cut_short` is why it stopped before it was done, in words that follow
    "the agent". `cost` is in US dollars, None where it doesn't say.
    """

    text: str = ""
    session: str = ""
    usage: Usage | None = None
    cost: float | None = None
    complete: bool = False
    cut_short: str = ""
    error: SDKError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliUse:
    """What a call to a model used so far, as told while the agent works; a later one of that `call` replaces it."""

    call: str
    usage: Usage
    model: str = ""


class CliFormat(Protocol):
    """How to call one command line, and how to read it.

    `executable` is its name in PATH, `provider` the one whose models it asks, `install` what to do where it is missing,
    `login` what to do where nobody is logged in. `counts_threads`: usage is that of the whole conversation so far, not
    of one call. `exit_errors` are the errors that exit codes stand for. The prompt goes to its stdin.
    """

    executable: str
    provider: str
    install: str
    login: str
    counts_threads: bool
    exit_errors: Mapping[int, type[SDKError]]

    def write_arguments(self, call: CliCall) -> list[str]:
        """All arguments."""
        ...

    def read_events(self, events: Sequence[Event]) -> CliAnswer:
        """The answer. Events of unknown types are passed over: newer versions have more of them."""
        ...

    def read_use(self, event: Event) -> CliUse | None:
        """What an event tells of a call to a model; None if nothing, as where only the closing event does."""
        ...


def parse_events(output: str) -> list[Event]:
    """The JSON objects of an output, a line each, or one that spans all lines. Other lines are passed over."""
    found = list(_parse_lines(output))
    if not found:
        whole = _parse(output)
        found = [whole] if isinstance(whole, Mapping) else []
    return found


def _parse_lines(output: str) -> Iterator[Event]:
    for line in output.split("\n"):
        value = _parse(line) if line.lstrip().startswith(("{", "[")) else None
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield item


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_KINDS: tuple[tuple[re.Pattern[str], type[SDKError]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"quota|usage limit|credit balance|billing|insufficient.{0,9}funds", QuotaExceededError),
        (r"rate.?limit|too many requests|\b429\b", RateLimitError),
        (r"log ?in\b|logged in|api.?key|unauthori[sz]ed|authenticat|oauth|\b40[13]\b", AuthenticationError),
        (r"context (window|length)|prompt is too long|too many tokens", ContextLengthError),
        (r"overloaded|internal server error|unavailable|\b5\d\d\b", ServerError),
        (r"connect|network|disconnect|timed? ?out|ENOTFOUND|EAI_AGAIN|ETIMEDOUT", NetworkError),
        (r"model.{0,60}(not found|not supported|does not exist|not available|invalid)", NotFoundError),
        (r"invalid.?request|unknown (option|argument)|unexpected argument|\b400\b", InvalidRequestError),
    )
)


def classify(message: str, otherwise: type[SDKError] | None = None) -> SDKError:
    """An error of the kind that a message speaks of; one that may pass, if it speaks of none."""
    for pattern, kind in _KINDS:
        if otherwise is None and pattern.search(message):
            return kind(message)
    return otherwise(message) if otherwise else ProviderError(message, retryable=True)


def text_of(value: Any) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> Event:
    """An object; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def count_of(value: Any) -> int:
    """A count of tokens; 0 for anything else."""
    return max(0, int(value)) if _is_number(value) else 0


def cost_in(value: Any) -> float | None:
    """A cost in US dollars; None for anything else."""
    return float(value) if _is_number(value) and value >= 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def make_usage(input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0) -> Usage | None:
    """Usage in our terms: `input_tokens` is the whole prompt. None if nothing was used."""
    if input_tokens + output_tokens == 0:
        return None
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        cache_read_tokens=cached or None,
        cache_write_tokens=written or None,
    )
