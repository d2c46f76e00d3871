"""The adapters against servers that others wrote, who read the providers' documentation for themselves.

llmock (PyPI) plays providers and scripts their faults. aimock (npm, Node 20.15 or newer) plays all four protocols too;
it runs where it is installed, which `npm install --prefix .node @copilotkit/aimock@1.43.0` does.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from conformance import adapter as suite
from unified_llm import (
    AdapterTimeout,
    AnthropicAdapter,
    AuthenticationError,
    Client,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    RateLimitError,
    Request,
    RequestTimeoutError,
    RetryPolicy,
    SDKError,
    ServerError,
    StreamError,
    StreamEventType,
    Tool,
    generate,
    generate_object,
    stream,
)

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.xdist_group("foreign servers")
Check = Callable[[ProviderAdapter, Request], Awaitable[None]]
PROTOCOLS = ("openai", "openai_compatible", "anthropic", "gemini")
# Neither server gives answers of Gemini an id.
CASES = [
    pytest.param(protocol, check, id=f"{protocol}-{check.__name__}")
    for protocol in PROTOCOLS
    for check in suite.ALL_ANSWERING
    if (protocol, check) != ("gemini", suite.check_identity)
]

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WORDS = "one two three four five six seven eight nine ten"
WEATHER = Tool(name="weather", description="The weather in a city.", parameters=CITY)


def ask(text: str = "hi", **fields: Any) -> Request:
    return Request(model="some-model", messages=[Message.user(text)], **fields)


def adapter_for(
    protocol: str, url: str, *, anthropic: str = "", gemini: str = "", timeout: AdapterTimeout | None = None
) -> Any:
    match protocol:
        case "openai":
            return OpenAIAdapter("key", f"{url}/v1", timeout=timeout)
        case "openai_compatible":
            return OpenAICompatibleAdapter("key", f"{url}/v1", timeout=timeout)
        case "anthropic":
            return AnthropicAdapter("key", f"{url}{anthropic}", timeout=timeout)
        case _:
            return GeminiAdapter("key", f"{url}{gemini}", timeout=timeout)


# llmock


def control(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(call, timeout=10) as answer:
        return json.load(answer)


@dataclass(frozen=True)
class Llmock:
    url: str

    def script(self, *behaviors: dict[str, Any]) -> None:
        control(f"{self.url}/_llmock/scenario", {"behaviors": behaviors})

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = control(f"{self.url}/_llmock/requests")["requests"]
        return found

    def faults_found(self) -> list[str]:
        """What the server holds against the client it saw."""
        return [finding["code"] for finding in control(f"{self.url}/_llmock/verdict")["findings"]]

    def adapter(self, protocol: str, timeout: AdapterTimeout | None = None) -> Any:
        return adapter_for(protocol, self.url, anthropic="/anthropic", gemini="/gemini", timeout=timeout)


@pytest.fixture(scope="module")
def llmock_url() -> Iterator[str]:
    program = Path(__file__).with_name("serve_llmock.py")
    # Without PYTHONWARNINGS: its libraries may be behind its Python.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://"), f"llmock did not start: {url!r}"
        yield url
        server.kill()


@pytest.fixture
def llmock(llmock_url: str) -> Llmock:
    control(f"{llmock_url}/_llmock/reset", {})
    return Llmock(llmock_url)


@pytest.fixture
async def adapter(protocol: str, llmock: Llmock) -> AsyncIterator[Any]:
    found = llmock.adapter(protocol, AdapterTimeout(stream_read=0.5))
    yield found
    await found.close()


@pytest.mark.parametrize(("protocol", "check"), CASES)
async def test_llmock_is_understood(adapter: Any, check: Check) -> None:
    await check(adapter, ask())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_llmock_calls_tools(adapter: Any, llmock: Llmock) -> None:
    await suite.check_tool_calls(adapter, ask("How is the weather?", tools=[WEATHER]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tool_loop_on_llmock_ends_with_text(adapter: Any, llmock: Llmock) -> None:
    cities: list[str] = []
    tool = WEATHER.model_copy(update={"execute": lambda city: cities.append(city) or f"18 degrees in {city}"})
    llmock.script({"type": "reply", "tool_calls": [{"name": "weather", "arguments": {"city": name}} for name in "AB"]})
    client = Client({"it": adapter}, "it")
    result = await generate("some-model", "How is the weather?", tools=[tool], client=client)
    assert sorted(cities) == ["A", "B"]
    assert [step.finish_reason.reason for step in result.steps] == ["tool_calls", "stop"]
    assert result.text


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_llmock_fills_a_schema(adapter: Any, llmock: Llmock) -> None:
    if adapter.name == "anthropic":
        llmock.script({"type": "reply", "text": '{"city": "Paris"}'})  # it doesn't know this provider's parameter
    result = await generate_object("some-model", "Where?", schema=CITY, client=Client({"it": adapter}, "it"))
    assert isinstance(result.output["city"], str)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, AuthenticationError), (429, RateLimitError), (500, ServerError), (529, ServerError)]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_llmock_refuses(adapter: Any, llmock: Llmock, status: int, kind: type[SDKError]) -> None:
    llmock.script({"type": "fail", "status": status, "times": 2})
    await suite.check_failure(adapter, ask(), kind)


async def test_an_overload_is_waited_out_for_as_long_as_the_server_says(llmock: Llmock) -> None:
    waits: dict[str, float] = {}

    async def call(protocol: str) -> None:
        adapter = llmock.adapter(protocol)
        policy = RetryPolicy(on_retry=lambda error, attempt, delay: waits.update({protocol: delay}))
        async with Client({"it": adapter}, "it") as client:
            result = await generate("some-model", f"hi {protocol}", retry_policy=policy, client=client)
            assert result.text

    llmock.script({"type": "fail", "status": 529, "retry_after": 1, "times": len(PROTOCOLS)})
    async with anyio.create_task_group() as tasks:
        for protocol in PROTOCOLS:
            tasks.start_soon(call, protocol)
    assert waits == dict.fromkeys(PROTOCOLS, 1.0)
    assert len(llmock.requests()) == 2 * len(PROTOCOLS)
    assert llmock.faults_found() == []


@pytest.mark.parametrize("fault", ["disconnect", "truncate", "malformed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_breaks_after_text_is_an_error_and_not_retried(
    adapter: Any, llmock: Llmock, fault: str
) -> None:
    llmock.script(
        {"type": "reply", "text": WORDS},
        {"type": "stream_fault", "kind": fault, "after_chunks": 6},
    )
    result = stream("some-model", "hi", client=Client({"it": adapter}, "it"))
    text = ""
    failure = None
    try:
        async for event in result:
            text += event.delta or "" if event.type == StreamEventType.TEXT_DELTA else ""
    except StreamError as error:
        failure = error
    assert failure is not None
    assert WORDS.startswith(text)
    assert text
    assert len(llmock.requests()) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_breaks_before_its_text_is_retried_unseen(adapter: Any, llmock: Llmock) -> None:
    llmock.script({"type": "stream_fault", "kind": "disconnect", "after_chunks": 0})
    policy = RetryPolicy(base_delay=0.01)
    result = stream("some-model", "hi", client=Client({"it": adapter}, "it"), retry_policy=policy)
    kinds = [event.type async for event in result]
    assert kinds.count(StreamEventType.STREAM_START) == 1
    assert (await result.response()).text
    assert len(llmock.requests()) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_stream_that_stalls_is_left(adapter: Any, llmock: Llmock) -> None:
    llmock.script({"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 10})
    with anyio.fail_after(5), pytest.raises(RequestTimeoutError):
        async for _ in adapter.stream(ask()):
            pass


# aimock

FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "think"}, "response": {"content": "Four.", "reasoning": "Two and two."}},
        {
            "match": {"userMessage": "weather", "hasToolResult": False},
            "response": {
                "toolCalls": [{"name": "weather", "arguments": {"city": city}} for city in ("Paris", "Rome")],
            },
        },
        {"match": {"userMessage": "weather", "hasToolResult": True}, "response": {"content": "Warm in both."}},
        {"match": {"userMessage": "object"}, "response": {"content": '{"city": "Paris"}'}},
        {"match": {"userMessage": "busy"}, "response": {"error": {"message": "slow down"}, "status": 429}},
        {"match": {"userMessage": "hi"}, "response": {"content": "Hello, world. é你🙂"}},
    ]
}


def find_aimock() -> Path:
    """The package's folder: what AIMOCK names, else `.node`; skips where it, or a Node to run it, is missing."""
    folder = Path(os.environ.get("AIMOCK", ROOT / ".node/node_modules/@copilotkit/aimock"))
    if not (folder / "dist/cli.js").is_file():
        pytest.skip(
            f"no aimock in {folder} (npm install --prefix .node @copilotkit/aimock@1.43.0; AIMOCK names another)"
        )
    if shutil.which("node") is None:
        pytest.skip("aimock needs Node, which is not installed")
    return folder


@pytest.fixture(scope="module")
def aimock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = find_aimock() / "dist/cli.js"
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES), encoding="utf-8")
    with subprocess.Popen(
        ["node", str(program), "--port", "0", "--fixtures", str(fixtures), "--strict"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        lines: list[str] = []
        for line in server.stdout:
            lines.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                break
        else:
            pytest.fail(f"aimock did not start: {''.join(lines)}")
        yield found[1]
        server.kill()


@pytest.fixture
async def on_aimock(protocol: str, aimock_url: str) -> AsyncIterator[Any]:
    found = adapter_for(protocol, aimock_url)
    yield found
    await found.close()


@pytest.mark.parametrize(("protocol", "check"), CASES)
async def test_aimock_is_understood(on_aimock: Any, check: Check) -> None:
    await check(on_aimock, ask())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_says_what_it_was_told_to(on_aimock: Any) -> None:
    assert (await on_aimock.complete(ask())).text == "Hello, world. é你🙂"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_calls_tools(on_aimock: Any) -> None:
    await suite.check_tool_calls(on_aimock, ask("weather?", tools=[WEATHER]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tool_loop_on_aimock_ends_with_text(on_aimock: Any) -> None:
    tool = WEATHER.model_copy(update={"execute": lambda city: f"18 degrees in {city}"})
    result = await generate("some-model", "weather?", tools=[tool], client=Client({"it": on_aimock}, "it"))
    assert [call.arguments for call in result.steps[0].tool_calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert result.text == "Warm in both."


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_thinks(on_aimock: Any) -> None:
    request = ask("think", reasoning_effort="low")
    await suite.check_stream(on_aimock, request)
    response = await on_aimock.complete(request)
    assert (response.reasoning, response.text) == ("Two and two.", "Four.")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_fills_a_schema(on_aimock: Any) -> None:
    client = Client({"it": on_aimock}, "it")
    assert (await generate_object("some-model", "object", schema=CITY, client=client)).output == {"city": "Paris"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aimock_refuses(on_aimock: Any) -> None:
    await suite.check_failure(on_aimock, ask("busy"), RateLimitError)
