"""What is set up wrongly is said in our own errors, with the place to look at, whatever library trips over it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import unified_llm
from unified_llm import (
    AnthropicAdapter,
    Client,
    ConfigurationError,
    GeminiAdapter,
    InvalidRequestError,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    Request,
)

ASK = Request(model="m", messages=[Message.user("hi")])
ADAPTERS: dict[str, Callable[..., ProviderAdapter]] = {
    "openai": OpenAIAdapter,
    "anthropic": AnthropicAdapter,
    "gemini": GeminiAdapter,
    "openai_compatible": OpenAICompatibleAdapter,
}
# An empty answer in each protocol.
EMPTY: dict[str, dict[str, Any]] = {
    "openai": {"output": None, "status": "completed"},
    "anthropic": {"content": None, "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]},
    "openai_compatible": {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]},
}
every_adapter = pytest.mark.parametrize("name", ADAPTERS)


async def ask(name: str, request: Request = ASK, *, streamed: bool = False, **options: Any) -> None:
    adapter = ADAPTERS[name](api_key="key", **options)
    async with Client({name: adapter}, name) as client:
        if streamed:
            async with client.stream(request) as events:
                async for _ in events:
                    pass
        else:
            await client.complete(request)


def answering(name: str, sent: list[httpx.Request]) -> httpx.AsyncClient:
    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json=EMPTY[name])

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://127.0.0.1:port", "http://[::1", "127.0.0.1:9", "ftp://x"]
)
@every_adapter
async def test_a_wrong_address_is_named(name, url, streamed):
    with pytest.raises(ConfigurationError, match="base_url"):
        await ask(name, base_url=url, streamed=streamed)


@pytest.mark.parametrize("proxy", ["nonsense://127.0.0.1", "http://127.0.0.1:port"])
@every_adapter
async def test_a_wrong_proxy_is_told(name, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(ConfigurationError, match="proxies"):
        await ask(name, base_url="http://llm.example:9")


@pytest.mark.parametrize("timeout", [float("nan"), "5", [1]])
@every_adapter
def test_a_timeout_that_is_no_number_is_refused(name, timeout):
    with pytest.raises(ConfigurationError, match="timeout"):
        ADAPTERS[name](api_key="key", base_url="http://127.0.0.1:9", timeout=timeout)


@pytest.mark.parametrize(
    "options", [5, "text", ["a"], {"extra_headers": 5}, {"extra_headers": {"x": 5}}, {"extra_headers": ["x"]}]
)
@every_adapter
async def test_options_of_a_wrong_shape_are_named(name, options):
    sent: list[httpx.Request] = []
    request = ASK.model_copy(update={"provider_options": {name: options}})
    async with answering(name, sent) as client:
        with pytest.raises(ConfigurationError, match="provider_options"):
            await ask(name, request, base_url="http://llm.example", http_client=client)
    assert sent == []


@pytest.mark.parametrize("streamed", [False, True])
@every_adapter
async def test_a_request_without_messages_is_refused(name, streamed):
    sent: list[httpx.Request] = []
    request = ASK.model_copy(update={"messages": []})
    async with answering(name, sent) as client:
        with pytest.raises(InvalidRequestError, match="message"):
            await ask(name, request, base_url="http://llm.example", http_client=client, streamed=streamed)
    assert sent == []


@pytest.mark.parametrize("names", [5, [5], [None], {"a": 1}])
async def test_beta_features_that_are_no_names_are_refused(names):
    request = ASK.model_copy(update={"provider_options": {"anthropic": {"beta_headers": names}}})
    with pytest.raises(ConfigurationError, match="beta_headers"):
        await ask("anthropic", request, base_url="http://127.0.0.1:9")


@every_adapter
async def test_a_model_that_no_address_can_hold_is_sent_as_well_as_can_be(name):
    sent: list[httpx.Request] = []
    async with answering(name, sent) as client:
        await ask(name, ASK.model_copy(update={"model": "m\ud800"}), base_url="http://llm.example", http_client=client)
    assert len(sent) == 1


@every_adapter
async def test_an_empty_list_may_be_written_as_null(name):
    sent: list[httpx.Request] = []
    async with answering(name, sent) as client:
        adapter = ADAPTERS[name](api_key="key", base_url="http://llm.example", http_client=client)
        response = await adapter.complete(ASK)
    assert (response.message.content, response.finish_reason.reason) == ([], "stop")


def test_white_space_around_a_variable_is_no_part_of_it():
    environ = {
        "ANTHROPIC_API_KEY": "key\n",
        "OPENAI_API_KEY": " \n",
        "OPENAI_COMPATIBLE_BASE_URL": " http://llm.example ",
    }
    client = Client.from_env(environ)
    assert list(client.providers) == ["anthropic", "openai_compatible"]


async def test_an_unknown_argument_is_named_beside_those_that_there_are():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'max_output_tokens'; .*max_tokens"):
        await unified_llm.generate("m", prompt="x", max_output_tokens=3)
