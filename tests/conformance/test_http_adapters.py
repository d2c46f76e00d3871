"""The conformance suite for adapters, run on those that speak HTTP, over a server that lives in the transport."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import httpx2
import pytest
from conformance import adapter as suite
from unified_llm import (
    AnthropicAdapter,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    RateLimitError,
    Request,
)

ASK = Request(model="m", messages=[Message.user("hi")])

CHAT_USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
CHAT_BODY = {
    "id": "1",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}],
    "usage": CHAT_USAGE,
}
CHAT_EVENTS = [
    {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
    {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"id": "1", "model": "m", "choices": [], "usage": CHAT_USAGE},
]
MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
RESPONSE = {
    "id": "1",
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "annotations": [], "text": "Hello"}],
        }
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}
RESPONSE_EVENTS = [
    {"type": "response.created", "response": {"id": "1", "status": "in_progress"}},
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
    },
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo"},
    {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE["output"][0]},
    {"type": "response.completed", "response": RESPONSE},
]
CANDIDATES = {
    "responseId": "1",
    "modelVersion": "m",
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
}
CANDIDATE_EVENTS = [
    {
        "responseId": "1",
        "modelVersion": "m",
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}],
    },
    {**CANDIDATES, "candidates": [{"content": {"role": "model", "parts": [{"text": "lo"}]}, "finishReason": "STOP"}]},
]


Answer = Callable[[Any], tuple[int, dict[str, Any]]]

every_library = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


def client_of(library: Any, answer: Answer) -> Any:
    """A client of httpx or httpx2 whose other end answers with a status and the arguments of a response."""

    def respond(request: Any) -> Any:
        status, content = answer(request)
        return library.Response(status, **content)

    return library.AsyncClient(transport=library.MockTransport(respond))


def answering(body: dict[str, Any], events: list[dict[str, Any]]) -> Answer:
    frames = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def answer(request: Any) -> tuple[int, dict[str, Any]]:
        if not (json.loads(request.content).get("stream") or "stream" in request.url.path):
            return 200, {"json": body}
        return 200, {"headers": {"content-type": "text/event-stream"}, "content": frames + "data: [DONE]\n\n"}

    return answer


def refuse(request: Any) -> tuple[int, dict[str, Any]]:
    return 429, {"json": {"error": {"message": "slow down", "type": "rate_limit_error"}}}


def chat_adapter(http_client: Any) -> ProviderAdapter:
    return OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=http_client)


def anthropic_adapter(http_client: Any) -> ProviderAdapter:
    return AnthropicAdapter(api_key="key", base_url="http://anthropic.test", http_client=http_client)


def openai_adapter(http_client: Any) -> ProviderAdapter:
    return OpenAIAdapter(api_key="key", base_url="http://openai.test/v1", http_client=http_client)


def gemini_adapter(http_client: Any) -> ProviderAdapter:
    return GeminiAdapter(api_key="key", base_url="http://gemini.test", http_client=http_client)


ADAPTERS = {
    "chat": (chat_adapter, answering(CHAT_BODY, CHAT_EVENTS)),
    "anthropic": (anthropic_adapter, answering(MESSAGE, MESSAGE_EVENTS)),
    "openai": (openai_adapter, answering(RESPONSE, RESPONSE_EVENTS)),
    "gemini": (gemini_adapter, answering(CANDIDATES, CANDIDATE_EVENTS)),
}


@pytest.mark.parametrize("check", suite.ALL_ANSWERING, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ADAPTERS)
@every_library
async def test_the_adapter_answers(
    library: Any, name: str, check: Callable[[ProviderAdapter, Request], Awaitable[None]]
) -> None:
    make, answer = ADAPTERS[name]
    async with client_of(library, answer) as http_client:
        await check(make(http_client), ASK)


@pytest.mark.parametrize("name", ADAPTERS)
@every_library
async def test_the_adapter_fails(library: Any, name: str) -> None:
    make, _ = ADAPTERS[name]
    async with client_of(library, refuse) as http_client:
        await suite.check_failure(make(http_client), ASK, RateLimitError)
