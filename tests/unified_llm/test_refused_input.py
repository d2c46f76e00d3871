"""Bad input is refused before anything is sent, in our own errors, with the name of the field at fault."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from unified_llm import (
    AdapterTimeout,
    Client,
    ConfigurationError,
    ImageData,
    InvalidRequestError,
    Message,
    OpenAICompatibleAdapter,
    Request,
    ResponseFormat,
    RetryPolicy,
    TimeoutConfig,
    Tool,
    ToolChoice,
    generate,
    generate_object,
    stream,
    stream_object,
)
from unified_llm.testing import ScriptedAdapter

NAN, INFINITY = float("nan"), float("inf")
WEATHER = Tool(name="weather", description="The weather.")
ASK = {"model": "m", "messages": [Message.user("hi")]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}

# What no provider takes, and the field that is named.
REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, "model"),
    ({"model": None}, "model"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "role"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"temperature": NAN}, "temperature"),
    ({"temperature": INFINITY}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_p": NAN}, "top_p"),
    ({"top_p": -0.1}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"stop_sequences": [5]}, "stop_sequences"),
    ({"metadata": {"a": 5}}, "metadata"),
    ({"provider_options": ["a"]}, "provider_options"),
    ({"tools": [WEATHER, WEATHER]}, "tools"),
    ({"tools": [WEATHER], "tool_choice": ToolChoice(mode="named", tool_name="wether")}, "tool_choice"),
    ({"tool_choice": ToolChoice(mode="named", tool_name="weather")}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"response_format": {"type": "json_schema"}}, "json_schema"),
]
# What only the functions take.
ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "a", "messages": [Message.user("b")]}, "prompt and messages"),
    ({"messages": None}, "prompt and messages"),
    ({"messages": []}, "messages"),
    ({"messages": 5}, "messages"),
    ({"prompt": " ", "messages": None}, "prompt"),
    ({"prompt": 5, "messages": None}, "prompt"),
    ({"system": 5}, "system"),
    ({"tools": 5}, "tools"),
    ({"tools": [{"name": "weather"}]}, "tools"),
    ({"stop_when": 5}, "stop_when"),
    ({"repair_tool_call": 5}, "repair_tool_call"),
    ({"should_retry": 5}, "should_retry"),
    ({"max_tool_rounds": "1"}, "max_tool_rounds"),
    ({"max_tool_rounds": -1}, "max_tool_rounds"),
    ({"max_retries": -1}, "max_retries"),
    ({"max_retries": None}, "max_retries"),
    ({"retry_policy": 5}, "retry_policy"),
    ({"timeout": NAN}, "timeout"),
    ({"timeout": "soon"}, "timeout"),
    ({"abort_signal": 5}, "abort_signal"),
    ({"client": 5}, "client"),
]


@pytest.mark.parametrize(("fields", "name"), REQUESTS)
def test_a_request_that_no_provider_takes_names_its_field(fields, name):
    with pytest.raises(ValidationError, match=name):
        Request(**{**ASK, **fields})


@pytest.mark.parametrize(("fields", "name"), [*REQUESTS, *ARGUMENTS])
@pytest.mark.parametrize("call", [generate, stream, generate_object, stream_object], ids=lambda call: call.__name__)
async def test_the_functions_raise_nothing_but_our_own_errors(call, fields, name):
    adapter = ScriptedAdapter()
    options: dict[str, Any] = {**ASK, "client": Client({"s": adapter}, "s"), **fields}
    if "object" in call.__name__:
        options["schema"] = SCHEMA
    with pytest.raises(ConfigurationError) as caught:
        await call(**options)  # awaiting a stream does nothing: calling it has refused the arguments already
    assert name in caught.value.message or "response_format" in fields
    assert not caught.value.retryable
    assert adapter.requests == []


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Tool(name="a b", description=""), "name"),
        (lambda: Tool(name="", description=""), "name"),
        (lambda: Tool(name="a", description="", parameters={"type": "array"}), "parameters"),
        (lambda: ToolChoice(mode="named"), "tool_name"),
        (lambda: ToolChoice(mode="auto", tool_name="a"), "tool_name"),
        (lambda: TimeoutConfig(per_step=NAN), "per_step"),
        (lambda: AdapterTimeout(connect=NAN), "connect"),
        (lambda: ImageData(), "url and data"),
        (lambda: ImageData(url="https://x.test/a.png", data=b"a"), "url and data"),
        (lambda: ResponseFormat(type="json_schema"), "json_schema"),
        (lambda: Message(role="robot", content="hi"), "role"),
        (lambda: Message.user(5), "content"),
        (lambda: Request(**ASK, temprature=1), "temprature"),
    ],
)
def test_a_record_that_makes_no_sense_cannot_be_made(make: Callable[[], Any], name):
    with pytest.raises((ValueError, TypeError), match=name):
        make()


def test_a_tool_of_a_providers_own_can_be_chosen():
    own = {"openai": {"tools": [{"type": "custom", "name": "grammar"}]}}
    choice = ToolChoice(mode="named", tool_name="grammar")
    assert Request(**ASK, tools=[WEATHER], tool_choice=choice, provider_options=own).tool_choice == choice


@pytest.mark.parametrize("request_", [None, "hi", {"model": "m"}])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_takes_requests_only(streamed, request_):
    client = Client({"s": ScriptedAdapter()}, "s")
    with pytest.raises(ConfigurationError, match="request must be a Request"):
        await (client.stream(request_).aclose() if streamed else client.complete(request_))


def test_a_client_takes_adapters_only():
    with pytest.raises(ConfigurationError, match=r"providers\['s'\] must be an adapter"):
        Client({"s": object()})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "fields", [{"max_retries": "2"}, {"base_delay": NAN}, {"max_delay": -1}, {"max_delay": None}, {"on_retry": 5}]
)
def test_a_retry_policy_that_makes_no_sense_cannot_be_made(fields):
    with pytest.raises(ConfigurationError, match=f"RetryPolicy.{next(iter(fields))}"):
        RetryPolicy(**fields)


async def test_a_choice_needs_tools_in_chat_completions_too():
    client = Client({"s": OpenAICompatibleAdapter(base_url="http://127.0.0.1:9", name="s")}, "s")
    with pytest.raises(InvalidRequestError, match="needs tools"):
        await client.complete(Request(**ASK, tool_choice="required"))
