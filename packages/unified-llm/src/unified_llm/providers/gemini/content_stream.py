"""The parts of an answer of the Gemini API, as they come -> events and content parts (sections 7.5 and 7.7). Pure."""

import base64
import binascii
import json
import uuid
from collections.abc import Callable
from typing import Any

from unified_llm.provider_utils.unicode_text import whole_characters
from unified_llm.provider_utils.wire_values import read_name
from unified_llm.providers.gemini.partial_args import add_partial
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, ImageData, ThinkingData, ToolCallData
from unified_llm.spec.tools import ToolCall, parse_arguments

_Json = dict[str, Any]

_OUR_KINDS = frozenset(kind.value for kind in ContentKind)


def new_call_id() -> str:
    """An id for a function call that the model gave none."""
    return f"call_{uuid.uuid4().hex}"


class _Segment:
    """A run of text or of thought."""

    __slots__ = ("chunks", "extra", "id", "thought")

    def __init__(self, id: str, thought: bool, extra: _Json) -> None:
        self.id = id
        self.thought = thought
        self.extra = extra
        self.chunks: list[str] = []


class _Call:
    """A function call whose arguments are still coming."""

    __slots__ = ("arguments", "call", "extra", "open_path", "unparsed")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.arguments: _Json = {}
        self.extra: _Json = {}
        self.open_path: str | None = None
        self.unparsed: str | None = None

    def add(self, piece: _Json, wire: _Json) -> None:
        self.extra.update({key: value for key, value in wire.items() if key != "functionCall"})
        if given_id := piece.get("id"):
            self.extra["functionCall"] = {"id": given_id}
        self._add_arguments(piece.get("args"))
        for partial in piece.get("partialArgs") or ():
            path = partial["jsonPath"]
            add_partial(self.arguments, partial, continues=path == self.open_path)
            self.open_path = path if partial.get("willContinue") else None

    def _add_arguments(self, given: Any) -> None:
        """Some servers send them as text, which may be anything."""
        if not given:
            return
        if not isinstance(given, dict):
            text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            given, error = parse_arguments(text)
            if error is not None:
                self.unparsed = text
        self.arguments.update(given)


class ContentStream:
    """Takes the wire parts of an answer, whole or in pieces.

    Text continues the text before it, and thought the thought before it; but a part that carries more than text, such
    as a signature, stands alone, since the signature has to go back on the very part it came on. `parts` is what has
    come, and `wire` the same as an unstreamed answer would have had it.
    """

    def __init__(self, provider: str, new_id: Callable[[], str] = new_call_id) -> None:
        self.parts: list[ContentPart] = []
        self.wire: list[_Json] = []
        self._provider = provider
        self._new_id = new_id
        self._open: _Segment | None = None
        self._call: _Call | None = None
        self._begun = 0

    def add(self, wire: _Json, events: list[StreamEvent]) -> None:
        """Take the next part and append what it means to `events`."""
        call = wire.get("functionCall")
        if call is not None:
            self._add_call(call, wire, events)
            return
        self._end_call(events)
        text = wire.get("text")
        if isinstance(text, str):
            self._add_text(text, wire, events)
        else:
            self._add_other(wire, events)

    def end(self, events: list[StreamEvent]) -> None:
        """Nothing more will come: end what is open."""
        self._end_call(events)
        self._end_segment(events)

    def _add_text(self, text: str, wire: _Json, events: list[StreamEvent]) -> None:
        thought = bool(wire.get("thought"))
        extra = {key: value for key, value in wire.items() if key not in ("text", "thought")}
        if not text and not extra:
            return
        segment = self._open
        if segment is None or extra or segment.extra or segment.thought is not thought:
            self._end_segment(events)
            segment = self._open = _Segment(f"segment_{self._begun}", thought, extra)
            self._begun += 1
            start = StreamEventType.REASONING_START if thought else StreamEventType.TEXT_START
            events.append(StreamEvent(type=start, text_id=segment.id))
        if not text:
            return
        text = whole_characters(text)
        segment.chunks.append(text)
        if thought:
            event = StreamEvent(type=StreamEventType.REASONING_DELTA, reasoning_delta=text, text_id=segment.id)
        else:
            event = StreamEvent(type=StreamEventType.TEXT_DELTA, delta=text, text_id=segment.id)
        events.append(event)

    def _end_segment(self, events: list[StreamEvent]) -> None:
        segment, self._open = self._open, None
        if segment is None:
            return
        text = "".join(segment.chunks)
        if segment.thought:
            # Also without a signature the mark says whose thought it is.
            own = {self._provider: segment.extra}
            part = ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=text), provider_metadata=own)
            end = StreamEventType.REASONING_END
            wire = {"text": text, "thought": True, **segment.extra}
        else:
            part = ContentPart(
                kind=ContentKind.TEXT,
                text=text,
                provider_metadata={self._provider: segment.extra} if segment.extra else None,
            )
            end = StreamEventType.TEXT_END
            wire = {"text": text, **segment.extra}
        self._keep(part, wire)
        events.append(StreamEvent(type=end, text_id=segment.id, part=part))

    def _add_call(self, piece: _Json, wire: _Json, events: list[StreamEvent]) -> None:
        if piece.get("name") or self._call is None:
            self._end_call(events)
            self._end_segment(events)
            if not piece:
                return
            call = ToolCall(id=read_name(piece.get("id")) or self._new_id(), name=piece["name"])
            self._call = _Call(call)
            events.append(StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call=call))
        self._call.add(piece, wire)
        if not piece.get("willContinue"):
            self._end_call(events)

    def _end_call(self, events: list[StreamEvent]) -> None:
        open_call, self._call = self._call, None
        if open_call is None:
            return
        call, own = open_call.call, open_call.extra
        arguments: _Json | str = open_call.arguments if open_call.unparsed is None else open_call.unparsed
        data = ToolCallData(id=call.id, name=call.name, arguments=arguments)
        metadata = {self._provider: own} if own else None
        part = ContentPart(kind=ContentKind.TOOL_CALL, tool_call=data, provider_metadata=metadata)
        wire = {"name": call.name, "args": open_call.arguments, **own.get("functionCall", {})}
        self._keep(part, {**own, "functionCall": wire})
        events.append(StreamEvent(type=StreamEventType.TOOL_CALL_END, tool_call=data.to_tool_call(), part=part))

    def _add_other(self, wire: _Json, events: list[StreamEvent]) -> None:
        """A picture, or what we don't model, which is kept whole under its own kind."""
        self._end_segment(events)
        part = _image(wire, self._provider) or _own_kind(wire, self._provider)
        self._keep(part, wire)
        events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=wire, part=part))

    def _keep(self, part: ContentPart, wire: _Json) -> None:
        self.parts.append(part)
        self.wire.append(wire)


def _image(wire: _Json, provider: str) -> ContentPart | None:
    match wire:
        case {"inlineData": {"mimeType": str(media_type), "data": str(data)}, **extra} if media_type[:6] == "image/":
            try:
                image = ImageData(data=base64.b64decode(data, validate=True), media_type=media_type)
            except binascii.Error:
                return None
            metadata = {provider: extra} if extra else None
            return ContentPart(kind=ContentKind.IMAGE, image=image, provider_metadata=metadata)
    return None


def _own_kind(wire: _Json, provider: str) -> ContentPart:
    kind = next((key for key in wire if key not in ("thought", "thoughtSignature")), "part")
    # A part of a known name in an unknown shape must not be taken for the kind of that name.
    kind = f"{provider}.{kind}" if kind in _OUR_KINDS else kind
    return ContentPart(kind=kind, provider_metadata={provider: wire})
