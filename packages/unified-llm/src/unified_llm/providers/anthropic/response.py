"""The Messages API's answers -> Response, and its event stream -> StreamEvents (sections 7.5 and 7.7). Pure.

A stream is put together into the message that an unstreamed call would have returned, and that message is parsed
by the same code.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.error_mapping import error_from_event
from unified_llm.provider_utils.json_body import read_json
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.provider_utils.wire_values import read_count, read_name, read_object
from unified_llm.spec.errors import StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, Message, Role, ThinkingData, ToolCallData
from unified_llm.spec.response import FinishReason, FinishReasonName, Response, Usage, Warning
from unified_llm.spec.tools import ToolCall, parse_arguments

_Json = dict[str, Any]

_FINISH_REASONS: dict[str, FinishReasonName] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_CHARACTERS_PER_TOKEN = 4
_OUR_KINDS = frozenset(kind.value for kind in ContentKind)


def parse_response(
    body: _Json,
    *,
    provider: str = "anthropic",
    headers: Mapping[str, str] | None = None,
    warnings: Sequence[Warning] = (),
    answer_tool: str | None = None,
) -> Response:
    """A whole answer. `answer_tool` names the tool whose input is the answer's text."""
    parts = [parse_block(block, provider, answer_tool) for block in body.get("content") or ()]
    return assemble_response(body, parts, provider=provider, headers=headers, warnings=warnings)


def assemble_response(
    body: _Json,
    parts: Iterable[ContentPart],
    *,
    provider: str,
    headers: Mapping[str, str] | None,
    warnings: Sequence[Warning],
) -> Response:
    """The Response of a message whose blocks have been parsed."""
    content = list(parts)
    return Response(
        id=read_name(body.get("id")),
        model=read_name(body.get("model")),
        provider=provider,
        message=Message(role=Role.ASSISTANT, content=content),
        finish_reason=_finish_reason(read_name(body.get("stop_reason")) or None, content),
        usage=parse_usage(read_object(body.get("usage")), content),
        raw=body,
        warnings=list(warnings),
        rate_limit=parse_rate_limit(headers) if headers else None,
    )


def parse_block(block: _Json, provider: str, answer_tool: str | None = None) -> ContentPart:
    """One content block. What we don't model (server tools, their results) is kept whole under its own kind."""
    match block:
        case {"type": "text", "text": text, **extra} if isinstance(text, str):
            return ContentPart(kind=ContentKind.TEXT, text=text, provider_metadata=_metadata(provider, extra))
        case {"type": "tool_use", "name": name, "input": arguments} if name == answer_tool:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            return ContentPart(kind=ContentKind.TEXT, text=text)
        case {"type": "tool_use", "name": str(name), **extra}:
            call = _call(read_name(extra.pop("id", None)) or new_call_id(), name, extra.pop("input", None))
            return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=call, provider_metadata=_metadata(provider, extra))
        case {"type": "thinking", "thinking": str(text), **extra}:
            thinking = ThinkingData(text=text, signature=extra.pop("signature", None))
            return ContentPart(kind=ContentKind.THINKING, thinking=thinking, provider_metadata={provider: extra})
        case {"type": "redacted_thinking", "data": str(data), **extra}:
            redacted = ThinkingData(text=data, redacted=True)
            return ContentPart(
                kind=ContentKind.REDACTED_THINKING, thinking=redacted, provider_metadata={provider: extra}
            )
        case _:
            kind = str(block.get("type"))
            # A block of a known name in an unknown shape must not be taken for the kind of that name.
            kind = f"{provider}.{kind}" if kind in _OUR_KINDS else kind
            return ContentPart(kind=kind, provider_metadata={provider: block})


def new_call_id() -> str:
    """An id for a tool call whose server gave it none."""
    return f"toolu_{uuid.uuid4().hex}"


def _call(call_id: str, name: str, written: Any) -> ToolCallData:
    if isinstance(written, dict):
        return ToolCallData(id=call_id, name=name, arguments=written)
    # Some servers send what the model wrote unparsed.
    text = "" if written is None else written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)
    return ToolCallData.from_text(call_id, name, text)


def parse_usage(usage: _Json, parts: Iterable[ContentPart] = ()) -> Usage:
    """The counts, with the cached parts of the prompt counted as input.

    Reasoning tokens are exact where the provider counts them, else estimated from the text of the thinking blocks.
    """
    read = read_count(usage.get("cache_read_input_tokens"))
    written = read_count(usage.get("cache_creation_input_tokens"))
    input_tokens = (read_count(usage.get("input_tokens")) or 0) + (read or 0) + (written or 0)
    output_tokens = read_count(usage.get("output_tokens")) or 0
    reasoning = read_count(read_object(usage.get("output_tokens_details")).get("thinking_tokens"))
    if reasoning is None:
        characters = sum(len(part.thinking.text) for part in parts if part.thinking and not part.thinking.redacted)
        reasoning = min(output_tokens, -(-characters // _CHARACTERS_PER_TOKEN)) or None
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        reasoning_tokens=reasoning,
        cache_read_tokens=read,
        cache_write_tokens=written,
        raw=usage,
    )


def _finish_reason(raw: str | None, parts: Sequence[ContentPart]) -> FinishReason:
    reason = _FINISH_REASONS.get(raw or "", "other")
    calls = any(part.tool_call is not None for part in parts)
    if reason == "stop" and calls:
        reason = "tool_calls"
    elif reason == "tool_calls" and not calls:
        # The only call was the structured answer.
        reason = "stop"
    return FinishReason(reason=reason, raw=raw)


def _metadata(provider: str, extra: _Json) -> _Json | None:
    if not extra.get("citations"):
        extra.pop("citations", None)
    return {provider: extra} if extra else None


@dataclass(slots=True)
class _Block:
    """A content block that is being streamed. `wire` is what an unstreamed message would have held."""

    begun: _Json
    """As its start announced it."""
    wire: _Json
    text_id: str
    events: tuple[StreamEventType, StreamEventType, StreamEventType] | None
    """START, DELTA and END of what the block is to the unified model; None for what it doesn't model."""
    call: ToolCall | None = None
    chunks: list[str] = field(default_factory=list)
    part: ContentPart | None = None


_TEXT = (StreamEventType.TEXT_START, StreamEventType.TEXT_DELTA, StreamEventType.TEXT_END)
_REASONING = (StreamEventType.REASONING_START, StreamEventType.REASONING_DELTA, StreamEventType.REASONING_END)
_TOOL_CALL = (StreamEventType.TOOL_CALL_START, StreamEventType.TOOL_CALL_DELTA, StreamEventType.TOOL_CALL_END)
_EVENTS = {"text": _TEXT, "thinking": _REASONING, "redacted_thinking": _REASONING, "tool_use": _TOOL_CALL}
_TEXT_FIELDS = {"text": "text", "thinking": "thinking"}


class StreamDecoder:
    """Feed it the server-sent events of one answer, in order.

    `headers`, `warnings` and `answer_tool` are as in `parse_response`. An `error` event is raised as the error it
    stands for, what can't be understood as StreamError.
    """

    def __init__(
        self,
        *,
        provider: str = "anthropic",
        headers: Mapping[str, str] | None = None,
        warnings: Sequence[Warning] = (),
        answer_tool: str | None = None,
    ) -> None:
        self._provider = provider
        self._headers = headers
        self._warnings = warnings
        self._answer_tool = answer_tool
        self._message: _Json = {}
        self._started = False
        self._blocks: list[_Block] = []
        self._at: dict[object, _Block] = {}
        self.finished = False
        """Whether FINISH has been returned; what follows is ignored."""

    def feed(self, event: ServerSentEvent) -> list[StreamEvent]:
        """The stream events that this server-sent event gives rise to."""
        if self.finished or not event.data or event.data == "[DONE]":
            return []
        try:
            payload = read_json(event.data)
            if event.event == "error" and isinstance(payload, dict):
                raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
            return self._events(payload)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise StreamError(
                f"{self._provider} sent an event that can't be understood: {event.data[:80]!r}",
                cause=error,
                provider=self._provider,
                raw={"event": event.event, "data": event.data[:4096]},
            ) from error

    def finish(self) -> list[StreamEvent]:
        """The input has ended. Raises StreamError if the answer hasn't."""
        if not self.finished:
            raise StreamError(f"{self._provider}'s stream ended before the answer did", provider=self._provider)
        return []

    def _events(self, payload: _Json) -> list[StreamEvent]:
        match payload.get("type"):
            case "content_block_delta":
                return self._delta(self._block(payload), payload)
            case "content_block_start":
                return [*self._begin(payload), *self._start(payload["content_block"], payload)]
            case "content_block_stop":
                block = self._block(payload)
                return [self._stop(block, payload)] if block.part is None else []
            case "message_start":
                self._message.update(read_object(payload["message"]))
                return self._begin(payload)
            case "message":  # of a server that was asked for a stream and doesn't stream
                self._message = payload
                events = self._begin(payload)
                for wire in payload["content"]:
                    events += self._start(wire, {})
                return [*events, *self._finish()]
            case "message_delta":
                self._update_message(payload)
                return []
            case "message_stop":
                return self._finish()
            case "error":
                raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
            case "ping":
                return []
            case kind:
                if payload.get("error"):
                    raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
                if kind is None:
                    raise LookupError("an event without a type")
                return [*self._begin(payload), _passthrough(payload)]

    def _begin(self, payload: _Json) -> list[StreamEvent]:
        """STREAM_START, unless there was one. Some servers say twice that the message begins, others never."""
        if self._started:
            return []
        self._started = True
        return [StreamEvent(type=StreamEventType.STREAM_START, warnings=tuple(self._warnings), raw=payload)]

    def _block(self, payload: _Json) -> _Block:
        """The block that an event is about: by its index, and where that is missing the latest."""
        index = payload.get("index")
        return self._blocks[-1] if index is None else self._at[index]

    def _start(self, content_block: _Json, payload: _Json) -> list[StreamEvent]:
        index = payload.get("index", len(self._blocks))
        before = self._at.get(index)
        if before is not None and before.part is None:
            if before.begun == content_block and not before.chunks:
                return []  # said twice
            # Some servers number every block 0.
            return [self._stop(before), *self._start(content_block, payload)]
        wire = dict(content_block)
        kind = wire["type"]
        answers = kind == "tool_use" and wire["name"] == self._answer_tool
        block = _Block(content_block, wire, str(len(self._blocks)), _TEXT if answers else _EVENTS.get(kind))
        self._blocks.append(block)
        self._at[index] = block
        if block.events is None:
            return [_passthrough(payload)]
        if block.events is _TOOL_CALL:
            wire["id"] = read_name(wire.get("id")) or new_call_id()
            block.call = ToolCall(id=wire["id"], name=wire["name"])
        events = [StreamEvent(type=block.events[0], text_id=block.text_id, tool_call=block.call)]
        if (name := _TEXT_FIELDS.get(kind)) is not None and wire.get(name):
            events.append(self._chunk(block, wire[name]))
        return events

    def _delta(self, block: _Block, payload: _Json) -> list[StreamEvent]:
        delta = payload["delta"]
        if block.part is not None:
            raise LookupError("a delta of a block that has ended")
        match delta["type"]:
            case "text_delta" if block.events is _TEXT:
                return [self._chunk(block, delta["text"])] if delta["text"] is not None else []
            case "thinking_delta" if block.events is _REASONING:
                return [self._chunk(block, delta["thinking"])] if delta["thinking"] is not None else []
            case "input_json_delta":
                if block.events is None:
                    block.chunks.append(delta["partial_json"] or "")
                    return [_passthrough(payload)]
                return [self._chunk(block, delta["partial_json"])] if delta["partial_json"] else []
            case "signature_delta":
                block.wire["signature"] = (block.wire.get("signature") or "") + (delta["signature"] or "")
                return []
            case "citations_delta":
                block.wire["citations"] = [*(block.wire.get("citations") or ()), delta["citation"]]
            case _:
                _merge(block.wire, delta)
        return [_passthrough(payload)]

    def _chunk(self, block: _Block, text: str) -> StreamEvent:
        block.chunks.append(text)
        if block.events is _REASONING:
            return StreamEvent(type=_REASONING[1], text_id=block.text_id, reasoning_delta=text)
        if block.events is _TOOL_CALL:
            return StreamEvent(type=_TOOL_CALL[1], delta=text, tool_call=block.call)
        return StreamEvent(type=_TEXT[1], delta=text, text_id=block.text_id)

    def _stop(self, block: _Block, payload: _Json | None = None) -> StreamEvent:
        text = "".join(block.chunks)
        if (name := _TEXT_FIELDS.get(block.wire["type"])) is not None:
            block.wire[name] = text
        elif text.strip():
            arguments, error = parse_arguments(text)
            block.wire["input"] = text if error else arguments
        if block.events is _TEXT and text:
            # For a structured answer too, the text is what was streamed, to the letter.
            extra = block.wire if block.wire["type"] == "text" else {"type": "text"}
            block.part = parse_block({**extra, "text": text}, self._provider)
        else:
            block.part = parse_block(block.wire, self._provider, self._answer_tool)
        if block.events is None:
            return StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload, part=block.part)
        call = block.part.tool_call.to_tool_call() if block.part.tool_call is not None else None
        return StreamEvent(type=block.events[2], text_id=block.text_id, part=block.part, tool_call=call)

    def _update_message(self, payload: _Json) -> None:
        for key, value in {**payload, **read_object(payload.get("delta"))}.items():
            if key == "usage":
                # The counts are totals so far, not additions.
                counted = {name: count for name, count in read_object(value).items() if count is not None}
                self._message["usage"] = {**read_object(self._message.get("usage")), **counted}
            elif key not in ("type", "delta") and value is not None:
                self._message[key] = value

    def _finish(self) -> list[StreamEvent]:
        if not self._message:
            raise ValueError("the message was never started")
        events = [*self._begin({}), *(self._stop(block) for block in self._blocks if block.part is None)]
        response = assemble_response(
            {**self._message, "content": [block.wire for block in self._blocks]},
            [block.part for block in self._blocks if block.part is not None],
            provider=self._provider,
            headers=self._headers,
            warnings=self._warnings,
        )
        self.finished = True
        finish = StreamEvent(
            type=StreamEventType.FINISH,
            finish_reason=response.finish_reason,
            usage=response.usage,
            response=response,
        )
        return [*events, finish]


def _passthrough(payload: _Json) -> StreamEvent:
    return StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload)


def _merge(wire: _Json, delta: _Json) -> None:
    """A delta of a kind we don't know: texts grow, everything else is replaced."""
    for key, value in delta.items():
        if key == "type":
            continue
        if isinstance(value, str) and isinstance(wire.get(key), str):
            wire[key] += value
        else:
            wire[key] = value
