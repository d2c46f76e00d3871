"""Chat Completions -> Response and stream events (sections 7.5 and 7.7). Pure.

A whole answer is decoded as a stream of one chunk, so that both give the same response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unified_llm.provider_utils.error_mapping import error_from_event
from unified_llm.provider_utils.json_body import read_json
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.provider_utils.wire_values import read_count, read_name, read_object
from unified_llm.providers.openai_compatible.message import KNOWN_FIELDS, MessageDecoder, new_call_id
from unified_llm.spec.errors import ServerError, StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import Message, Role
from unified_llm.spec.response import FinishReason, FinishReasonName, Response, Usage, Warning

_Json = dict[str, Any]

# The names of section 3.8, and words that other servers use for the same. Anything else is "other".
_FINISH_REASONS: dict[str, FinishReasonName] = {
    **dict.fromkeys(("", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "context_length"), "length"),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(
        (
            *("content_filter", "content_filtered", "refusal", "safety", "recitation", "sensitive"),
            *("blocklist", "prohibited_content", "spii", "guardrail_intervened"),
        ),
        "content_filter",
    ),
    **dict.fromkeys(("error", "network_error", "malformed_function_call", "insufficient_system_resource"), "error"),
}


def parse_response(
    body: _Json,
    *,
    provider: str,
    model: str,
    headers: Mapping[str, str] | None = None,
    warnings: Sequence[Warning] = (),
    new_id: Callable[[], str] = new_call_id,
) -> Response:
    """The response that `body` holds. `model` is the one asked for, should the body not name it.

    Raises what the HTTP status would have raised if the body is an error, and ServerError if no answer is in it.
    """
    decoder = StreamDecoder(provider=provider, model=model, headers=headers, warnings=warnings, new_id=new_id)
    decoder.read(body)
    if not body.get("choices"):
        raise ServerError(f"{provider} answered without any choices", provider=provider, raw=body)
    if not decoder.chosen:
        raise ServerError(f"{provider} answered without a first choice", provider=provider, raw=body)
    decoder.done = True
    response = decoder.finish()[-1].response
    assert response is not None
    return response


class StreamDecoder:
    """Feed it the events of one answer; it returns what they mean, and `finish()` the end of it.

    `done` turns true at the `[DONE]` mark, after which nothing more is to be read. Only the first of several choices
    is followed. The response's `raw` is the last chunk, where servers put what is their own. Raises the error that an
    error frame stands for, and StreamError for frames that make no sense.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        headers: Mapping[str, str] | None = None,
        warnings: Sequence[Warning] = (),
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self.done = False
        self._provider = provider
        self._requested_model = model
        self._rate_limit = parse_rate_limit(headers) if headers else None
        self._warnings = tuple(warnings)
        self.chosen = False
        """Whether anything of the choice that is followed has come."""
        self._message = MessageDecoder(provider, new_id)
        self._started = False
        self._id = ""
        self._model = ""
        self._finish_reason: str | None = None
        self._usage: _Json | None = None
        self._last: _Json | None = None

    def feed(self, event: ServerSentEvent) -> list[StreamEvent]:
        """Take one server-sent event."""
        if event.data == "[DONE]" or event.data.strip() == "[DONE]":
            self.done = True
            return []
        if not event.data:
            return []  # a server that stays in touch
        try:
            payload = read_json(event.data)
        except (ValueError, RecursionError) as error:
            raise self._broken(f"sent a frame that is not JSON: {event.data[:200]!r}") from error
        if not isinstance(payload, dict):
            raise self._broken(f"sent a frame that is not a JSON object: {event.data[:200]!r}")
        if event.event == "error":
            raise error_from_event(provider=self._provider, payload=payload)
        return self.read(payload)

    def read(self, payload: _Json) -> list[StreamEvent]:
        """Take one chunk, or a whole `chat.completion`."""
        if payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error":
            raise error_from_event(provider=self._provider, payload=payload)
        events: list[StreamEvent] = []
        if not self._started:
            self._started = True
            events.append(StreamEvent(type=StreamEventType.STREAM_START, warnings=self._warnings))
        try:
            self._chunk(payload, events)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._broken(f"sent an answer of an unknown shape: {str(payload)[:200]}") from error
        return events

    def finish(self) -> list[StreamEvent]:
        """End of input: close what is open and return FINISH last.

        Raises StreamError unless a choice came, and a finish reason or `[DONE]`: else the answer was cut.
        """
        if not self.chosen or (self._finish_reason is None and not self.done):
            raise self._broken("ended the stream before the answer was complete")
        events: list[StreamEvent] = []
        try:
            response = Response(
                id=self._id,
                model=self._model or self._requested_model,
                provider=self._provider,
                message=Message(role=Role.ASSISTANT, content=self._message.end(events)),
                finish_reason=self._reason(),
                usage=parse_usage(self._usage),
                raw=self._last,
                warnings=list(self._warnings),
                rate_limit=self._rate_limit,
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise self._broken("sent an answer of an unknown shape") from error
        finish = StreamEvent(
            type=StreamEventType.FINISH,
            finish_reason=response.finish_reason,
            usage=response.usage,
            response=response,
        )
        return [*events, finish]

    def _chunk(self, payload: _Json, events: list[StreamEvent]) -> None:
        self._last = payload
        self._id = self._id or read_name(payload.get("id"))
        self._model = self._model or read_name(payload.get("model"))
        usage = payload.get("usage")
        if not usage and payload.get("x_groq"):
            usage = read_object(payload["x_groq"]).get("usage")
        if usage:
            self._usage = read_object(usage)
        choices = payload.get("choices") or ()
        for choice in choices:
            if not read_count(choice.get("index")):
                self.chosen = True
                self._choice(choice, payload, events)
        if not choices and not usage:
            events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload))

    def _choice(self, choice: _Json, payload: _Json, events: list[StreamEvent]) -> None:
        if error := choice.get("error"):
            raise error_from_event(provider=self._provider, payload={"error": error})
        delta = choice.get("delta") if "delta" in choice else choice.get("message")
        if delta:
            self._message.add(delta, events)
            if not delta.keys() <= KNOWN_FIELDS and any(delta[name] for name in delta.keys() - KNOWN_FIELDS):
                events.append(StreamEvent(type=StreamEventType.PROVIDER_EVENT, raw=payload))
        if usage := choice.get("usage"):  # Moonshot puts it here
            self._usage = read_object(usage)
        reason = choice.get("finish_reason")
        # Some servers repeat the reason in a later chunk; the first that says something stands.
        if reason is not None and not self._finish_reason:
            self._finish_reason = str(reason)

    def _reason(self) -> FinishReason:
        reason = _FINISH_REASONS.get((self._finish_reason or "").lower(), "other")
        if reason == "stop" and self._message.has_calls:
            reason = "tool_calls"
        elif reason == "stop" and self._message.refused:
            reason = "content_filter"
        return FinishReason(reason=reason, raw=self._finish_reason)

    def _broken(self, what: str) -> StreamError:
        return StreamError(f"{self._provider} {what}", provider=self._provider)


def parse_usage(raw: _Json | None) -> Usage:
    """Token counts with the meaning of section 3.9, whatever the server's habits.

    xAI leaves reasoning out of `completion_tokens`, and Gemini's endpoint its thoughts; the total tells.
    """
    if not raw:
        return Usage()
    prompt, completion = (read_object(raw.get(f"{side}_tokens_details")) for side in ("prompt", "completion"))
    input_tokens = read_count(raw.get("prompt_tokens"), raw.get("input_tokens")) or 0
    output_tokens = read_count(raw.get("completion_tokens"), raw.get("output_tokens")) or 0
    reasoning = read_count(completion.get("reasoning_tokens"), raw.get("reasoning_tokens"))
    total = read_count(raw.get("total_tokens")) or 0
    if not total and (reasoning or 0) > output_tokens:
        total = input_tokens + output_tokens + (reasoning or 0)
    output_tokens = max(output_tokens, total - input_tokens)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        reasoning_tokens=reasoning,
        cache_read_tokens=read_count(
            prompt.get("cached_tokens"),
            raw.get("prompt_cache_hit_tokens"),
            raw.get("cache_read_input_tokens"),
            raw.get("cached_tokens"),
        ),
        cache_write_tokens=read_count(
            prompt.get("cache_write_tokens"),
            prompt.get("cache_creation_tokens"),
            raw.get("cache_creation_input_tokens"),
        ),
        raw=raw,
    )
