"""A Response -> the events of a stream that accumulates to it (section 3.13): the accumulator, backwards. Pure."""

import json
from collections.abc import Iterator

from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentPart, ToolCallData
from unified_llm.spec.response import Response
from unified_llm.spec.tools import ToolCall


def events_of(response: Response, *, chunk: int | None = 8) -> list[StreamEvent]:
    """The events of a stream that accumulates to the response, with deltas of `chunk` characters (None: one each)."""
    events = [StreamEvent(type=StreamEventType.STREAM_START, warnings=tuple(response.warnings))]
    for index, part in enumerate(response.message.content):
        events += _part_events(part, f"segment_{index}", chunk)
    finish = StreamEvent(
        type=StreamEventType.FINISH,
        finish_reason=response.finish_reason,
        usage=response.usage,
        response=response,
    )
    return [*events, finish]


def _part_events(part: ContentPart, segment: str, chunk: int | None) -> list[StreamEvent]:
    if part.tool_call is not None:
        return _tool_call_events(part, part.tool_call, chunk)
    if part.thinking is not None:
        # Redacted reasoning is opaque: it has no text to show.
        text = "" if part.thinking.redacted else part.thinking.text
        return [
            StreamEvent(type=StreamEventType.REASONING_START, text_id=segment),
            *(
                StreamEvent(type=StreamEventType.REASONING_DELTA, text_id=segment, reasoning_delta=piece)
                for piece in _pieces(text, chunk)
            ),
            StreamEvent(type=StreamEventType.REASONING_END, text_id=segment, part=part),
        ]
    if part.text is not None:
        return [
            StreamEvent(type=StreamEventType.TEXT_START, text_id=segment),
            *(
                StreamEvent(type=StreamEventType.TEXT_DELTA, text_id=segment, delta=piece)
                for piece in _pieces(part.text, chunk)
            ),
            StreamEvent(type=StreamEventType.TEXT_END, text_id=segment, part=part),
        ]
    return [StreamEvent(type=StreamEventType.PROVIDER_EVENT, part=part)]


def _tool_call_events(part: ContentPart, data: ToolCallData, chunk: int | None) -> list[StreamEvent]:
    begun = ToolCall(id=data.id, name=data.name)
    arguments = data.arguments if isinstance(data.arguments, str) else json.dumps(data.arguments)
    deltas = (
        StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, tool_call=begun, delta=piece)
        for piece in _pieces(data.raw_arguments or arguments, chunk)
    )
    return [
        StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call=begun),
        *deltas,
        StreamEvent(type=StreamEventType.TOOL_CALL_END, part=part, tool_call=data.to_tool_call()),
    ]


def _pieces(text: str, size: int | None) -> Iterator[str]:
    size = size or len(text) or 1
    return (text[start : start + size] for start in range(0, len(text), size))
