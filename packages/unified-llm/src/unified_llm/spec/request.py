"""The one input of `complete()` and `stream()` (sections 3.6, 3.10 and 4.7)."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

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
    `provider_options` maps a provider's name to what only that provider understands. What no provider could take is
    refused here: numbers out of any range, two tools of one name, the choice of a tool that isn't there.
    """

    model: str = Field(min_length=1)
    messages: list[Message]
    provider: str | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, gt=0)
    stop_sequences: list[str] | None = None
    reasoning_effort: str | None = None
    metadata: dict[str, str] | None = None
    provider_options: dict[str, Any] | None = None

    @field_validator("tools")
    @classmethod
    def _different_names(cls, tools: list[Tool] | None) -> list[Tool] | None:
        names = [tool.name for tool in tools or ()]
        if len(set(names)) < len(names):
            raise ValueError(f"tools must have different names, but are {', '.join(names)}")
        return tools

    @model_validator(mode="after")
    def _chosen_tool(self) -> Self:
        choice = self.tool_choice
        if choice is None or choice.mode != "named":
            return self
        names = [tool.name for tool in self.tools or ()]
        if choice.tool_name not in names and not self._has_options("tools"):
            raise ValueError(f"tool_choice names {choice.tool_name!r}, but tools has {', '.join(names) or 'none'}")
        return self

    def _has_options(self, name: str) -> bool:
        options = (self.provider_options or {}).values()
        return any(isinstance(own, dict) and own.get(name) for own in options)


def _number(seconds: float) -> float:
    if math.isnan(seconds):
        raise ValueError("a time limit of NaN would never pass and never hold")
    return seconds


Seconds = Annotated[float, AfterValidator(_number)]


class TimeoutConfig(Record):
    """Limits of a high-level call, in seconds (section 4.7). None means no limit."""

    total: Seconds | None = None
    per_step: Seconds | None = None


class AdapterTimeout(Record):
    """Limits of one HTTP exchange, in seconds (section 4.7).

    `request` bounds a whole unstreamed exchange, and the wait until a stream begins. From then on a stream is bounded
    only by `stream_read`, the longest silence within it, so that a long answer that keeps coming is never cut. A server
    that keeps the connection open with comments may take `request` seconds for its next event.
    """

    connect: Seconds = 10.0
    request: Seconds = 120.0
    stream_read: Seconds = 30.0
