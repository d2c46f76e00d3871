"""What adapters send is what the providers' own SDKs take for a valid request: a table of cases, for every provider."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from unified_llm import (
    AnthropicAdapter,
    AudioData,
    ContentKind,
    ContentPart,
    DocumentData,
    GeminiAdapter,
    ImageData,
    InvalidRequestError,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    Request,
    ResponseFormat,
    Role,
    SDKError,
    ThinkingData,
    Tool,
    ToolCallData,
    ToolChoice,
    ToolResultData,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
PNG_BASE64 = "iVBORw0KGgoAAAAAAAAAAA=="
PDF = b"%PDF-1.7\n"
SCHEMA = {
    "type": "object",
    "title": "Person",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SHAPES = {
    "type": "object",
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": False}},
    "properties": {
        "corner": {"$ref": "#/$defs/point"},
        "others": {"type": "array", "items": {"$ref": "#/properties/corner"}},
    },
    "additionalProperties": False,
}
TREE = {
    "type": "object",
    "properties": {"branches": {"type": "array", "items": {"$ref": "#"}}},
    "additionalProperties": False,
}
WEATHER = Tool(
    name="weather",
    description="Looks at the sky",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = Tool(name="clock", description="Tells the time")


@dataclass(frozen=True)
class Provider:
    """An adapter, models of different abilities, and the smallest answer that the adapter can read."""

    make: Callable[[httpx.AsyncClient], ProviderAdapter]
    models: tuple[str, ...]
    answer: dict[str, Any]


PROVIDERS = {
    "anthropic": Provider(
        lambda client: AnthropicAdapter(api_key="key", http_client=client),
        ("claude-opus-4-8", "claude-sonnet-4-5", "claude-3-5-haiku-latest"),
        {"id": "1", "model": "m", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"},
    ),
    "gemini": Provider(
        lambda client: GeminiAdapter(api_key="key", http_client=client),
        ("gemini-3-pro-preview", "gemini-2.5-flash", "gemini-2.0-flash"),
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]},
    ),
    "openai": Provider(
        lambda client: OpenAIAdapter(api_key="key", http_client=client),
        ("gpt-5.2", "gpt-4.1", "o4-mini"),
        {
            "id": "1",
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
        },
    ),
    "openai_compatible": Provider(
        lambda client: OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=client),
        ("some-model",),
        {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}]},
    ),
}


@dataclass(frozen=True)
class Case:
    """A request, what of it has to be seen in the JSON that is sent, and who can't send it.

    `dropped` and `refused` map a provider to the code of the warning that says so, and to a part of the error's
    message.
    """

    messages: list[Message] = field(default_factory=lambda: [Message.user("hi")])
    fields: Mapping[str, Any] = field(default_factory=dict)
    carries: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def said(*parts: ContentPart | str) -> list[Message]:
    return [Message.user([text(part) if isinstance(part, str) else part for part in parts])]


def text(value: str) -> ContentPart:
    return ContentPart(kind=ContentKind.TEXT, text=value)


def image(**fields: Any) -> ContentPart:
    return ContentPart(kind=ContentKind.IMAGE, image=ImageData(**fields))


def audio(**fields: Any) -> ContentPart:
    return ContentPart(kind=ContentKind.AUDIO, audio=AudioData(**fields))


def document(**fields: Any) -> ContentPart:
    return ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData(**fields))


def call(call_id: str, name: str = "weather", arguments: dict[str, Any] | str | None = None) -> ContentPart:
    arguments = {"city": "Oslo"} if arguments is None else arguments
    return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id=call_id, name=name, arguments=arguments))


def answered(*results: Message, calls: tuple[ContentPart, ...] | None = None) -> list[Message]:
    """A conversation in which `results` answer the model's calls."""
    made = calls or tuple(call(str(result.tool_call_id)) for result in results)
    return [Message.user("Is it raining?"), Message.assistant([text("I'll look."), *made]), *results]


RESULT = Message.tool_result("call_1", "It rains.")
TOOLS = {"tools": [WEATHER, CLOCK]}

CASES = {
    "text": Case(said("hi"), carries=('"hi"',)),
    "several texts": Case(said("one", "two"), carries=("one", "two")),
    "system": Case([Message.system("Be brief."), Message.user("hi")], carries=("Be brief.",)),
    "developer": Case([Message.developer("Be brief."), Message.user("hi")], carries=("Be brief.",)),
    "system and developer": Case(
        [Message.system("Be brief."), Message.developer("Be kind."), Message.user("hi")],
        carries=("Be brief.", "Be kind."),
    ),
    "instructions in the middle": Case(
        [Message.user("hi"), Message.assistant("Hello"), Message.developer("Be brief."), Message.user("Who?")],
        carries=("Be brief.",),
    ),
    "turns": Case([Message.user("a1"), Message.assistant("b1"), Message.user("a2")], carries=("a1", "b1", "a2")),
    "two turns of one speaker": Case([Message.user("a1"), Message.user("a2")], carries=("a1", "a2")),
    "an answer to be continued": Case([Message.user("Count"), Message.assistant("one, ")], carries=("one,",)),
    "a speaker's name": Case([Message(role=Role.USER, content=[text("hi")], name="ann")], carries=("hi",)),
    "a blank text": Case([Message.user("hi"), Message.assistant(" "), Message.user("Well?")], carries=("Well?",)),
    "half a surrogate pair": Case(said("ok \udcb0 end"), carries=("end",)),
    # Tools
    "tools": Case(fields=TOOLS, carries=("weather", "Looks at the sky", "city", "clock")),
    "tool choice auto": Case(fields={**TOOLS, "tool_choice": ToolChoice(mode="auto")}, carries=("weather",)),
    "tool choice none": Case(fields={**TOOLS, "tool_choice": ToolChoice(mode="none")}),
    "tool choice required": Case(fields={**TOOLS, "tool_choice": ToolChoice(mode="required")}, carries=("weather",)),
    "tool choice named": Case(
        fields={**TOOLS, "tool_choice": ToolChoice(mode="named", tool_name="clock")}, carries=("clock",)
    ),
    "tool choice none after calls": Case(
        answered(RESULT), {**TOOLS, "tool_choice": ToolChoice(mode="none")}, carries=("It rains.", "none")
    ),
    "a text as result": Case(answered(RESULT), TOOLS, carries=("It rains.", "Oslo")),
    "an object as result": Case(
        answered(Message.tool_result("call_1", {"rain": {"mm": 3}})), TOOLS, carries=("rain", "mm")
    ),
    "a list as result": Case(answered(Message.tool_result("call_1", ["rain", {"mm": 3}])), TOOLS, carries=("rain",)),
    "an empty result": Case(answered(Message.tool_result("call_1", "")), TOOLS, carries=("weather", "Oslo")),
    "an error as result": Case(
        answered(Message.tool_result("call_1", "no such city", is_error=True)), TOOLS, carries=("no such city",)
    ),
    "an image as result": Case(
        answered(Message.tool_result("call_1", "The sky:", image_data=PNG, image_media_type="image/png")),
        TOOLS,
        carries=("The sky:", PNG_BASE64),
    ),
    "nothing but an image as result": Case(
        answered(Message.tool_result("call_1", "", image_data=PNG)), TOOLS, carries=(PNG_BASE64,)
    ),
    "results of parallel calls": Case(
        answered(RESULT, Message.tool_result("call_2", "Dry."), Message.tool_result("call_3", "Snow.", is_error=True)),
        TOOLS,
        carries=("It rains.", "Dry.", "Snow."),
    ),
    "results in one message": Case(
        answered(
            Message(
                role=Role.TOOL,
                content=[
                    ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=ToolResultData(tool_call_id=id, content=id))
                    for id in ("call_1", "call_2")
                ],
            ),
            calls=(call("call_1"), call("call_2")),
        ),
        TOOLS,
        carries=("call_1", "call_2"),
    ),
    "words before the results": Case(
        [*answered(), Message.assistant([call("call_1")]), Message.user("Hurry"), RESULT], TOOLS, carries=("Hurry",)
    ),
    "a call without a result": Case(
        [Message.user("hi"), Message.assistant([call("call_1")]), Message.user("Well?")], TOOLS, carries=("Well?",)
    ),
    "a result without a call": Case([Message.user("hi"), RESULT, Message.user("Well?")], TOOLS, carries=("Well?",)),
    "a call without arguments": Case(
        answered(
            RESULT,
            calls=(ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text("call_1", "clock", "  ")),),
        ),
        TOOLS,
        carries=("clock",),
    ),
    "a call with broken arguments": Case(answered(RESULT, calls=(call("call_1", arguments='{"city": '),)), TOOLS),
    "another provider's ids": Case(
        answered(Message.tool_result("functions.weather:0|" + "x" * 90, "Dry.")), TOOLS, carries=("Dry.",)
    ),
    # Media
    "an image by address": Case(
        said("Look:", image(url="https://x.example/cat.png")), carries=("https://x.example/cat.png",)
    ),
    "an image as bytes": Case(said(image(data=PNG), "What is it?"), carries=(PNG_BASE64, "image/png")),
    "an image as a data address": Case(
        said(image(url=f"data:image/png;base64,{PNG_BASE64}"), "What is it?"), carries=(PNG_BASE64, "image/png")
    ),
    "an image in a file": Case(said(image(url="{folder}/cat.png"), "?"), carries=(PNG_BASE64, "image/png")),
    "an image in detail": Case(said(image(data=PNG, detail="low"), "?"), carries=(PNG_BASE64,)),
    "an image under a wrong name": Case(said(image(data=PNG, media_type="image/jpg"), "?"), carries=("image/jpeg",)),
    "a drawing": Case(
        said(image(data=b"<svg/>", media_type="image/svg+xml"), "?"),
        refused=dict.fromkeys(("openai", "anthropic", "gemini", "openai_compatible"), "image/svg"),
    ),
    "a document as bytes": Case(
        said(document(data=PDF, media_type="application/pdf", file_name="a.pdf"), "?"), carries=("JVBERi0xLjcK",)
    ),
    "a document by address": Case(
        said(document(url="https://x.example/a.pdf", media_type="application/pdf"), "?"),
        carries=("https://x.example/a.pdf",),
        refused={"openai_compatible": "documents only as bytes"},
    ),
    "a document in a file": Case(said(document(url="{folder}/a.pdf"), "?"), carries=("JVBERi0xLjcK",)),
    "a document of text": Case(said(document(data=b"# Title", media_type="text/markdown"), "?")),
    "audio as bytes": Case(
        said(audio(data=b"RIFF", media_type="audio/wav"), "What is said?"),
        carries=("UklGRg==",),
        refused={"openai": "no audio", "anthropic": "no audio"},
    ),
    "audio by address": Case(
        said(audio(url="https://x.example/a.mp3", media_type="audio/mpeg"), "What is said?"),
        carries=("https://x.example/a.mp3",),
        refused={
            "openai": "no audio",
            "anthropic": "no audio",
            "openai_compatible": "audio only as bytes",
        },
    ),
    # Reasoning
    "reasoning that another provider has signed": Case(
        [
            Message.user("hi"),
            Message.assistant(
                [
                    ContentPart(
                        kind=ContentKind.THINKING,
                        thinking=ThinkingData(text="Hm.", signature="c2ln"),
                        provider_metadata={"elsewhere": {}},
                    ),
                    text("Hello"),
                ]
            ),
            Message.user("Well?"),
        ],
        carries=("Hello", "Well?"),
        dropped={
            "anthropic": "foreign_thinking",
            "openai": "foreign_thinking",
            "gemini": "foreign_thinking",
            "openai_compatible": "reasoning_dropped",
        },
    ),
    **{
        f"reasoning effort {effort}": Case(fields={"reasoning_effort": effort})
        for effort in ("none", "minimal", "low", "medium", "high", "xhigh")
    },
    "reasoning effort with tools": Case(answered(RESULT), {**TOOLS, "reasoning_effort": "high"}),
    "reasoning effort with a forced tool": Case(
        fields={**TOOLS, "reasoning_effort": "high", "tool_choice": ToolChoice(mode="required")}
    ),
    # Shape of the answer
    "json": Case(said("Answer in JSON."), {"response_format": ResponseFormat(type="json")}),
    "a schema": Case(
        fields={"response_format": ResponseFormat(type="json_schema", json_schema=SCHEMA)}, carries=("age",)
    ),
    "a strict schema": Case(
        fields={"response_format": ResponseFormat(type="json_schema", json_schema=SCHEMA, strict=True)},
        carries=("age",),
    ),
    "a schema with tools": Case(
        fields={**TOOLS, "response_format": ResponseFormat(type="json_schema", json_schema=SCHEMA)},
        carries=("age", "weather"),
    ),
    "a schema with reasoning": Case(
        fields={
            "reasoning_effort": "high",
            "response_format": ResponseFormat(type="json_schema", json_schema=SCHEMA),
        },
        carries=("age",),
    ),
    "a schema with references": Case(
        fields={
            "tools": [Tool(name="draw", description="Draws", parameters=SHAPES)],
            "response_format": ResponseFormat(type="json_schema", json_schema=SHAPES),
        },
        carries=("draw", "corner"),
    ),
    "a schema that contains itself": Case(
        fields={
            "tools": [Tool(name="grow", description="Grows", parameters=TREE)],
            "response_format": ResponseFormat(type="json_schema", json_schema=TREE),
        },
        carries=("grow", "branches"),
    ),
    "text as format": Case(fields={"response_format": ResponseFormat(type="text")}),
    # Settings
    "sampling": Case(fields={"temperature": 0.5, "top_p": 0.9}),
    "a limit": Case(fields={"max_tokens": 2048}, carries=("2048",)),
    "stop sequences": Case(fields={"stop_sequences": ["END"]}, carries=("END",), dropped={"openai": "stop_dropped"}),
    "metadata": Case(
        fields={"metadata": {"job": "j-1"}},
        carries=("j-1",),
        dropped={
            "anthropic": "metadata_dropped",
            "gemini": "metadata_dropped",
            "openai_compatible": "metadata_dropped",
        },
    ),
    "a user's id": Case(
        fields={"metadata": {"user_id": "u-1"}},
        carries=("u-1",),
        dropped={"gemini": "metadata_dropped", "openai_compatible": "metadata_dropped"},
    ),
    # Options of the providers' own
    "caching": Case(
        [Message.system("Be brief."), *answered(RESULT), Message.user("And now?")],
        {
            **TOOLS,
            "provider_options": {
                "openai": {"prompt_cache_key": "own-1", "prompt_cache_retention": "24h"},
                "anthropic": {"cache_control": {"type": "ephemeral"}, "service_tier": "auto"},
                "gemini": {"cachedContent": "cachedContents/own-1"},
                "openai_compatible": {"prompt_cache_key": "own-1"},
            },
        },
    ),
    "options": Case(
        [Message.system("Be brief."), *answered(RESULT)],
        {
            **TOOLS,
            "provider_options": {
                "openai": {
                    "tools": [{"type": "web_search"}],
                    "text": {"verbosity": "low"},
                    "reasoning": {"summary": "auto"},
                    "store": True,
                    "truncation": "auto",
                },
                "anthropic": {
                    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
                    "thinking": {"type": "enabled", "budget_tokens": 2000},
                    "beta_headers": ["interleaved-thinking-2025-05-14"],
                },
                "gemini": {
                    "safetySettings": [
                        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"},
                    ],
                    "tools": [{"googleSearch": {}}],
                },
                "openai_compatible": {"seed": 7, "parallel_tool_calls": False},
            },
        },
    ),
}


async def sent(provider: Provider, request: Request) -> tuple[list[dict[str, Any]], set[str | None]]:
    """The bodies of an unstreamed and a streamed call, and the codes of the warnings."""
    bodies: list[dict[str, Any]] = []

    def answer(http_request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(http_request.content))
        return httpx.Response(200, json=provider.answer)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        adapter = provider.make(client)
        response = await adapter.complete(request)
        with suppress(SDKError):  # the answer is none to a streamed call
            async for _ in adapter.stream(request):
                pass
    return bodies, {warning.code for warning in response.warnings}


def in_folder(messages: list[Message], folder: Path) -> list[Message]:
    """The messages, with paths that lie in `folder`."""
    return [
        Message.model_validate_json(message.model_dump_json().replace("{folder}", str(folder))) for message in messages
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", CASES)
async def test_what_is_sent_is_valid(case, provider, official_types, tmp_path):
    (tmp_path / "cat.png").write_bytes(PNG)
    (tmp_path / "a.pdf").write_bytes(PDF)
    row = CASES[case]
    for model in PROVIDERS[provider].models:
        messages = in_folder(row.messages, tmp_path) if "file" in case else row.messages
        request = Request(model=model, messages=messages, **row.fields)
        if provider in row.refused:
            with pytest.raises(InvalidRequestError, match=row.refused[provider]):
                await sent(PROVIDERS[provider], request)
            continue
        bodies, warned = await sent(PROVIDERS[provider], request)
        for body in bodies:
            assert official_types.problems_of(provider, body) == [], model
        if provider in row.dropped:
            assert row.dropped[provider] in warned
        else:
            written = json.dumps(bodies[0], ensure_ascii=False).lower()
            assert [needle for needle in row.carries if needle.lower() not in written] == [], model


async def test_beta_features_are_valid_as_such(official_types):
    options = {
        "beta_headers": ["mcp-client-2025-11-20"],
        "mcp_servers": [{"type": "url", "name": "wiki", "url": "https://x.example/mcp"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "wiki"}],
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    }
    request = Request(model="claude-sonnet-4-5", messages=[Message.user("hi")], provider_options={"anthropic": options})
    (body, streamed), _ = await sent(PROVIDERS["anthropic"], request)
    assert official_types.problems_of("anthropic_beta", body) == []
    assert official_types.problems_of("anthropic_beta", streamed) == []
    assert official_types.problems_of("anthropic", body) != []


FREE = ("parameters", "parametersJsonSchema", "input_schema", "input", "args", "response")
"""Objects in a body that may hold anything."""


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Every object in a body whose fields the provider prescribes."""
    if isinstance(value, list):
        return [found for item in value for found in objects_of(item)]
    if not isinstance(value, dict):
        return []
    inner = [
        found
        for name, item in value.items()
        if isinstance(item, list) or name not in FREE
        for found in objects_of(item)
    ]
    return [value, *inner]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_check_notices_what_is_wrong_at_any_depth(provider, official_types):
    row = CASES["an image as result"]
    model = PROVIDERS[provider].models[0]
    (body, _), _ = await sent(PROVIDERS[provider], Request(model=model, messages=row.messages, **row.fields))
    found = objects_of(body)
    assert len(found) > 8
    for changed in found:
        changed["unheard_of"] = 1
        assert official_types.problems_of(provider, body) != [], changed
        del changed["unheard_of"]
    assert official_types.problems_of(provider, body) == []
    for name in ("messages", "input", "contents"):
        body.pop(name, None)
    assert official_types.problems_of(provider, {**body, "messages": "hi"}) != []


@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("anthropic", {"model": "m", "max_tokens": "10", "messages": [{"role": "user", "content": "hi"}]}),
        ("anthropic", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
        ("openai", {"model": "m", "input": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}),
        ("openai", {"model": "m", "input": "hi", "stream": 1}),
        ("openai_compatible", {"model": "m", "messages": [{"role": "tool", "content": "hi"}]}),
        ("openai_compatible", {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": True}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": 1}]}]}),
        (
            "gemini",
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"audioTimestamp": True}},
        ),
        ("gemini", {"contents": [{"role": "user", "parts": [{"inlineData": {"data": "?", "mimeType": "image/png"}}]}]}),
    ],
)
def test_the_check_converts_nothing(provider, body, official_types):
    assert len(official_types.problems_of(provider, body)) == 1
