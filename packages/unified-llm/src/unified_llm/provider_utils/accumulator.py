"""StreamAccumulator: a stream's events -> the Response that `complete()` would have returned (section 4.4). Pure."""

from dataclasses import dataclass, field

from unified_llm.spec.errors import SDKError, StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, Message, Role, ThinkingData, ToolCallData
from unified_llm.spec.response import FinishReason, Response, Usage, Warning
from unified_llm.spec.tools import ToolCall


@dataclass(slots=True)
class _Segment:
    """A text, a piece of reasoning or a tool call, whole once `part` is set."""

    kind: ContentKind
    call: ToolCall | None = None
    chunks: list[str] = field(default_factory=list)
    part: ContentPart | None = None

    def as_part(self) -> ContentPart:
        if self.part is not None:
            return self.part
        text = "".join(self.chunks)
        if self.call is not None:
            call = ToolCallData.from_text(self.call.id, self.call.name, text)
            return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=call)
        if self.kind is ContentKind.THINKING:
            return ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=text))
        return ContentPart(kind=ContentKind.TEXT, text=text)


class StreamAccumulator:
    """Takes every event of a stream in order. A stream of several steps accumulates to its last step."""

    def __init__(self) -> None:
        self._segments: dict[object, _Segment] = {}
        self._warnings: list[Warning] = []
        self._finish: StreamEvent | None = None
        self._error: SDKError | None = None
        self._begun = False

    def process(self, event: StreamEvent) -> None:
        """Take the next event. Events of unknown type are ignored."""
        self._begun = True
        match event.type:
            case StreamEventType.STREAM_START:
                self._segments.clear()
                self._warnings = list(event.warnings)
                self._finish = None
            case StreamEventType.TEXT_START | StreamEventType.TEXT_DELTA | StreamEventType.TEXT_END:
                self._extend(("text", event.text_id), ContentKind.TEXT, event.delta, event)
            case StreamEventType.REASONING_START | StreamEventType.REASONING_DELTA | StreamEventType.REASONING_END:
                self._extend(("reasoning", event.text_id), ContentKind.THINKING, event.reasoning_delta, event)
            case StreamEventType.TOOL_CALL_START | StreamEventType.TOOL_CALL_DELTA | StreamEventType.TOOL_CALL_END if (
                event.tool_call is not None
            ):
                self._extend(("call", event.tool_call.id), ContentKind.TOOL_CALL, event.delta, event)
            case StreamEventType.PROVIDER_EVENT if event.part is not None:
                self._segments[len(self._segments)] = _Segment(ContentKind.TEXT, part=event.part)
            case StreamEventType.FINISH:
                self._finish = event
            case StreamEventType.ERROR:
                self._error = event.error

    def response(self) -> Response:
        """The whole answer. Raises the stream's own error if it failed, and StreamError if it hasn't finished."""
        if self._error is not None:
            raise self._error
        if self._finish is None:
            raise StreamError("the stream has not finished, so there is no complete response")
        return self._finish.response or self._assemble(self._finish)

    @property
    def partial_response(self) -> Response | None:
        """What has come so far, at any time; None before the first event. Id and model are known only at the end."""
        if not self._begun:
            return None
        if self._finish is not None:
            return self._finish.response or self._assemble(self._finish)
        return self._assemble(StreamEvent(type=StreamEventType.FINISH))

    def _extend(self, key: object, kind: ContentKind, delta: str | None, event: StreamEvent) -> None:
        segment = self._segments.get(key)
        if segment is None:
            segment = self._segments[key] = _Segment(kind, call=event.tool_call)
        if delta:
            segment.chunks.append(delta)
        if event.part is not None:
            segment.part = event.part

    def _assemble(self, finish: StreamEvent) -> Response:
        parts = [segment.as_part() for segment in self._segments.values()]
        return Response(
            id="",
            model="",
            provider="",
            message=Message(role=Role.ASSISTANT, content=parts),
            finish_reason=finish.finish_reason or FinishReason(reason="other"),
            usage=finish.usage or Usage(),
            warnings=self._warnings,
        )
