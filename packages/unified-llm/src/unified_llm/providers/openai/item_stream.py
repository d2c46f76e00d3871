"""One output item of the Responses API while it is being streamed (section 7.7). Pure."""

from typing import Any

from unified_llm.provider_utils.unicode_text import whole_characters
from unified_llm.providers.openai.item import call_id_of, parse_item, written_text
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, ThinkingData
from unified_llm.spec.tools import ToolCall

_Json = dict[str, Any]
EventTypes = tuple[StreamEventType, StreamEventType, StreamEventType]

TEXT: EventTypes = (StreamEventType.TEXT_START, StreamEventType.TEXT_DELTA, StreamEventType.TEXT_END)
REASONING: EventTypes = (
    StreamEventType.REASONING_START,
    StreamEventType.REASONING_DELTA,
    StreamEventType.REASONING_END,
)
# The items that are tool calls to the unified model, and the field in which each has what the model wrote.
_CALL_TEXTS = {"function_call": "arguments", "custom_tool_call": "input"}


class _Piece:
    """A text, or a piece of reasoning; `types` are those of its START, DELTA and END."""

    __slots__ = ("_chunks", "text_id", "types")

    def __init__(self, text_id: str, types: EventTypes) -> None:
        self.text_id = text_id
        self.types = types
        self._chunks: list[str] = []

    def add(self, text: str) -> StreamEvent:
        self._chunks.append(text)
        if self.types is TEXT:
            return StreamEvent(type=TEXT[1], text_id=self.text_id, delta=text)
        return StreamEvent(type=REASONING[1], text_id=self.text_id, reasoning_delta=text)

    def end(self, part: ContentPart) -> list[StreamEvent]:
        """What is missing of the part's text, and the END. What was streamed stands, should the two differ."""
        said = "".join(self._chunks)
        text = part.text if part.thinking is None else part.thinking.text
        events = []
        if rest := _rest(text or "", said):
            events.append(self.add(rest))
        elif text != said:
            part = _with_text(part, said)
        return [*events, StreamEvent(type=self.types[2], text_id=self.text_id, part=part)]


class ItemStream:
    """Takes what is said about one item and returns the events that it gives rise to.

    `name` is unique within the answer. `wire` is the item as it is known so far, and `parts` what it means once it is
    whole.
    """

    def __init__(self, name: str, wire: _Json, provider: str) -> None:
        self.wire = wire
        self.parts: list[ContentPart] | None = None
        self._name = name
        self._provider = provider
        self._pieces: dict[object, _Piece] = {}
        self._call: ToolCall | None = None
        self._arguments: list[str] = []

    def begin(self, payload: _Json) -> list[StreamEvent]:
        """The item was announced."""
        match self.wire.get("type"):
            case "message":
                return []
            case "reasoning":
                # Whether and how any of it can be read is not known yet.
                events: list[StreamEvent] = []
                self._piece(None, REASONING, events)
                return events
            case kind if kind in _CALL_TEXTS:
                return self._begin_call()
            case _:
                return [StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload)]

    def begin_part(self, payload: _Json) -> list[StreamEvent]:
        """A part of a message's content was announced."""
        events: list[StreamEvent] = []
        if (payload.get("part") or {}).get("type") in ("output_text", "refusal"):
            self._piece(("content_index", payload.get("content_index", len(self._pieces))), TEXT, events)
        return events

    def add_text(self, types: EventTypes, numbering: str, index: int | None, text: str) -> list[StreamEvent]:
        """More of a text or of reasoning.

        `index` numbers the pieces, and without it the last one is meant. `numbering` names the field it came in: a
        summary's pieces are counted apart from those of the reasoning itself.
        """
        key: object = (numbering, index)
        if index is None:
            key = next(reversed(self._pieces), key)
        events: list[StreamEvent] = []
        piece = self._piece(key, types, events)
        if text:
            events.append(piece.add(whole_characters(text)))
        return events

    def add_arguments(self, text: str) -> list[StreamEvent]:
        """More of what the model wrote for the tool."""
        if not text or self._call is None:
            return []
        text = whole_characters(text)
        self._arguments.append(text)
        return [StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, delta=text, tool_call=self._call)]

    def complete(self, wire: _Json, payload: _Json, reasoning_id: str | None) -> list[StreamEvent]:
        """The item is whole: say what hasn't been said, and end what is open."""
        events: list[StreamEvent] = []
        self.wire = wire = self._mend(dict(wire), events)
        if None in self._pieces:  # announced, and none of its text was told
            self._pieces[object()] = self._pieces.pop(None)
        open_pieces = list(self._pieces.values())
        self.parts = []
        for part in parse_item(wire, self._provider, reasoning_id):
            if part.kind in (ContentKind.TEXT, ContentKind.THINKING):
                types = TEXT if part.kind == ContentKind.TEXT else REASONING
                piece = open_pieces.pop(0) if open_pieces else self._piece(object(), types, events)
                events += piece.end(part)
                part = events[-1].part or part
            elif part.tool_call is not None:
                events += self.add_arguments(_rest(part.tool_call.raw_arguments or "", "".join(self._arguments)))
                call = part.tool_call.to_tool_call()
                events.append(StreamEvent(type=StreamEventType.TOOL_CALL_END, tool_call=call, part=part))
            else:
                events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload, part=part))
            self.parts.append(part)
        for piece in open_pieces:
            events += piece.end(_bare_part(piece))
            self.parts.extend(event.part for event in events[-1:] if event.part is not None)
        return events

    def _begin_call(self) -> list[StreamEvent]:
        self._call = ToolCall(id=call_id_of(self.wire), name=self.wire["name"])
        return [StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call=self._call)]

    def _mend(self, wire: _Json, events: list[StreamEvent]) -> _Json:
        """The whole item with what only the stream told of it; a call that wasn't announced begins."""
        kind = wire.get("type")
        if kind == "message" and not isinstance(wire.get("content"), list):
            wire["content"] = []
        elif kind in _CALL_TEXTS:
            if self._call is None:
                self.wire = wire
                events += self._begin_call()
            assert self._call is not None
            wire["call_id"], wire["name"] = self._call.id, self._call.name
            wire[_CALL_TEXTS[kind]] = written_text(wire.get(_CALL_TEXTS[kind])) or "".join(self._arguments)
        return wire

    def _piece(self, key: object, types: EventTypes, events: list[StreamEvent]) -> _Piece:
        piece = self._pieces.get(key)
        if piece is None and None in self._pieces:
            piece = self._pieces[key] = self._pieces.pop(None)
        if piece is None:
            piece = self._pieces[key] = _Piece(f"{self._name}.{len(self._pieces)}", types)
            events.append(StreamEvent(type=types[0], text_id=piece.text_id))
        return piece


def _rest(text: str, said: str) -> str:
    """What of `text` hasn't been said; nothing if something else has been."""
    return text[len(said) :] if text.startswith(said) else ""


def _with_text(part: ContentPart, text: str) -> ContentPart:
    if part.thinking is None:
        return part.model_copy(update={"text": text})
    return part.model_copy(update={"thinking": part.thinking.model_copy(update={"text": text})})


def _bare_part(piece: _Piece) -> ContentPart:
    if piece.types is TEXT:
        return ContentPart(kind=ContentKind.TEXT, text="")
    return ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=""))
