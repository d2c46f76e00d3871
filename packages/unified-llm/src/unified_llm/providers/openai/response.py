"""The Responses API's answers -> Response, and its event stream -> StreamEvents (sections 7.5 and 7.7). Pure.

A stream tells of each output item when it begins, piece by piece, and again when it is whole; the whole is parsed by
the code that parses an unstreamed answer. What was streamed stands, should the two differ.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unified_llm.provider_utils.error_mapping import error_from_event
from unified_llm.provider_utils.json_body import read_json
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.provider_utils.wire_values import read_count, read_name, read_object
from unified_llm.providers.openai.item import parse_item, reasoning_id_after
from unified_llm.providers.openai.item_stream import REASONING, TEXT, ItemStream
from unified_llm.spec.errors import StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentPart, Message, Role
from unified_llm.spec.response import FinishReason, FinishReasonName, Response, Usage, Warning

_Json = dict[str, Any]

_INCOMPLETE: dict[str, FinishReasonName] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def parse_response(
    body: _Json,
    *,
    provider: str = "openai",
    model: str = "",
    headers: Mapping[str, str] | None = None,
    warnings: Sequence[Warning] = (),
) -> Response:
    """A whole answer. `model` is the one asked for, should the body not name it.

    Raises what the HTTP status would have raised if the body is a failure.
    """
    if body.get("status") == "failed" or body.get("error"):
        raise error_from_event(provider=provider, payload=body, headers=headers)
    parts: list[ContentPart] = []
    reasoning_id = None
    for item in body.get("output") or ():
        parts.extend(parse_item(item, provider, reasoning_id))
        reasoning_id = reasoning_id_after(item, reasoning_id)
    return assemble_response(body, parts, provider=provider, model=model, headers=headers, warnings=warnings)


def assemble_response(
    body: _Json,
    parts: Iterable[ContentPart],
    *,
    provider: str,
    model: str,
    headers: Mapping[str, str] | None,
    warnings: Sequence[Warning],
) -> Response:
    """The Response of a body whose items have been parsed."""
    content = list(parts)
    return Response(
        id=read_name(body.get("id")),
        model=read_name(body.get("model"), model),
        provider=provider,
        message=Message(role=Role.ASSISTANT, content=content),
        finish_reason=_finish_reason(body, content, provider),
        usage=parse_usage(read_object(body.get("usage"))),
        raw=body,
        warnings=list(warnings),
        rate_limit=parse_rate_limit(headers) if headers else None,
    )


def parse_usage(usage: _Json) -> Usage:
    """The counts. Cached input is part of the input, and reasoning part of the output, on the wire already."""
    prompt, output = read_object(usage.get("input_tokens_details")), read_object(usage.get("output_tokens_details"))
    input_tokens, output_tokens = (
        read_count(usage.get("input_tokens")) or 0,
        read_count(usage.get("output_tokens")) or 0,
    )
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        reasoning_tokens=read_count(output.get("reasoning_tokens")),
        cache_read_tokens=read_count(prompt.get("cached_tokens")),
        cache_write_tokens=read_count(prompt.get("cache_write_tokens")),
        raw=usage or None,
    )


def _finish_reason(body: _Json, parts: Sequence[ContentPart], provider: str) -> FinishReason:
    """There is no finish reason on the wire, only a status and, where the answer is cut, why."""
    status = read_name(body.get("status")) or None
    if status == "incomplete":
        raw = read_name(read_object(body.get("incomplete_details")).get("reason"))
        return FinishReason(reason=_INCOMPLETE.get(raw, "other"), raw=raw or status)
    if status not in ("completed", None):
        return FinishReason(reason="other", raw=status)
    if any(part.tool_call is not None for part in parts):
        return FinishReason(reason="tool_calls", raw=status)
    if any(_is_refusal(part, provider) for part in parts):
        return FinishReason(reason="content_filter", raw=status)
    return FinishReason(reason="stop", raw=status)


def _is_refusal(part: ContentPart, provider: str) -> bool:
    content = ((part.provider_metadata or {}).get(provider) or {}).get("content")
    return isinstance(content, dict) and content.get("type") == "refusal"


# What a delta adds to, and the field that numbers the pieces of an item.
_DELTAS = {
    "response.output_text.delta": (TEXT, "content_index"),
    "response.refusal.delta": (TEXT, "content_index"),
    "response.reasoning_text.delta": (REASONING, "content_index"),
    "response.reasoning_summary_text.delta": (REASONING, "summary_index"),
}
_CALL_DELTAS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_ENDS = ("response.completed", "response.incomplete", "response.cancelled", "response.done")
# Events that tell nothing that others don't tell.
_SILENT = frozenset(
    (
        "keepalive",
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.content_part.done",
        "response.output_text.done",
        "response.refusal.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_text.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.function_call_arguments.done",
        "response.custom_tool_call_input.done",
    )
)


class StreamDecoder:
    """Feed it the server-sent events of one answer, in order.

    `model`, `headers` and `warnings` are as in `parse_response`. A failure in the stream is raised as the error it
    stands for, what can't be understood as StreamError.
    """

    def __init__(
        self,
        *,
        provider: str = "openai",
        model: str = "",
        headers: Mapping[str, str] | None = None,
        warnings: Sequence[Warning] = (),
    ) -> None:
        self._provider = provider
        self._model = model
        self._headers = headers
        self._warnings = warnings
        self._started = False
        self._items: list[ItemStream] = []
        self._at: dict[object, ItemStream] = {}
        self._reasoning_id: str | None = None
        self.finished = False
        """Whether FINISH has been returned; what follows is ignored."""

    def feed(self, event: ServerSentEvent) -> list[StreamEvent]:
        """The stream events that this server-sent event gives rise to."""
        if self.finished or not event.data or event.data.startswith("[DONE]"):
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
        kind = payload.get("type")
        if (target := _DELTAS.get(kind or "")) is not None and self._started:
            kinds, index_name = target
            return self._item(payload).add_text(kinds, index_name, payload.get(index_name), payload["delta"])
        if kind == "error" or kind == "response.failed" or payload.get("error"):
            raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
        events: list[StreamEvent] = []
        if not self._started:
            self._started = True
            events.append(StreamEvent(type=StreamEventType.STREAM_START, warnings=tuple(self._warnings), raw=payload))
        if kind in _CALL_DELTAS:
            events += self._item(payload).add_arguments(payload["delta"])
        elif kind == "response.output_item.added":
            events += self._begin(payload["item"], payload)
        elif kind == "response.content_part.added":
            events += self._item(payload).begin_part(payload)
        elif kind == "response.output_item.done":
            events += self._complete(self._item(payload), payload["item"], payload)
        elif kind in _ENDS:
            events += self._finish({"status": kind.rpartition(".")[2], **payload["response"]})
        elif kind is None and payload.get("object") == "response":
            events += self._finish(payload)  # of a server that was asked for a stream and doesn't stream
        elif kind in _DELTAS:
            events += self._events(payload)
        elif kind not in _SILENT:
            events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload))
        return events

    def _item(self, payload: _Json) -> ItemStream:
        """The item that an event is about: by its place, by its id (either may be missing), else the latest."""
        wire = payload.get("item") or {}
        index, item_id = payload.get("output_index"), payload.get("item_id") or wire.get("id")
        item = self._at.get(index) or self._at.get(item_id)
        if item is not None:
            return item
        if index is None and item_id is None and self._items and self._items[-1].parts is None:
            return self._items[-1]
        return self._new_item({"type": "message", "id": item_id, **wire}, payload)

    def _begin(self, wire: _Json, payload: _Json) -> list[StreamEvent]:
        known = self._at.get(payload.get("output_index"))
        if known is not None and known.wire.get("id") == wire.get("id") and known.wire.get("type") == wire.get("type"):
            return []  # said twice
        return self._new_item(wire, payload).begin(payload)

    def _new_item(self, wire: _Json, payload: _Json) -> ItemStream:
        item = ItemStream(str(len(self._items)), wire, self._provider)
        self._items.append(item)
        for key in (payload.get("output_index"), wire.get("id")):
            if key is not None:
                self._at[key] = item
        return item

    def _complete(self, item: ItemStream, wire: _Json, payload: _Json) -> list[StreamEvent]:
        if item.parts is not None:
            return []
        events = item.complete(wire, payload, self._reasoning_id)
        self._reasoning_id = reasoning_id_after(wire, self._reasoning_id)
        return events

    def _finish(self, body: _Json) -> list[StreamEvent]:
        if body.get("error") or body.get("status") == "failed":
            raise error_from_event(provider=self._provider, payload=body, headers=self._headers)
        # Some servers leave out of the end what they have streamed, and others the reverse.
        output = body.get("output") or [item.wire for item in self._items]
        events: list[StreamEvent] = []
        ordered = []
        for place, wire in enumerate(output):
            item = self._at.get(wire.get("id")) or (self._items[place] if place < len(self._items) else None)
            if item is None or item in ordered or item.wire.get("type") != wire.get("type"):
                item = self._new_item(wire, {})
            events += self._complete(item, wire, {"type": "response.output_item.done", "item": wire})
            ordered.append(item)
        for item in self._items:
            if item not in ordered:
                events += self._complete(item, item.wire, {"type": "response.output_item.done", "item": item.wire})
                ordered.append(item)
        response = assemble_response(
            {**body, "output": output},
            [part for item in ordered for part in item.parts or ()],
            provider=self._provider,
            model=self._model,
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
