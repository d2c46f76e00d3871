"""What a model answers (sections 3.7 to 3.12)."""

from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from unified_llm.spec.messages import ContentKind, Message
from unified_llm.spec.record import Record
from unified_llm.spec.tools import ToolCall

FinishReasonName = Literal["stop", "length", "tool_calls", "content_filter", "error", "other"]


class FinishReason(Record):
    """Why generation ended: a portable word, and the provider's own (section 3.8)."""

    reason: FinishReasonName
    raw: str | None = None


class Usage(Record):
    """Token counts with one meaning for every provider (section 3.9).

    `input_tokens` is the whole prompt, cached part included; `output_tokens` includes reasoning;
    `total_tokens` is their sum. None means that the provider doesn't report the count. `raw` is what it sent.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    raw: dict[str, Any] | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Sums every count; None counts as 0 unless both are None. `raw` belongs to one call and is dropped."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None and right is None else (left or 0) + (right or 0)


class Warning(Record):
    """Something that didn't stop the call but that the caller should know (section 3.11)."""

    message: str
    code: str | None = None


class RateLimitInfo(Record):
    """What the response headers say about remaining budgets (section 3.12). Informational."""

    requests_remaining: int | None = None
    requests_limit: int | None = None
    tokens_remaining: int | None = None
    tokens_limit: int | None = None
    reset_at: datetime | None = None


class Response(Record):
    """A complete answer (section 3.7). `raw` is the provider's body as parsed, for debugging."""

    id: str
    model: str
    provider: str
    message: Message
    finish_reason: FinishReason
    usage: Usage = Field(default_factory=Usage)
    raw: dict[str, Any] | None = None
    warnings: list[Warning] = Field(default_factory=list)
    rate_limit: RateLimitInfo | None = None

    @property
    def text(self) -> str:
        """All text parts, concatenated."""
        return self.message.text

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """The calls that the model asks for, in its order."""
        return [part.tool_call.to_tool_call() for part in self.message.content if part.tool_call is not None]

    @property
    def reasoning(self) -> str | None:
        """All readable reasoning, concatenated; None if there is no readable reasoning."""
        texts = [
            part.thinking.text
            for part in self.message.content
            if part.kind == ContentKind.THINKING and part.thinking is not None
        ]
        return "".join(texts) or None
