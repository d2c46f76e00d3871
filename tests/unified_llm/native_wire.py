"""A provider at the other end of the wire: answers in each provider's own format, and looks into what it was sent.

One description of an answer becomes a body or a stream of OpenAI Responses, Anthropic Messages, Gemini or Chat
Completions. Tests say what a model answers, and assert on what went out and what came back.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from unified_llm import (
    AnthropicAdapter,
    Client,
    GeminiAdapter,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    get_latest_model,
)

_Json = dict[str, Any]
PROVIDERS = ("openai", "anthropic", "gemini", "openai_compatible")


def model_of(provider: str) -> str:
    """The newest model in the catalog; third parties have models of their own."""
    latest = get_latest_model(provider)
    return "llama-4" if latest is None else latest.id


@dataclass(frozen=True)
class Say:
    """What the model answers. Counts are in the unified meaning: cached is part of input, thinking part of output."""

    text: str = ""
    calls: Sequence[tuple[str, str, _Json]] = ()
    reasoning: str = ""
    input: int = 100
    output: int = 20
    thinking: int = 0
    cached: int = 0
    written: int = 0


@dataclass(frozen=True)
class Refuse:
    """An error, as this provider words it."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """A request as it arrived. Header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: _Json

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream")) or ":streamGenerateContent" in self.path

    def holds(self, **fields: Any) -> bool:
        """Whether some object, at any depth of the body, has all of these fields."""
        return any(fields.items() <= found.items() for found in objects_of(self.body))


def objects_of(value: Any) -> Iterator[_Json]:
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_of(item)


Answer = Say | Refuse | Callable[[Sent], "Say | Refuse"]


class NativeServer:
    """Plays the answers in order to one provider's adapter, whole or streamed as asked; `sent` is what came in.

    `library` is httpx or httpx2.
    """

    def __init__(self, provider: str, *answers: Answer, library: Any = httpx) -> None:
        self._library = library
        self.provider = provider
        self.sent: list[Sent] = []
        self._answers = list(answers)

    def client(self) -> Client:
        http_client = self._library.AsyncClient(transport=self._library.MockTransport(self._handle))
        adapters: dict[str, Callable[[], Any]] = {
            "openai": lambda: OpenAIAdapter("secret", http_client=http_client),
            "anthropic": lambda: AnthropicAdapter("secret", http_client=http_client),
            "gemini": lambda: GeminiAdapter("secret", http_client=http_client),
            "openai_compatible": lambda: OpenAICompatibleAdapter(
                "secret", "https://x.test/v1", http_client=http_client
            ),
        }
        return Client({self.provider: adapters[self.provider]()}, self.provider)

    def _handle(self, request: Any) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        sent = Sent(request.url.path, headers, json.loads(request.content))
        self.sent.append(sent)
        assert self._answers, f"request {len(self.sent)} was not expected: {sent.body}"
        answer = self._answers.pop(0)
        if callable(answer):
            answer = answer(sent)
        if isinstance(answer, Refuse):
            return self._library.Response(
                answer.status, headers=answer.headers, json=ERRORS[self.provider](answer.status)
            )
        body, frames = WIRES[self.provider](answer)
        if not sent.is_stream:
            return self._library.Response(200, json=body)
        content = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
        return self._library.Response(200, headers={"content-type": "text/event-stream"}, text=content)


def pieces(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def openai_wire(say: Say) -> tuple[_Json, list[_Json]]:
    items: list[_Json] = []
    if say.reasoning:
        summary = [{"type": "summary_text", "text": say.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
    if say.text:
        content = [{"type": "output_text", "text": say.text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
    for call_id, name, arguments in say.calls:
        call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "status": "completed"}
        items.append({**call, "name": name, "arguments": json.dumps(arguments)})
    usage = {
        "input_tokens": say.input,
        "input_tokens_details": {"cached_tokens": say.cached},
        "output_tokens": say.output,
        "output_tokens_details": {"reasoning_tokens": say.thinking},
        "total_tokens": say.input + say.output,
    }
    body = {"id": "resp_1", "model": "m", "status": "completed", "output": items, "usage": usage}
    frames: list[_Json] = [{"type": "response.created", "response": {**body, "status": "in_progress", "output": []}}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        frames.append(
            {"type": "response.output_item.added", "output_index": index, "item": {**item, **_OPEN[item["type"]]}}
        )
        match item["type"]:
            case "message":
                delta = {"type": "response.output_text.delta", "content_index": 0, **place}
                frames += [{**delta, "delta": piece} for piece in pieces(say.text)]
            case "reasoning":
                delta = {"type": "response.reasoning_summary_text.delta", "summary_index": 0, **place}
                frames += [{**delta, "delta": piece} for piece in pieces(say.reasoning)]
            case _:
                delta = {"type": "response.function_call_arguments.delta", **place}
                frames += [{**delta, "delta": piece} for piece in pieces(item["arguments"])]
        frames.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return body, [*frames, {"type": "response.completed", "response": body}]


_OPEN: dict[str, _Json] = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}


def anthropic_wire(say: Say) -> tuple[_Json, list[_Json]]:
    blocks: list[_Json] = []
    if say.reasoning:
        blocks.append({"type": "thinking", "thinking": say.reasoning, "signature": "sealed"})
    if say.text:
        blocks.append({"type": "text", "text": say.text})
    blocks += [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in say.calls]
    usage: _Json = {
        "input_tokens": say.input - say.cached - say.written,
        "cache_read_input_tokens": say.cached,
        "cache_creation_input_tokens": say.written,
        "output_tokens": say.output,
    }
    if say.thinking:
        usage["output_tokens_details"] = {"thinking_tokens": say.thinking}
    reason = "tool_use" if say.calls else "end_turn"
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks}
    frames: list[_Json] = [{"type": "message_start", "message": {**body, "content": [], "usage": usage}}]
    for index, block in enumerate(blocks):
        match block["type"]:
            case "thinking":
                empty, deltas = (
                    {**block, "thinking": "", "signature": ""},
                    [
                        *({"type": "thinking_delta", "thinking": piece} for piece in pieces(say.reasoning)),
                        {"type": "signature_delta", "signature": "sealed"},
                    ],
                )
            case "text":
                empty = {**block, "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(say.text)]
            case _:
                empty = {**block, "input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece} for piece in pieces(json.dumps(block["input"]))
                ]
        frames.append({"type": "content_block_start", "index": index, "content_block": empty})
        frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": index})
    frames.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
    return {**body, "stop_reason": reason, "usage": usage}, [*frames, {"type": "message_stop"}]


def gemini_wire(say: Say) -> tuple[_Json, list[_Json]]:
    calls = [{"functionCall": {"name": name, "args": given, "id": id_}} for id_, name, given in say.calls]
    usage: _Json = {
        "promptTokenCount": say.input,
        "candidatesTokenCount": say.output - say.thinking,
        "totalTokenCount": say.input + say.output,
    }
    if say.thinking:
        usage["thoughtsTokenCount"] = say.thinking
    if say.cached:
        usage["cachedContentTokenCount"] = say.cached

    def chunk(parts: list[_Json], **fields: Any) -> _Json:
        candidate = {"content": {"role": "model", "parts": parts}, **fields}
        return {"responseId": "1", "modelVersion": "m", "candidates": [candidate], "usageMetadata": usage}

    thought = [{"text": say.reasoning, "thought": True}] if say.reasoning else []
    text = [{"text": say.text}] if say.text else []
    frames = [
        *(chunk([{"text": piece, "thought": True}]) for piece in pieces(say.reasoning)),
        *(chunk([{"text": piece}]) for piece in pieces(say.text)),
        *(chunk([call]) for call in calls),
        chunk([], finishReason="STOP"),
    ]
    return chunk([*thought, *text, *calls], finishReason="STOP"), frames


def chat_wire(say: Say) -> tuple[_Json, list[_Json]]:
    reason = "tool_calls" if say.calls else "stop"
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for id_, name, given in say.calls
    ]
    usage = {
        "prompt_tokens": say.input,
        "completion_tokens": say.output,
        "total_tokens": say.input + say.output,
        "prompt_tokens_details": {"cached_tokens": say.cached},
        "completion_tokens_details": {"reasoning_tokens": say.thinking},
    }
    message: _Json = {"role": "assistant", "content": say.text or None}
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    if calls:
        message["tool_calls"] = calls
    head = {"id": "chatcmpl-1", "model": "m"}
    body = {**head, "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}

    def chunk(delta: _Json, finish: str | None = None) -> _Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    frames = [
        *(chunk({"reasoning_content": piece}) for piece in pieces(say.reasoning)),
        *(chunk({"content": piece}) for piece in pieces(say.text)),
        *(chunk({"tool_calls": [{"index": index, **call}]}) for index, call in enumerate(calls)),
        chunk({}, reason),
        {**head, "choices": [], "usage": usage},
    ]
    return body, frames


WIRES = {
    "openai": openai_wire,
    "anthropic": anthropic_wire,
    "gemini": gemini_wire,
    "openai_compatible": chat_wire,
}
_GRPC = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
ERRORS: dict[str, Callable[[int], _Json]] = {
    "openai": lambda status: {"error": {"message": "No.", "type": "invalid_request_error", "code": _CODES[status]}},
    "anthropic": lambda status: {"type": "error", "error": {"type": _TYPES[status], "message": "No."}},
    "gemini": lambda status: {"error": {"code": status, "message": "No.", "status": _GRPC[status]}},
    "openai_compatible": lambda status: {"error": {"message": "No.", "code": _CODES[status]}},
}
