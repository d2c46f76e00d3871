"""What a model answered goes back to it as it came, and to another provider without what that one can't read."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx
import pytest
from unified_llm import (
    AnthropicAdapter,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    Request,
    Response,
)

_Json = dict[str, Any]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
PNG_BASE64 = "iVBORw0KGgoAAAAAAAAAAA=="
WRITTEN = '{ "city": "Oslo" }'


@dataclass(frozen=True)
class Provider:
    """An adapter, a model, how an answer is wrapped, and where in a request the model's turns are.

    `reasoned` is an answer with everything that only this provider can read, each of it marked SECRET, and two calls.
    `unread` is the code of the warning that reasoning was left out.
    """

    make: Callable[..., ProviderAdapter]
    model: str
    wrap: Callable[[list[_Json]], _Json]
    turns: Callable[[_Json], Iterator[list[_Json]]]
    reasoned: list[_Json]
    unread: str


def message_turns(body: _Json) -> Iterator[list[_Json]]:
    yield from (turn["content"] for turn in body["messages"] if turn["role"] == "assistant")


def item_turns(body: _Json) -> Iterator[list[_Json]]:
    turn: list[_Json] = []
    for item in [*body["input"], {"role": "user"}]:
        if not item.get("type", "").endswith("_output") and item.get("role", "assistant") == "assistant":
            turn.append(item)
        elif turn:
            yield turn
            turn = []


def chat_turns(body: _Json) -> Iterator[list[_Json]]:
    yield from ([message] for message in body["messages"] if message["role"] == "assistant")


def content_turns(body: _Json) -> Iterator[list[_Json]]:
    yield from (content["parts"] for content in body["contents"] if content["role"] == "model")


def chat_call(call_id: str, **fields: Any) -> _Json:
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": WRITTEN}, **fields}


def tool_use(call_id: str) -> _Json:
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": "Oslo"}}


def function_call(call_id: str) -> _Json:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "weather",
        "arguments": WRITTEN,
        "status": "completed",
    }


def part_call(call_id: str | None = None, **fields: Any) -> _Json:
    call = {"name": "weather", "args": {"city": "Oslo"}}
    return {"functionCall": call if call_id is None else {"id": call_id, **call}, **fields}


def item_message(text: str, **fields: Any) -> _Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **fields}


PROVIDERS = {
    "anthropic": Provider(
        lambda client, **more: AnthropicAdapter(api_key="key", http_client=client, **more),
        "claude-sonnet-4-5",
        lambda content: {"id": "1", "content": content, "stop_reason": "end_turn"},
        message_turns,
        [
            {"type": "thinking", "thinking": "Hm, SECRET.", "signature": "SECRET-1"},
            {"type": "redacted_thinking", "data": "SECRET-2"},
            {"type": "text", "text": "I'll look."},
            tool_use("call_1"),
            tool_use("call_2"),
        ],
        "foreign_thinking",
    ),
    "openai": Provider(
        lambda client, **more: OpenAIAdapter(api_key="key", http_client=client, **more),
        "gpt-5.2",
        lambda output: {"id": "1", "status": "completed", "output": output},
        item_turns,
        [
            {
                "type": "reasoning",
                "id": "rs_SECRET",
                "summary": [{"type": "summary_text", "text": "Hm, SECRET."}],
                "encrypted_content": "SECRET-1",
            },
            item_message("I'll look."),
            function_call("call_1"),
            function_call("call_2"),
        ],
        "foreign_thinking",
    ),
    "gemini": Provider(
        lambda client, **more: GeminiAdapter(api_key="key", http_client=client, **more),
        "gemini-3-pro-preview",
        lambda parts: {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]},
        content_turns,
        [
            {"text": "Hm, SECRET.", "thought": True},
            {"text": "I'll look."},
            part_call("call_1", thoughtSignature="SECRET-1"),
            part_call("call_2"),
        ],
        "foreign_thinking",
    ),
    "openai_compatible": Provider(
        lambda client, **more: OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=client, **more),
        "some-model",
        lambda messages: {"choices": [{"index": 0, "finish_reason": "stop", "message": messages[0]}]},
        chat_turns,
        [
            {
                "role": "assistant",
                "content": "I'll look.",
                "reasoning": "Hm, SECRET.",
                "reasoning_details": [
                    {"type": "reasoning.summary", "summary": "Hm, SECRET.", "index": 0},
                    {"type": "reasoning.encrypted", "data": "SECRET-1", "index": 0},
                ],
                "tool_calls": [
                    chat_call("call_1", extra_content={"google": {"thought_signature": "SECRET-2"}}),
                    chat_call("call_2"),
                ],
            }
        ],
        "reasoning_dropped",
    ),
}
RESULTS = [Message.tool_result("call_1", "It rains."), Message.tool_result("call_2", "no such city", is_error=True)]


async def exchange(
    provider: Provider, history: list[Message], answer: list[_Json] | None = None
) -> tuple[_Json, Response]:
    """The body of a request with that history, and what the adapter makes of the answer."""
    answer = provider.reasoned if answer is None else answer
    sent: list[_Json] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=provider.wrap(answer))

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        response = await provider.make(client).complete(Request(model=provider.model, messages=history))
    return sent[0], response


def stored(response: Response) -> Message:
    """The answer as a program keeps it between two runs."""
    return Message.model_validate_json(response.message.model_dump_json())


def codes(response: Response) -> list[str | None]:
    return [warning.code for warning in response.warnings]


ANSWERS: dict[str, tuple[str, list[_Json]]] = {
    "everything": ("anthropic", PROVIDERS["anthropic"].reasoned),
    "a signature alone": (
        "anthropic",
        [{"type": "thinking", "thinking": "", "signature": "sig"}, tool_use("call_1")],
    ),
    "redacted thoughts alone": ("anthropic", [{"type": "redacted_thinking", "data": "opaque"}, tool_use("call_1")]),
    "thoughts between calls": (
        "anthropic",
        [
            {"type": "thinking", "thinking": "First", "signature": "s1"},
            tool_use("call_1"),
            {"type": "thinking", "thinking": "Then", "signature": "s2"},
            tool_use("call_2"),
        ],
    ),
    "a search of the provider's": (
        "anthropic",
        [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "url": "https://x.example",
                        "title": "Rain",
                        "encrypted_content": "opaque",
                        "page_age": None,
                    }
                ],
            },
            {
                "type": "text",
                "text": "It rains.",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "url": "https://x.example",
                        "title": "Rain",
                        "encrypted_index": "opaque",
                        "cited_text": "rain",
                    }
                ],
            },
        ],
    ),
    "all items": ("openai", PROVIDERS["openai"].reasoned),
    "reasoning without a summary": (
        "openai",
        [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}, function_call("call_1")],
    ),
    "reasoning in two pieces": (
        "openai",
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": text} for text in ("First", "Then")],
                "encrypted_content": "E",
            },
            item_message("Well, "),
        ],
    ),
    "reasoning between calls": (
        "openai",
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E1"},
            function_call("call_1"),
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "E2"},
            function_call("call_2"),
        ],
    ),
    "two messages": (
        "openai",
        [
            item_message("I'll look.", phase="commentary"),
            item_message("It rains.", id="msg_2", phase="final_answer"),
        ],
    ),
    "a search and its sources": (
        "openai",
        [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "rain"},
            },
            item_message(
                "",
                content=[
                    {
                        "type": "output_text",
                        "text": "It rains.",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "start_index": 0,
                                "end_index": 9,
                                "title": "Rain",
                                "url": "https://x.example",
                            }
                        ],
                    }
                ],
            ),
        ],
    ),
    "a refusal": ("openai", [item_message("", content=[{"type": "refusal", "refusal": "I can't."}])]),
    "a thought and a signed call of two": ("gemini", PROVIDERS["gemini"].reasoned),
    "a signature on a text": ("gemini", [{"text": "It rains.", "thoughtSignature": "c2ln"}]),
    "a signature on no text": ("gemini", [{"text": "It rains."}, {"text": "", "thoughtSignature": "c2ln"}]),
    "a call without an id": ("gemini", [part_call(thoughtSignature="c2ln"), part_call()]),
    "a signature on each of two calls": (
        "gemini",
        [part_call("call_1", thoughtSignature="czE="), part_call("call_2", thoughtSignature="czI=")],
    ),
    "code that was run": (
        "gemini",
        [
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            {"text": "1"},
        ],
    ),
    "reasoning text": (
        "openai_compatible",
        [{"role": "assistant", "content": "It rains.", "reasoning_content": "Hm."}],
    ),
    "reasoning blocks and signed calls": ("openai_compatible", PROVIDERS["openai_compatible"].reasoned),
    "reasoning within the content": (
        "openai_compatible",
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                    {"type": "text", "text": "It rains."},
                ],
            }
        ],
    ),
}


ASK = Message.user("Is it raining?")


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_goes_back_as_it_came(case, official_types):
    name, answer = ANSWERS[case]
    provider = PROVIDERS[name]
    _, response = await exchange(provider, [ASK], answer)
    results = [Message.tool_result(call.id, "It rains.") for call in response.tool_calls]
    body, after = await exchange(provider, [ASK, stored(response), *results, Message.user("Sure?")])
    assert list(provider.turns(body)) == [answer]
    assert after.warnings == []
    if name != "openai_compatible":  # whose reasoning fields are the servers' own
        assert official_types.problems_of(name, body) == []


@pytest.mark.parametrize("to", PROVIDERS)
@pytest.mark.parametrize("origin", PROVIDERS)
async def test_a_conversation_goes_on_with_another_provider_and_comes_back(origin, to, official_types):
    first, second = PROVIDERS[origin], PROVIDERS[to]
    if origin == to:  # another server of the same protocol
        second = replace(first, make=partial(first.make, name="elsewhere"))
    _, one = await exchange(first, [ASK])
    history = [ASK, stored(one), *RESULTS]
    body, two = await exchange(second, history)

    written = json.dumps(body)
    assert "SECRET" not in written
    for kept in ("I'll look.", "Oslo", "It rains.", "no such city"):
        assert kept in written
    assert codes(two) == [second.unread]
    assert official_types.problems_of(to, body) == []

    history = [*history, stored(two), *RESULTS]
    body, three = await exchange(first, history)
    own, foreign = first.turns(body)
    assert own == first.reasoned
    assert "SECRET" not in json.dumps(foreign)
    assert codes(three) == [first.unread]


IMAGE_RESULTS: dict[str, list[_Json]] = {
    "anthropic": [
        {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": [
                {"type": "text", "text": "The sky:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}},
            ],
        },
    ],
    "gemini": [
        {
            "functionResponse": {
                "id": "call_1",
                "name": "weather",
                "response": {"result": "The sky:"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG_BASE64}}],
            }
        },
    ],
    "openai": [
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "The sky:"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_BASE64}", "detail": "auto"},
            ],
        },
    ],
    "openai_compatible": [
        {"role": "tool", "tool_call_id": "call_1", "content": "The sky:"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The image of tool result call_1:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_BASE64}"}},
            ],
        },
    ],
}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_result_with_an_image(name):
    _, response = await exchange(PROVIDERS[name], [ASK])
    result = Message.tool_result("call_1", "The sky:", image_data=PNG, image_media_type="image/png")
    history = [ASK, stored(response), Message.model_validate_json(result.model_dump_json()), RESULTS[1]]
    body, _ = await exchange(PROVIDERS[name], history)
    objects = list(objects_of(body))
    assert [wanted for wanted in IMAGE_RESULTS[name] if wanted not in objects] == []


def objects_of(value: Any) -> Iterator[_Json]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_of(item)
