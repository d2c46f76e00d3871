"""The one input of `complete()` and `stream()` (sections 3.6, 3.10 and 4.7)."""

import math
from typing import Any, Literal, Self

from pydantic import field_validator, model_validator

from unified_llm.spec.messages import Message
from unified_llm.spec.record import Record
from unified_llm.spec.tools import Tool, ToolChoice


class ResponseFormat(Record):
    """How the answer is shaped (section 3.10). `json_schema` is required when `type` is "json_schema"."""

    type: Literal["text", "json", "json_schema"]
    json_schema: dict[str, Any] | None = None
    strict: bool = False

    @model_validator(mode="after")
    def _schema(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("response_format of type 'json_schema' needs json_schema")
        return self


class Request(Record):
    """A call to a model (section 3.6).

    `model` is the provider's own identifier. `reasoning_effort` of None leaves the provider's default alone.
    `provider_options` maps a provider's name to what only that provider understands.
    """

    model: str
    messages: list[Message]
    provider: str | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    reasoning_effort: str | None = None
    metadata: dict[str, str] | None = None
    provider_options: dict[str, Any] | None = None


class TimeoutConfig(Record):
    """Limits of a high-level call, in seconds (section 4.7). None means no limit."""

    total: float | None = None
    per_step: float | None = None

    @field_validator("total", "per_step")
    @classmethod
    def _number(cls, seconds: float | None) -> float | None:
        if seconds is not None and math.isnan(seconds):
            raise ValueError("a time limit of NaN would never pass and never hold")
        return seconds


class AdapterTimeout(Record):
    """Limits of one HTTP exchange, in seconds (section 4.7).

    `request` bounds a whole unstreamed exchange, and the wait until a stream begins. From then on a stream is bounded
    only by `stream_read`, the longest silence within it, so that a long answer that keeps coming is never cut. A server
    that keeps the connection open with comments may take `request` seconds for its next event.
    """

    connect: float = 10.0
    request: float = 120.0
    stream_read: float = 30.0
