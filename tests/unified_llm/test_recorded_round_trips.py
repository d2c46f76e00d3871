"""Recorded requests hold earlier answers of the model; read as such and sent again, they come out the same."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from unified_llm import (
    AnthropicAdapter,
    ContentKind,
    ContentPart,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    Request,
    Role,
    ToolResultData,
)

_Json = dict[str, Any]
Step = Message | list[_Json]
"""What somebody else said, or what the model answered, as its blocks or items on the wire."""


async def send_again(
    make_adapter: Callable[[httpx.AsyncClient], ProviderAdapter],
    steps: Iterator[Step],
    answer_with: Callable[[list[_Json]], _Json],
) -> _Json:
    """The body of a request whose history is made of `steps`, each answer read by the adapter and stored as JSON."""
    answers: list[_Json] = []
    sent: list[_Json] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=answers[-1])

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        adapter = make_adapter(client)
        history: list[Message] = []
        for step in steps:
            if isinstance(step, Message):
                history.append(step)
                continue
            answers.append(answer_with(step))
            response = await adapter.complete(Request(model="some-model", messages=history or [Message.user("hi")]))
            history.append(Message.model_validate_json(response.message.model_dump_json()))
        await adapter.complete(Request(model="some-model", messages=history))
    return sent[-1]


def text(value: str) -> ContentPart:
    return ContentPart(kind=ContentKind.TEXT, text=value)


# Anthropic Messages


def message_steps(body: _Json) -> Iterator[Step]:
    for turn in body["messages"]:
        blocks = _blocks(turn["content"])
        yield blocks if turn["role"] == "assistant" else Message.user([_message_part(block) for block in blocks])


def _message_part(block: _Json) -> ContentPart:
    if block["type"] == "text":
        return text(block["text"])
    if block["type"] != "tool_result":
        return ContentPart(kind=block["type"], provider_metadata={"anthropic": block})
    inner = {item["type"]: item for item in _blocks(block["content"])}
    image = inner.get("image", {}).get("source", {})
    result = ToolResultData(
        tool_call_id=block["tool_use_id"],
        content=inner.get("text", {}).get("text", ""),
        is_error=block.get("is_error", False),
        image_data=base64.b64decode(image["data"]) if image else None,
        image_media_type=image.get("media_type"),
    )
    return ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=result)


def _blocks(content: str | list[_Json]) -> list[_Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def message_history(body: _Json) -> list[_Json]:
    """The turns without what means nothing: where caching is asked for, how a single text is written."""
    return [{"role": turn["role"], "content": _plain_blocks(turn["content"])} for turn in body["messages"]]


def _plain_blocks(content: str | list[_Json]) -> list[_Json]:
    plain = []
    for block in _blocks(content):
        kept = {name: value for name, value in block.items() if name != "cache_control"}
        if block["type"] == "tool_result":
            kept = {"is_error": False, **kept, "content": _plain_blocks(block["content"])}
        plain.append(kept)
    return plain


@pytest.mark.recordings("anthropic-messages", where="continues")
async def test_messages(recording):
    body = await send_again(
        lambda client: AnthropicAdapter(api_key="key", http_client=client),
        message_steps(recording.request_body),
        lambda blocks: {"id": "1", "content": blocks, "stop_reason": "end_turn", "usage": {}},
    )
    assert message_history(body) == message_history(recording.request_body)


# OpenAI Responses

_OF_THE_MODEL = ("reasoning", "function_call", "custom_tool_call")


def response_steps(body: _Json) -> Iterator[Step]:
    answer: list[_Json] = []
    for item in body["input"]:
        if item.get("type") in _OF_THE_MODEL or item.get("role") == "assistant":
            answer.append({"type": "message", **item})
            continue
        if answer:
            yield answer
            answer = []
        if item.get("type") == "function_call_output":
            yield Message.tool_result(item["call_id"], item["output"])
        else:
            yield Message(role=Role(item["role"]), content=item["content"])


def response_history(body: _Json) -> list[_Json]:
    """The items of the model's with the fields that the protocol doesn't ask for taken out, and the ids of results."""
    plain = []
    for item in body["input"]:
        if item.get("role") == "assistant":
            plain.append({"text": "".join(block["text"] for block in item["content"])})
        elif item.get("type") == "function_call_output":
            plain.append({"call_id": item["call_id"]})
        elif item.get("type") in _OF_THE_MODEL:
            plain.append(item)
    return plain


@pytest.mark.recordings("openai-responses", where="continues")
async def test_responses(recording):
    body = await send_again(
        lambda client: OpenAIAdapter(api_key="key", http_client=client),
        response_steps(recording.request_body),
        lambda items: {"id": "1", "status": "completed", "output": items},
    )
    assert response_history(body) == response_history(recording.request_body)


# Gemini


def content_steps(body: _Json) -> Iterator[Step]:
    calls: list[_Json] = []
    for content in body["contents"]:
        if content["role"] == "model":
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            yield content["parts"]
            continue
        yield Message.user([_content_part(part, calls) for part in content["parts"]])


def _content_part(part: _Json, calls: list[_Json]) -> ContentPart:
    if "text" in part:
        return text(part["text"] or "(nothing)")
    if (response := part.get("functionResponse")) is None:
        return ContentPart(kind="gemini.part", provider_metadata={"gemini": part})
    call = next(call for call in calls if call.get("id") == response.get("id"))
    # Where a call came without an id, the adapter gave it one.
    result = ToolResultData(tool_call_id=call.get("id") or "", content=response["response"])
    return ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=result)


def content_history(body: _Json) -> list[Any]:
    """The model's turns in full, but texts that follow each other as one; of results, their calls."""
    plain: list[Any] = []
    for content in body["contents"]:
        if content["role"] == "model":
            plain.append(_joined_parts(content["parts"]))
        else:
            plain.append(
                [
                    (part["functionResponse"]["name"], part["functionResponse"].get("id"))
                    for part in content["parts"]
                    if "functionResponse" in part
                ]
            )
    return plain


def _joined_parts(parts: list[_Json]) -> list[_Json]:
    joined: list[_Json] = []
    for part in parts:
        if joined and part.keys() == joined[-1].keys() == {"text"}:
            joined[-1] = {"text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


@pytest.mark.recordings("gemini", where="continues")
async def test_gemini(recording):
    body = await send_again(
        lambda client: GeminiAdapter(api_key="key", http_client=client),
        content_steps(recording.request_body),
        lambda parts: {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]},
    )
    assert content_history(body) == content_history(recording.request_body)


# Chat Completions


def chat_steps(body: _Json) -> Iterator[Step]:
    for message in body["messages"]:
        match message["role"]:
            case "assistant":
                yield [message]
            case "tool":
                yield Message.tool_result(message["tool_call_id"], _joined(message["content"]))
            case role:
                yield Message(role=Role(role), content=_joined(message["content"]))


def _joined(content: str | list[_Json] | None) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def chat_history(body: _Json) -> list[_Json]:
    """Messages without empty fields; reasoning under the first of its two names, since servers take either."""
    plain = []
    for message in body["messages"]:
        kept = {**message, "content": _joined(message.get("content"))}
        if kept["role"] == "developer":
            kept["role"] = "system"
        if (reasoning := kept.pop("reasoning", None)) is not None:
            kept.setdefault("reasoning_content", reasoning)
        plain.append({name: value for name, value in kept.items() if value})
    return plain


@pytest.mark.recordings("openai-chat", where="continues")
async def test_chat_completions(recording):
    body = await send_again(
        lambda client: OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=client),
        chat_steps(recording.request_body),
        lambda messages: {"choices": [{"index": 0, "finish_reason": "stop", "message": messages[0]}]},
    )
    assert chat_history(body) == chat_history(recording.request_body)
