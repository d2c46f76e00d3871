"""One assistant message out of its pieces: events as they come, content parts at the end. Pure."""

import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.wire_values import read_name
from unified_llm.providers.openai_compatible.request import (
    CALL_EXTRAS,
    MESSAGE_EXTRAS,
    REASONING_DETAILS,
    REASONING_FIELD,
)
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, ThinkingData, ToolCallData
from unified_llm.spec.tools import ToolCall, parse_arguments

_Json = dict[str, Any]

_OUR_KINDS = frozenset(kind.value for kind in ContentKind)
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_PLAIN_FIELDS = frozenset(("role", "content"))
KNOWN_FIELDS = frozenset(
    (
        "role",
        "content",
        "refusal",
        *_REASONING_FIELDS,
        "reasoning_details",
        "tool_calls",
        "function_call",
        "extra_content",
    )
)
"""The fields of a message or delta that `MessageDecoder` understands."""
FOREIGN_FIELDS = "fields"
"""The key under a part's metadata for the message's other fields (annotations, audio, images). They stay here."""


def new_call_id() -> str:
    """An id for a tool call whose server gave it none."""
    return f"call_{uuid.uuid4().hex}"


@dataclass(slots=True)
class _Segment:
    """A run of text or of reasoning."""

    id: str
    kind: ContentKind
    pieces: list[str] = field(default_factory=list)
    own: _Json = field(default_factory=dict)

    def part(self, provider: str) -> ContentPart:
        text = "".join(self.pieces)
        metadata = {provider: self.own} if self.own else None
        if self.kind is ContentKind.TEXT:
            return ContentPart(kind=self.kind, text=text, provider_metadata=metadata)
        return ContentPart(kind=self.kind, thinking=ThinkingData(text=text), provider_metadata=metadata)


@dataclass(slots=True)
class _Call:
    """A tool call, `started` once its name is whole: when arguments come, or anything else."""

    id: str
    name: str = ""
    type: str = "function"
    pieces: list[str] = field(default_factory=list)
    own: _Json = field(default_factory=dict)
    started: ToolCall | None = None

    def add_name(self, name: str) -> None:
        """A name may be repeated, come in pieces, or grow with each fragment."""
        if name.startswith(self.name):
            self.name = name
        elif not self.pieces:
            self.name += name

    @property
    def may_be_whole(self) -> bool:
        """Whether what has come of the arguments could be all of them."""
        return not self.pieces or parse_arguments("".join(self.pieces))[1] is None

    def part(self, provider: str) -> ContentPart:
        text = "".join(self.pieces)
        if self.type == "custom":
            call = ToolCallData(id=self.id, name=self.name, arguments=text, type=self.type, raw_arguments=text)
        else:
            call = ToolCallData.from_text(self.id, self.name, text)
        metadata = {provider: self.own} if self.own else None
        return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=call, provider_metadata=metadata)


@dataclass(slots=True)
class _Block:
    """A block of a content list that the unified model has no word for, kept as it came."""

    wire: _Json

    def part(self, provider: str) -> ContentPart:
        kind = str(self.wire.get("type"))
        # A block of a known name in an unknown shape must not be taken for the kind of that name.
        kind = f"{provider}.{kind}" if kind in _OUR_KINDS else kind
        return ContentPart(kind=kind, provider_metadata={provider: self.wire})


class _Calls:
    """The tool calls of a message, and which one a fragment belongs to."""

    def __init__(self) -> None:
        self.all: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def of(self, fragment: _Json, name: str | None) -> _Call:
        """By index, else by id, else the last one; a new one where none fits."""
        index, id = fragment.get("index"), read_name(fragment.get("id"))
        call: _Call | None = None
        if index is not None:
            call = self._at.get(index)
            # Some servers number every call 0. A new id alone is no sign, as others send one with each fragment.
            if call is not None and name and call.name and _differs(call, id, name) and not _continues(call, name):
                call = None
        elif id:
            call = next((call for call in self.all if call.id == id), None)
        elif self.all and (not name or _continues(self.all[-1], name)):
            call = self.all[-1]
        if call is None:
            call = _Call(id=id)
            self.all.append(call)
        if index is not None:
            self._at[index] = call
        return call


def _differs(call: _Call, id: str, name: str) -> bool:
    """Whether a fragment of the call's index may be about another: by its id, or where there is none by its name."""
    return id != call.id if id else bool(call.pieces) and name != call.name


def _continues(call: _Call, name: str) -> bool:
    """Whether a fragment that gives a name once more goes on with the call, rather than begin another of that name."""
    return name == call.name and not call.may_be_whole


class MessageDecoder:
    """Takes the deltas of a message, or the whole of it as one.

    Text and reasoning end each other; a tool call ends reasoning; tool calls stay open to the end, since their
    fragments may interleave.
    """

    def __init__(self, provider: str, new_id: Callable[[], str] = new_call_id) -> None:
        self.refused = False
        self._provider = provider
        self._new_id = new_id
        self._items: list[_Segment | _Call | _Block] = []  # in the order in which they began
        self._open: _Segment | None = None
        self._calls = _Calls()
        self._extras: _Json = {}
        self._foreign: _Json = {}
        self._blank = ""

    def add(self, delta: _Json, events: list[StreamEvent]) -> None:
        """Take a delta and append what it means to `events`."""
        content = delta.get("content")
        if isinstance(content, str) and delta.keys() <= _PLAIN_FIELDS:
            # Nearly every delta there is.
            self._append(ContentKind.TEXT, content, events)
            return
        self._reasoning(delta, events)
        if isinstance(content, str):
            self._append(ContentKind.TEXT, content, events)
        elif isinstance(content, list):
            for block in content:
                self._block(block, events)
        elif isinstance(content, dict):  # a server that parses structured output by itself
            self._append(ContentKind.TEXT, _as_text(content), events)
        if refusal := delta.get("refusal"):
            self.refused = True
            self._append(ContentKind.TEXT, refusal, events)
        for fragment in delta.get("tool_calls") or ():
            self._tool_call(fragment, events)
        legacy = delta.get("function_call")
        if legacy and (legacy.get("name") or legacy.get("arguments")):
            self._tool_call({"index": 0, "function": legacy}, events)
        if extra := delta.get("extra_content"):
            self._extras["extra_content"] = extra
        for name in delta.keys() - KNOWN_FIELDS:
            if delta[name]:
                self._foreign[name] = _joined(self._foreign.get(name), delta[name])

    def end(self, events: list[StreamEvent]) -> list[ContentPart]:
        """Close what is open and return the parts of the message."""
        last = next((item for item in reversed(self._items) if not isinstance(item, _Block)), None)
        if last is not None and self._extras:
            last.own[MESSAGE_EXTRAS] = self._extras
        if last is not None and self._foreign:
            last.own[FOREIGN_FIELDS] = self._foreign
        self._close(events)
        for call in self._calls.all:
            if call.started is None and (call.pieces or call.name):
                self._start(call, events)
        content = [item.part(self._provider) for item in self._items]
        for part in content:
            if part.tool_call is not None:
                call_made = part.tool_call.to_tool_call()
                events.append(StreamEvent(type=StreamEventType.TOOL_CALL_END, tool_call=call_made, part=part))
        return content

    @property
    def has_calls(self) -> bool:
        """Whether the model has called a tool."""
        return bool(self._calls.all)

    def _reasoning(self, delta: _Json, events: list[StreamEvent]) -> None:
        details = delta.get("reasoning_details")
        if not details and not delta.get("reasoning_content") and not delta.get("reasoning"):
            return
        name = next((name for name in _REASONING_FIELDS if delta.get(name)), None)
        if name is not None:
            text = _as_text(delta[name])
        else:
            text = "".join(detail.get("text") or detail.get("summary") or "" for detail in details or ())
        if not text.strip() and not details and (self._open is None or self._open.kind is not ContentKind.THINKING):
            self._blank += text  # a model told not to think leaves an empty line where its thoughts would be
            return
        text, self._blank = self._blank + text, ""
        # A block that can't be read has no text, but must go back to the server.
        own = self._segment(ContentKind.THINKING, events).own
        if name is not None:
            own.setdefault(REASONING_FIELD, name)
        if details:
            _merge_details(own.setdefault(REASONING_DETAILS, []), details)
        self._append(ContentKind.THINKING, text, events)

    def _block(self, block: Any, events: list[StreamEvent]) -> None:
        match block:
            case str(text) | {"type": "text", "text": str(text)}:
                self._append(ContentKind.TEXT, text, events)
            case {"type": "thinking", "thinking": thinking}:
                pieces = thinking if isinstance(thinking, list) else [{"text": thinking}]
                self._segment(ContentKind.THINKING, events).own.setdefault(REASONING_FIELD, "content")
                self._append(ContentKind.THINKING, "".join(piece.get("text") or "" for piece in pieces), events)
            case _:
                self._close(events)
                item = _Block(block)
                self._items.append(item)
                part = item.part(self._provider)
                events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, part=part, raw=block))

    def _segment(self, kind: ContentKind, events: list[StreamEvent]) -> _Segment:
        if self._open is not None and self._open.kind is kind:
            return self._open
        self._close(events)
        self._start_named(events)
        segment = _Segment(id=f"{kind.value}_{len(self._items)}", kind=kind)
        self._open = segment
        self._items.append(segment)
        start = StreamEventType.TEXT_START if kind is ContentKind.TEXT else StreamEventType.REASONING_START
        events.append(StreamEvent(type=start, text_id=segment.id))
        return segment

    def _append(self, kind: ContentKind, text: str, events: list[StreamEvent]) -> None:
        if not text:
            return
        text = _clean(text)
        segment = self._segment(kind, events)
        segment.pieces.append(text)
        if kind is ContentKind.TEXT:
            event = StreamEvent(type=StreamEventType.TEXT_DELTA, delta=text, text_id=segment.id)
        else:
            event = StreamEvent(type=StreamEventType.REASONING_DELTA, reasoning_delta=text, text_id=segment.id)
        events.append(event)

    def _close(self, events: list[StreamEvent]) -> None:
        segment, self._open = self._open, None
        if segment is None:
            return
        end = StreamEventType.TEXT_END if segment.kind is ContentKind.TEXT else StreamEventType.REASONING_END
        events.append(StreamEvent(type=end, text_id=segment.id, part=segment.part(self._provider)))

    def _tool_call(self, fragment: _Json, events: list[StreamEvent]) -> None:
        kind = "custom" if fragment.get("custom") else "function"
        function = fragment.get(kind) or fragment  # some servers leave the level out
        call = self._calls.of(fragment, function.get("name"))
        call.type = kind
        if call.started is None and (name := function.get("name")):
            call.add_name(name)
        self._start_named(events, but=call)
        if extra := fragment.get("extra_content"):
            call.own[CALL_EXTRAS] = {"extra_content": extra}
        if arguments := function.get("input" if kind == "custom" else "arguments"):
            if call.started is None and call.name:
                self._start(call, events)
            text = _clean(_as_text(arguments))
            call.pieces.append(text)
            if call.started is not None:
                events.append(StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, delta=text, tool_call=call.started))

    def _start_named(self, events: list[StreamEvent], but: _Call | None = None) -> None:
        """Something else begins, so that no more of a name will come."""
        for call in self._calls.all:
            if call.started is None and call.name and call is not but:
                self._start(call, events)

    def _start(self, call: _Call, events: list[StreamEvent]) -> None:
        if self._open is not None and self._open.kind is ContentKind.THINKING:
            self._close(events)
        # Results are matched by id, so each call needs one of its own.
        if not call.id or any(other.id == call.id for other in self._calls.all if other.started is not None):
            call.id = self._new_id()
        call.started = ToolCall(id=call.id, name=call.name)
        self._items.append(call)
        events.append(StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call=call.started))
        events.extend(
            StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, delta=piece, tool_call=call.started)
            for piece in call.pieces
        )


def _joined(known: Any, more: Any) -> Any:
    """A field that came in pieces: lists and texts grow, objects are merged, everything else is replaced."""
    match known, more:
        case (list(), list()) | (str(), str()):
            return known + more
        case dict(), dict():
            return {**known, **{name: _joined(known.get(name), more[name]) for name in more}}
    return more


def _merge_details(known: list[_Json], fragments: Iterable[_Json]) -> None:
    """Add the reasoning blocks of one chunk: a fragment continues the block of its type and index."""
    earlier = {(block.get("type"), block.get("index")): block for block in known}
    for fragment in fragments:
        block = earlier.get((fragment.get("type"), fragment.get("index")))
        if block is None or fragment.get("type") == "reasoning.encrypted":
            known.append(dict(fragment))
            continue
        for key, value in fragment.items():
            if key in ("text", "summary") and block.get(key):
                block[key] += value or ""
            elif value is not None:
                block[key] = value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """Half a surrogate pair, which JSON can express and no text can hold, becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
