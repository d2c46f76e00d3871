"""The conformance suite for adapters, run on those that speak HTTP, over a server that lives in the transport."""

import importlib.util
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from unified_llm import AnthropicAdapter, Message, OpenAICompatibleAdapter, ProviderAdapter, RateLimitError, Request

_spec = importlib.util.spec_from_file_location("adapter_suite", Path(__file__).with_name("adapter.py"))
assert _spec is not None
assert _spec.loader is not None
suite: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(suite)

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


def answering(body: dict[str, Any], events: list[dict[str, Any]]) -> Callable[[httpx.Request], httpx.Response]:
    frames = "".join(f"data: {json.dumps(event)}\n\n" for event in events)

    def answer(request: httpx.Request) -> httpx.Response:
        if not json.loads(request.content).get("stream"):
            return httpx.Response(200, json=body)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=frames + "data: [DONE]\n\n")

    return answer


def refuse(request: httpx.Request) -> httpx.Response:
    return httpx.Response(429, json={"error": {"message": "slow down", "type": "rate_limit_error"}})


def chat_adapter(http_client: httpx.AsyncClient) -> ProviderAdapter:
    return OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=http_client)


def anthropic_adapter(http_client: httpx.AsyncClient) -> ProviderAdapter:
    return AnthropicAdapter(api_key="key", base_url="http://anthropic.test", http_client=http_client)


ADAPTERS = {
    "chat": (chat_adapter, answering(CHAT_BODY, CHAT_EVENTS)),
    "anthropic": (anthropic_adapter, answering(MESSAGE, MESSAGE_EVENTS)),
}


@pytest.mark.parametrize("check", suite.ALL_ANSWERING, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ADAPTERS)
async def test_the_adapter_answers(name: str, check: Callable[[ProviderAdapter, Request], Awaitable[None]]) -> None:
    make, answer = ADAPTERS[name]
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http_client:
        await check(make(http_client), ASK)


@pytest.mark.parametrize("name", ADAPTERS)
async def test_the_adapter_fails(name: str) -> None:
    make, _ = ADAPTERS[name]
    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http_client:
        await suite.check_failure(make(http_client), ASK, RateLimitError)
