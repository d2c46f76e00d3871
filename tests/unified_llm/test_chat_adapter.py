"""OpenAICompatibleAdapter over HTTP: addresses, keys, headers, failures."""

import httpx
import pytest
from unified_llm.providers.openai_compatible import OpenAICompatibleAdapter
from unified_llm.spec.adapter import ProviderAdapter
from unified_llm.spec.errors import AuthenticationError, ConfigurationError, RateLimitError, StreamError
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

ANSWER = {"id": "1", "model": "m", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
HEADERS = {"x-ratelimit-remaining-requests": "7"}
STREAM = (
    b'data:{"id":"1","choices":[{"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata:[DONE]\n\n'
)


def ask(**fields):
    return Request(model="m", messages=[Message.user("Hi")], **fields)


class Server:
    """Answers every request the same, and keeps what it was sent."""

    def __init__(self, status=200, headers=HEADERS, **content):
        self.requests = []
        self.respond = lambda: httpx.Response(status, headers=headers, **content)
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))

    def answer(self, request):
        self.requests.append(request)
        return self.respond()

    def adapter(self, *args, base_url="http://server/v1", **fields):
        return OpenAICompatibleAdapter(*args, base_url=base_url, http_client=self.client, **fields)


async def test_a_call():
    server = Server(json=ANSWER)
    adapter = server.adapter("secret", default_headers={"X-Title": "t"}, name="groq")
    assert isinstance(adapter, ProviderAdapter)
    response = await adapter.complete(
        ask(metadata={"a": "b"}, provider_options={"groq": {"extra_headers": {"x-o": "1"}}})
    )
    assert (response.text, response.provider, response.raw) == ("Hello", "groq", ANSWER)
    assert response.rate_limit.requests_remaining == 7
    assert [warning.code for warning in response.warnings] == ["metadata_dropped"]
    [request] = server.requests
    assert str(request.url) == "http://server/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer secret"
    assert (request.headers["x-title"], request.headers["x-o"]) == ("t", "1")
    await adapter.close()
    assert not server.client.is_closed
    await server.client.aclose()


async def test_a_stream_with_no_space_behind_the_colon():
    server = Server(content=STREAM)
    events = [event async for event in server.adapter().stream(ask(metadata={"a": "b"}))]
    assert [warning.code for warning in events[0].warnings] == ["metadata_dropped"]
    assert events[-1].response.text == "hi"
    assert events[-1].response.rate_limit.requests_remaining == 7
    await server.client.aclose()


async def test_a_server_that_answers_a_stream_with_a_whole_answer():
    server = Server(json=ANSWER)
    events = [event async for event in server.adapter().stream(ask())]
    assert events[-1].response.text == "Hello"
    await server.client.aclose()


async def test_no_key_is_sent_where_none_is_given_and_a_query_stays():
    server = Server(json=ANSWER)
    url = "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
    adapter = server.adapter(base_url=url, default_headers={"api-key": "k"})
    await adapter.complete(ask())
    [request] = server.requests
    assert str(request.url) == (
        "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
    )
    assert "authorization" not in request.headers
    assert request.headers["api-key"] == "k"
    await server.client.aclose()


def test_a_base_url_is_needed():
    with pytest.raises(ConfigurationError, match="base_url"):
        OpenAICompatibleAdapter("key")


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (Server(401, json={"error": {"message": "bad key"}}), AuthenticationError),
        (Server(json={"error": {"message": "slow", "code": 429}}), RateLimitError),
        (Server(content=b'data: {"error":{"message":"slow","code":429}}\n\n'), RateLimitError),
        (Server(content=STREAM.partition(b"data: {")[0]), StreamError),
    ],
)
async def test_a_failure_is_one_event_and_then_raised(server, error):
    events = server.adapter().stream(ask())
    event = await anext(events)
    while event.type != StreamEventType.ERROR:
        event = await anext(events)
    with pytest.raises(error) as raised:
        await anext(events)
    assert event.error is raised.value
    assert raised.value.provider == "openai_compatible"
    await server.client.aclose()


def test_every_tool_choice_is_supported():
    adapter = Server().adapter()
    assert all(map(adapter.supports_tool_choice, ("auto", "none", "required", "named")))
    assert not adapter.supports_tool_choice("any")
