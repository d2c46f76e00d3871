"""Tools as a model sees them, and the calls and results that pass between (section 5)."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from unified_llm.spec.record import Record, whole_characters

TOOL_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}")


class Tool(Record):
    """A tool definition (section 5.1), active when `execute` is set, passive otherwise (section 5.5).

    `parameters` is a JSON Schema whose root is an object. `execute` is sync or async, takes the arguments as
    keywords, and may also name `messages`, `abort_signal` or `tool_call_id` to have them injected. It is not
    serialised.
    """

    name: str
    description: str
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    execute: Callable[..., Any] | None = Field(default=None, exclude=True)

    @field_validator("name")
    @classmethod
    def _valid_name(cls, name: str) -> str:
        if not TOOL_NAME.fullmatch(name):
            raise ValueError(
                f"tool name {name!r} must start with a letter, hold only letters, digits and underscores, "
                "and be at most 64 characters long"
            )
        return name

    @field_validator("parameters")
    @classmethod
    def _object_root(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        if parameters.get("type") != "object":
            raise ValueError('the root of a tool\'s parameters must be a JSON Schema with "type": "object"')
        return parameters


class ToolChoice(Record):
    """Whether and which tools the model calls (section 5.3). A bare mode string is accepted where one is expected."""

    mode: Literal["auto", "none", "required", "named"]
    tool_name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_mode(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _named(self) -> Self:
        if (self.mode == "named") != (self.tool_name is not None):
            raise ValueError("tool_name goes with mode 'named', and only with it")
        return self


class ToolCall(Record):
    """A call as extracted from a response (section 5.4).

    When what the model wrote is not a JSON object, `arguments` is empty, `raw_arguments` holds the text, and
    `parse_error` says what is wrong with it; such a call is answered with an error result, never executed.
    """

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    raw_arguments: str | None = None
    parse_error: str | None = None


class ToolResult(Record):
    """What a tool returned (section 5.4). Text, or any JSON value."""

    tool_call_id: str
    content: str | dict[str, Any] | list[Any]
    is_error: bool = False


def _finite(text: str) -> float:
    # No later request could carry it: JSON has no NaN, and 1e999 is read as infinity.
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is no number of JSON, or too large for one")
    return number


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """Parse a model's argument text into `(arguments, parse_error)`. Blank text means no arguments."""
    if not raw.strip():
        return {}, None
    try:
        value = json.loads(raw, parse_constant=_finite, parse_float=_finite)
    except ValueError as error:
        return {}, f"the arguments are not valid JSON: {error}"
    except RecursionError:
        return {}, "the arguments are nested too deeply"
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, not {type(value).__name__}"
    if "\\ud" in raw or "\\uD" in raw:
        # JSON can express half a surrogate pair, which no text can hold.
        value = json.loads(whole_characters(json.dumps(value, ensure_ascii=False)))
    return value, None
