"""What stages used of a model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens sent to models and received from them. `cost` is in US dollars, None if any part of it is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def __post_init__(self) -> None:
        if self.cost is not None and not math.isfinite(self.cost):
            object.__setattr__(self, "cost", None)

    @property
    def total_tokens(self) -> int:
        """Those sent and received."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
        )

    def __sub__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost - other.cost,
        )

    def to_record(self) -> dict[str, Any]:
        """As JSON."""
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens, "cost": self.cost}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "TokenUsage":
        """The reverse; raises KeyError, TypeError or ValueError for what is no usage."""
        cost = record["cost"]
        return TokenUsage(
            input_tokens=int(record["input_tokens"]),
            output_tokens=int(record["output_tokens"]),
            cost=None if cost is None else float(cost),
        )
