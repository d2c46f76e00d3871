"""Edge conditions (section 10)."""

from collections.abc import Mapping
from typing import Any, Protocol

from attractor.outcome import Outcome


class Lookup(Protocol):
    """What a condition reads context values from: a Context or any mapping."""

    def get(self, key: str, /) -> Any: ...


class Condition:
    """A parsed condition: `text`, the `keys` it reads, and `evaluate()`."""

    text: str
    keys: tuple[str, ...]

    def evaluate(self, outcome: Outcome, context: Lookup | Mapping[str, Any]) -> bool:
        """Whether the condition holds."""
        raise NotImplementedError


def parse_condition(text: str) -> Condition:
    """Read a condition (cached); raises ConditionSyntaxError."""
    raise NotImplementedError
