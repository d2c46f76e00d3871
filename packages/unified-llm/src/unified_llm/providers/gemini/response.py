"""The Gemini API's answers -> Response, and its event stream -> StreamEvents (sections 7.5 and 7.7). Pure.

A chunk of a stream has the shape of a whole answer: so a whole answer is decoded as a stream of one chunk.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unified_llm.provider_utils.error_mapping import error_from_event
from unified_llm.provider_utils.json_body import read_json
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.provider_utils.wire_values import read_count, read_list, read_name, read_object
from unified_llm.providers.gemini.content_stream import ContentStream, new_call_id
from unified_llm.spec.errors import ContentFilterError, ServerError, StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import Message, Role
from unified_llm.spec.response import FinishReason, FinishReasonName, Response, Usage, Warning

_Json = dict[str, Any]

# Anything else is "other".
_FINISH_REASONS: dict[str, FinishReasonName] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "MALFORMED_RESPONSE": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
}
# A turn that ends like this with calls in it ends for them. Google never says the last, servers that speak its API do.
_CALLED = ("STOP", "UNEXPECTED_TOOL_CALL", "FUNCTION_CALL")
# What every candidate has; anything beyond (grounding, citations) is passed on.
_PLAIN = frozenset(("content", "finishReason", "finishMessage", "index", "safetyRatings", "avgLogprobs", "tokenCount"))


def parse_response(
    body: _Json,
    *,
    provider: str = "gemini",
    model: str = "",
    headers: Mapping[str, str] | None = None,
    warnings: Sequence[Warning] = (),
    new_id: Callable[[], str] = new_call_id,
) -> Response:
    """A whole answer. `model` is the one asked for, should the body not name it.

    Raises ContentFilterError if the prompt was blocked, and ServerError if there is no answer in the body.
    """
    decoder = StreamDecoder(provider=provider, model=model, headers=headers, warnings=warnings, new_id=new_id)
    decoder.read(body)
    if not body.get("candidates"):
        raise ServerError(f"{provider} answered without any candidates", provider=provider, raw=body)
    if not decoder.chosen:
        raise ServerError(f"{provider} answered without a first candidate", provider=provider, raw=body)
    return decoder.assemble([], raw=body)


class StreamDecoder:
    """Feed it the server-sent events of one answer; it returns what they mean, and `finish()` the end of it.

    `model`, `headers` and `warnings` are as in `parse_response`. Nothing marks the end of a stream but its end, and
    counts may follow the finish reason. Only the first of several candidates is followed. A failure in the stream is
    raised as the error it stands for, what can't be understood as StreamError.
    """

    def __init__(
        self,
        *,
        provider: str = "gemini",
        model: str = "",
        headers: Mapping[str, str] | None = None,
        warnings: Sequence[Warning] = (),
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._provider = provider
        self._model = model
        self._headers = headers
        self._warnings = warnings
        self._content = ContentStream(provider, new_id)
        self._started = False
        self._body: _Json = {}
        self._candidate: _Json = {}
        self._usage: _Json = {}

    def feed(self, event: ServerSentEvent) -> list[StreamEvent]:
        """The stream events that this server-sent event gives rise to."""
        if not event.data or event.data.startswith("[DONE]"):
            return []
        try:
            payload = read_json(event.data)
            if event.event == "error" and isinstance(payload, dict):
                raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
            return self.read(payload)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            raise StreamError(
                f"{self._provider} sent an event that can't be understood: {event.data[:80]!r}",
                cause=error,
                provider=self._provider,
                raw={"event": event.event, "data": event.data[:4096]},
            ) from error

    def read(self, payload: _Json) -> list[StreamEvent]:
        """Take one chunk, or a whole answer."""
        if payload.get("error"):
            raise error_from_event(provider=self._provider, payload=payload, headers=self._headers)
        candidates = payload.get("candidates") or ()
        if not candidates and (blocked := read_object(payload.get("promptFeedback"))).get("blockReason"):
            raise self._blocked(blocked, payload)
        events: list[StreamEvent] = []
        if not self._started:
            self._started = True
            events.append(StreamEvent(type=StreamEventType.STREAM_START, warnings=tuple(self._warnings), raw=payload))
        self._body.update(payload)
        # Counts are totals so far, not additions.
        self._usage.update(read_object(payload.get("usageMetadata")))
        for candidate in candidates:
            if not read_count(candidate.get("index")):
                self._read_candidate(candidate, payload, events)
        return events

    def finish(self) -> list[StreamEvent]:
        """The input has ended. Raises StreamError if the answer hasn't: then there was no finish reason."""
        if not self._candidate.get("finishReason"):
            raise StreamError(f"{self._provider}'s stream ended before the answer did", provider=self._provider)
        events: list[StreamEvent] = []
        try:
            response = self.assemble(events)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise StreamError(
                f"{self._provider} sent an answer of an unknown shape", cause=error, provider=self._provider
            ) from error
        finish = StreamEvent(
            type=StreamEventType.FINISH,
            finish_reason=response.finish_reason,
            usage=response.usage,
            response=response,
        )
        return [*events, finish]

    def assemble(self, events: list[StreamEvent], raw: _Json | None = None) -> Response:
        """The Response of what has come; the ends of what is open go to `events`."""
        self._content.end(events)
        if raw is None:
            content = {"role": "model", "parts": self._content.wire}
            raw = {**self._body, "candidates": [{**self._candidate, "content": content}], "usageMetadata": self._usage}
        return Response(
            id=read_name(self._body.get("responseId")),
            model=read_name(self._body.get("modelVersion"), self._model),
            provider=self._provider,
            message=Message(role=Role.ASSISTANT, content=self._content.parts),
            finish_reason=self._finish_reason(),
            usage=parse_usage(self._usage),
            raw=raw,
            warnings=list(self._warnings),
            rate_limit=parse_rate_limit(self._headers) if self._headers else None,
        )

    @property
    def chosen(self) -> bool:
        """Whether the candidate that is followed has come."""
        return bool(self._candidate)

    def _read_candidate(self, candidate: _Json, payload: _Json, events: list[StreamEvent]) -> None:
        for part in read_list(read_object(candidate.get("content")).get("parts")):
            self._content.add(part, events)
        # A later chunk may leave the reason open again.
        self._candidate.update({key: value for key, value in candidate.items() if value is not None})
        if candidate.keys() - _PLAIN:
            events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload))

    def _finish_reason(self) -> FinishReason:
        raw = read_name(self._candidate.get("finishReason")) or None
        reason = _FINISH_REASONS.get(raw or "", "other")
        if raw in _CALLED and any(part.tool_call is not None for part in self._content.parts):
            reason = "tool_calls"
        return FinishReason(reason=reason, raw=raw)

    def _blocked(self, feedback: _Json, payload: _Json) -> ContentFilterError:
        reason, message = feedback["blockReason"], feedback.get("blockReasonMessage")
        return ContentFilterError(
            f"{self._provider} blocked the prompt ({reason}){f': {message}' if message else ''}",
            provider=self._provider,
            error_code=str(reason),
            raw=payload,
        )


def parse_usage(usage: _Json) -> Usage:
    """The counts. What tools fetched is part of the prompt, and thoughts are part of the output."""
    thoughts = read_count(usage.get("thoughtsTokenCount"))
    prompt, tool_use = read_count(usage.get("promptTokenCount")), read_count(usage.get("toolUsePromptTokenCount"))
    input_tokens = (prompt or 0) + (tool_use or 0)
    output_tokens = (read_count(usage.get("candidatesTokenCount")) or 0) + (thoughts or 0)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        reasoning_tokens=thoughts,
        cache_read_tokens=read_count(usage.get("cachedContentTokenCount")),
        raw=usage or None,
    )
