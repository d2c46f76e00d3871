"""The parity matrix (section 8.9): each row on each protocol, from what goes out to what comes back.

The other end answers in the provider's own format, and every request must be one that the provider's SDK takes.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from unified_llm import (
    AuthenticationError,
    ContentKind,
    ContentPart,
    ImageData,
    Message,
    RateLimitError,
    RetryPolicy,
    StreamEventType,
    Tool,
    generate,
    generate_object,
    stream,
)

_spec = importlib.util.spec_from_file_location("native_wire", Path(__file__).with_name("native_wire.py"))
assert _spec is not None
assert _spec.loader is not None
wire: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = wire
_spec.loader.exec_module(wire)
Say, Refuse = wire.Say, wire.Refuse

every_provider = pytest.mark.parametrize("provider", wire.PROVIDERS)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
PNG_BASE64 = "iVBORw0KGgoAAAAAAAAAAA=="
ADDRESS = "https://images.test/cat.png"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PATHS = {
    "openai": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/{model}:generateContent",
    "openai_compatible": "/v1/chat/completions",
}
KEYS = {
    "openai": ("authorization", "Bearer secret"),
    "anthropic": ("x-api-key", "secret"),
    "gemini": ("x-goog-api-key", "secret"),
    "openai_compatible": ("authorization", "Bearer secret"),
}


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def serve(request: pytest.FixtureRequest, provider: str, official_types: Any) -> Iterator[Any]:
    """Makes servers, seen through each HTTP library.

    In the end, everything they were sent must be valid to the provider's own SDK.
    """
    servers: list[Any] = []

    def make(*answers: Any) -> Any:
        servers.append(wire.NativeServer(provider, *answers, library=request.param))
        return servers[-1]

    yield make
    for server in servers:
        for sent in server.sent:
            body = {name: value for name, value in sent.body.items() if name != "stream"}
            assert official_types.problems_of(provider, body) == []


def picture(**fields: Any) -> list[Message]:
    see = ContentPart(kind=ContentKind.TEXT, text="What do you see?")
    return [Message.user([see, ContentPart(kind=ContentKind.IMAGE, image=ImageData(**fields))])]


def weather_tool(cities: list[str] | None = None) -> Tool:
    def weather(city: str) -> str:
        if cities is not None:
            cities.append(city)
        return f"18 degrees in {city}"

    return Tool(name="weather", description="The weather in a city.", parameters=CITY, execute=weather)


def results_in(provider: str, body: dict[str, Any]) -> list[Any]:
    """The tool results of a request, in their order."""
    match provider:
        case "openai":
            return [item["output"] for item in body["input"] if item["type"] == "function_call_output"]
        case "anthropic":
            blocks = [block for turn in body["messages"] for block in turn["content"] if turn["role"] == "user"]
            return [block["content"] for block in blocks if block["type"] == "tool_result"]
        case "gemini":
            parts = [part for turn in body["contents"] for part in turn["parts"]]
            return [part["functionResponse"]["response"]["result"] for part in parts if "functionResponse" in part]
        case _:
            return [message["content"] for message in body["messages"] if message["role"] == "tool"]


@every_provider
async def test_row_1_simple_text_generation(provider, serve):
    server = serve(Say("Hello there."))
    model = wire.model_of(provider)
    result = await generate(model, "Say hello.", client=server.client())
    assert (result.text, result.finish_reason.reason, result.response.provider) == ("Hello there.", "stop", provider)
    [sent] = server.sent
    assert sent.path == PATHS[provider].format(model=model)
    name, value = KEYS[provider]
    assert sent.headers[name] == value
    assert sent.holds(text="Say hello.") or sent.holds(role="user", content="Say hello.")
    assert not sent.is_stream


@every_provider
async def test_row_2_streaming_text_generation(provider, serve):
    server = serve(Say("Hello there, world."))
    result = stream(wire.model_of(provider), "Say hello.", client=server.client())
    events = [event async for event in result]
    assert [event.type for event in events[:2]] == [StreamEventType.STREAM_START, StreamEventType.TEXT_START]
    assert [event.type for event in events[-2:]] == [StreamEventType.TEXT_END, StreamEventType.FINISH]
    deltas = [event.delta for event in events if event.type == StreamEventType.TEXT_DELTA]
    assert len(deltas) > 1
    assert "".join(deltas) == (await result.response()).text == "Hello there, world."
    assert server.sent[0].is_stream


@every_provider
async def test_row_3_image_input_as_base64(provider, serve):
    server = serve(Say("A cat."))
    result = await generate(wire.model_of(provider), messages=picture(data=PNG), client=server.client())
    assert result.text == "A cat."
    data_url = f"data:image/png;base64,{PNG_BASE64}"
    wanted = {
        "openai": {"type": "input_image", "image_url": data_url},
        "anthropic": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64},
        "gemini": {"mimeType": "image/png", "data": PNG_BASE64},
        "openai_compatible": {"url": data_url},
    }
    assert server.sent[0].holds(**wanted[provider])


@every_provider
async def test_row_4_image_input_by_url(provider, serve):
    server = serve(Say("A cat."))
    result = await generate(wire.model_of(provider), messages=picture(url=ADDRESS), client=server.client())
    assert result.text == "A cat."
    wanted = {
        "openai": {"type": "input_image", "image_url": ADDRESS},
        "anthropic": {"type": "url", "url": ADDRESS},
        "gemini": {"mimeType": "image/png", "fileUri": ADDRESS},
        "openai_compatible": {"url": ADDRESS},
    }
    assert server.sent[0].holds(**wanted[provider])


@every_provider
async def test_row_5_single_tool_call_and_execution(provider, serve):
    server = serve(Say(calls=[("call_1", "weather", {"city": "Paris"})]), Say("18 degrees."))
    cities: list[str] = []
    tools = [weather_tool(cities)]
    result = await generate(wire.model_of(provider), "Weather in Paris?", tools=tools, client=server.client())
    assert (result.text, cities, len(result.steps)) == ("18 degrees.", ["Paris"], 2)
    first, second = server.sent
    assert first.holds(name="weather", description="The weather in a city.")
    assert results_in(provider, first.body) == []
    assert results_in(provider, second.body) == ["18 degrees in Paris"]
    named = {"openai": "call_id", "anthropic": "tool_use_id", "gemini": "id", "openai_compatible": "tool_call_id"}
    assert second.holds(**{named[provider]: "call_1"})


@every_provider
async def test_row_6_multiple_parallel_tool_calls(provider, serve):
    names = ("Paris", "Rome", "Oslo")
    server = serve(Say(calls=[(f"call_{name}", "weather", {"city": name}) for name in names]), Say("All fine."))
    running: list[str] = []
    all_run = anyio.Event()

    async def weather(city: str) -> str:
        running.append(city)
        if len(running) == len(names):
            all_run.set()
        with anyio.fail_after(5):
            await all_run.wait()  # only possible if they run together
        return f"fine in {city}"

    tools = [weather_tool().model_copy(update={"execute": weather})]
    result = await generate(wire.model_of(provider), "Weather?", tools=tools, client=server.client())
    assert result.text == "All fine."
    assert len(server.sent) == 2
    assert results_in(provider, server.sent[1].body) == [f"fine in {name}" for name in names]


@every_provider
async def test_row_7_tool_loop_of_three_rounds(provider, serve):
    names = ("Paris", "Rome", "Oslo")
    rounds = [Say(calls=[(f"call_{name}", "weather", {"city": name})]) for name in names]
    server = serve(*rounds, Say("Done."))
    tools = [weather_tool()]
    result = await generate(
        wire.model_of(provider), "Weather, one by one?", tools=tools, max_tool_rounds=5, client=server.client()
    )
    assert (result.text, len(result.steps)) == ("Done.", 4)
    wanted = [f"18 degrees in {name}" for name in names]
    assert [results_in(provider, sent.body) for sent in server.sent] == [wanted[:count] for count in range(4)]
    assert result.total_usage.input_tokens == 4 * 100


@every_provider
async def test_row_8_streaming_with_tool_calls(provider, serve):
    calls = [("call_1", "weather", {"city": "Paris"}), ("call_2", "weather", {"city": "Rome"})]
    server = serve(Say("Let me see.", calls), Say("Fine."))
    result = stream(wire.model_of(provider), "Weather?", tools=[weather_tool()], client=server.client())
    events = [event async for event in result]
    starts = [event.tool_call.name for event in events if event.type == StreamEventType.TOOL_CALL_START]
    ends = [event.tool_call.arguments for event in events if event.type == StreamEventType.TOOL_CALL_END]
    assert (starts, ends) == (["weather", "weather"], [{"city": "Paris"}, {"city": "Rome"}])
    assert [event.type for event in events].count(StreamEventType.STEP_FINISH) == 1
    assert (await result.response()).text == "Fine."
    assert results_in(provider, server.sent[1].body) == ["18 degrees in Paris", "18 degrees in Rome"]


@every_provider
async def test_row_9_structured_output(provider, serve):
    server = serve(Say('{"city": "Paris"}'))
    result = await generate_object(wire.model_of(provider), "Which city?", schema=CITY, client=server.client())
    assert result.output == {"city": "Paris"}
    places = {
        "openai": lambda body: body["text"]["format"]["schema"],
        "anthropic": lambda body: body["output_config"]["format"]["schema"],
        "gemini": lambda body: body["generationConfig"]["responseJsonSchema"],
        "openai_compatible": lambda body: body["response_format"]["json_schema"]["schema"],
    }
    assert places[provider](server.sent[0].body)["properties"] == CITY["properties"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@every_provider
async def test_row_10_reasoning_is_reported(provider, streamed, serve):
    server = serve(Say("Four.", reasoning="Two and two make four.", output=20, thinking=12))
    ask: Any = {"reasoning_effort": "low", "client": server.client()}
    if streamed:
        response = await stream(wire.model_of(provider), "2 + 2?", **ask).response()
    else:
        response = (await generate(wire.model_of(provider), "2 + 2?", **ask)).response
    assert (response.text, response.reasoning) == ("Four.", "Two and two make four.")
    assert (response.usage.reasoning_tokens, response.usage.output_tokens) == (12, 20)
    [sent] = server.sent
    assert sent.holds(effort="low") or sent.holds(thinkingLevel="LOW") or sent.holds(reasoning_effort="low")


@every_provider
async def test_row_11_an_invalid_key_is_an_authentication_error(provider, serve):
    server = serve(Refuse(401))
    with pytest.raises(AuthenticationError) as caught:
        await generate(wire.model_of(provider), "Hello?", client=server.client())
    assert (caught.value.status_code, caught.value.provider) == (401, provider)
    assert not caught.value.retryable
    assert len(server.sent) == 1


@every_provider
async def test_row_12_a_rate_limit_is_waited_out_or_raised(provider, serve):
    slow = Refuse(429, {"retry-after": "0.01"})
    server = serve(slow, Say("Hello."))
    assert (await generate(wire.model_of(provider), "Hello?", client=server.client())).text == "Hello."
    assert len(server.sent) == 2

    server = serve(Refuse(429, {"retry-after": "7"}))
    with pytest.raises(RateLimitError) as caught:
        await generate(wire.model_of(provider), "Hello?", client=server.client(), retry_policy=RetryPolicy(max_delay=1))
    assert (caught.value.retry_after, caught.value.retryable) == (7, True)
    assert len(server.sent) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@every_provider
async def test_row_13_usage_is_accurate(provider, streamed, serve):
    server = serve(Say("Hello.", input=1234, output=56, cached=1000))
    if streamed:
        usage = (await stream(wire.model_of(provider), "Hello?", client=server.client()).response()).usage
    else:
        usage = (await generate(wire.model_of(provider), "Hello?", client=server.client())).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1234, 56, 1290)
    assert usage.cache_read_tokens == 1000
    assert usage.raw


class PromptCache:
    """A provider's prefix cache: what a request has in common with an earlier one, from the beginning, is cached.

    One character is one token. Anthropic remembers only prefixes that a request marks, the others all of it.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._known: list[list[str]] = []

    def answer(self, sent: Any) -> Any:
        items = list(self._items(sent.body))
        texts = [json.dumps(_unmarked(item), sort_keys=True) for item in items]
        common = max((_common(texts, known) for known in self._known), default=0)
        marked = [count for count, item in enumerate(items, 1) if "cache_control" in json.dumps(item)]
        kept = (marked or [0])[-1] if self._provider == "anthropic" else len(items)
        self._known.append(texts[:kept])
        written = _size(texts[common:kept]) if self._provider == "anthropic" else 0
        return Say("Yes. " * 30, input=_size(texts), cached=_size(texts[:common]), written=written)

    def _items(self, body: dict[str, Any]) -> Iterator[Any]:
        """What the prompt is made of, in the order that the provider caches it."""
        for name in ("tools", "instructions", "system", "systemInstruction", "input", "messages", "contents"):
            value = body.get(name, [])
            yield from value if isinstance(value, list) else [value]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _common(texts: list[str], known: list[str]) -> int:
    pairs = zip(texts, known, strict=False)
    return next((count for count, (left, right) in enumerate(pairs) if left != right), min(len(texts), len(known)))


def _size(texts: list[str]) -> int:
    return sum(map(len, texts))


@every_provider
async def test_row_14_prompt_caching(provider, serve):
    """And the last item of 8.6: from the fifth turn on more than half of the prompt comes from the cache."""
    cache = PromptCache(provider)
    server = serve(*[cache.answer] * 6)
    client = server.client()
    messages = [Message.system("You are brief. " * 40)]
    shares = []
    for turn in range(6):
        messages.append(Message.user(f"Question {turn}?"))
        result = await generate(wire.model_of(provider), messages=messages, tools=[weather_tool()], client=client)
        messages.append(result.response.message)
        shares.append((result.usage.cache_read_tokens or 0) / result.usage.input_tokens)
    assert shares[0] == 0
    assert min(shares[1:]) > 0
    assert min(shares[4:]) > 0.5
    if provider == "anthropic":
        assert result.usage.cache_write_tokens
        assert server.sent[0].headers["anthropic-beta"] == "prompt-caching-2024-07-31"


@every_provider
async def test_row_15_provider_options_pass_through(provider, serve):
    options: dict[str, dict[str, Any]] = {
        "openai": {"service_tier": "flex"},
        "anthropic": {"service_tier": "auto", "beta_headers": ["files-api-2025-04-14"]},
        "gemini": {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
        "openai_compatible": {"seed": 7},
    }
    server = serve(Say("Hello."))
    mine = {provider: options[provider], "someone_else": {"service_tier": "theirs"}}
    await generate(wire.model_of(provider), "Hello?", provider_options=mine, client=server.client())
    [sent] = server.sent
    wanted = {name: value for name, value in options[provider].items() if name != "beta_headers"}
    assert {name: sent.body.get(name) for name in wanted} == wanted
    assert "theirs" not in json.dumps(sent.body)
    if provider == "anthropic":
        assert "files-api-2025-04-14" in sent.headers["anthropic-beta"].split(",")
