"""What a stream yields (sections 3.13 and 3.14).

Text, reasoning and tool calls each come as START, DELTA ..., END. `text_id` names the segment that a text or
reasoning event belongs to; `tool_call.id` does so for tool calls. Segments may interleave.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from unified_llm.spec.errors import SDKError
from unified_llm.spec.messages import ContentPart
from unified_llm.spec.response import FinishReason, Response, Usage, Warning
from unified_llm.spec.tools import ToolCall


class StreamEventType(StrEnum):
    """The kinds of section 3.14, and STEP_FINISH of section 5.9."""

    STREAM_START = "stream_start"
    TEXT_START = "text_start"
    TEXT_DELTA = "text_delta"
    TEXT_END = "text_end"
    REASONING_START = "reasoning_start"
    REASONING_DELTA = "reasoning_delta"
    REASONING_END = "reasoning_end"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_DELTA = "tool_call_delta"
    TOOL_CALL_END = "tool_call_end"
    STEP_FINISH = "step_finish"
    FINISH = "finish"
    ERROR = "error"
    PROVIDER_EVENT = "provider_event"


# Events without content of their own. Whoever may try again holds them back until content follows, so that a reader
# doesn't see two beginnings.
PRELUDE = frozenset(
    {
        StreamEventType.STREAM_START,
        StreamEventType.TEXT_START,
        StreamEventType.REASONING_START,
        StreamEventType.PROVIDER_EVENT,
    }
)


@dataclass(slots=True, kw_only=True)
class StreamEvent:
    """One event. Its fields are final: type checkers refuse to set them.

    There is one for every chunk, and each is made by this library. So it is no pydantic record, and nothing guards the
    fields at run time: a frozen dataclass takes four times as long to make.

    TEXT_DELTA carries `delta`; REASONING_DELTA `reasoning_delta`; TOOL_CALL_DELTA a fragment of the arguments'
    JSON in `delta` and the call's id and name in `tool_call`. Every END carries the finished `part`, and
    TOOL_CALL_END the parsed `tool_call` as well. FINISH carries `finish_reason`, `usage` and the whole
    `response`; STREAM_START may carry `warnings`. ERROR carries `error`, which the stream raises next.
    """

    type: Final[StreamEventType | str]
    delta: Final[str | None] = None
    text_id: Final[str | None] = None
    reasoning_delta: Final[str | None] = None
    tool_call: Final[ToolCall | None] = None
    part: Final[ContentPart | None] = None
    finish_reason: Final[FinishReason | None] = None
    usage: Final[Usage | None] = None
    response: Final[Response | None] = None
    error: Final[SDKError | None] = None
    warnings: Final[tuple[Warning, ...]] = ()
    raw: Final[dict[str, Any] | None] = None
