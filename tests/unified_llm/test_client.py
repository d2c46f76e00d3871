"""Routing, life cycle and streams of the client (sections 2.2, 2.4 and 4.2)."""

import gc
from collections.abc import AsyncIterator, Iterator
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from unified_llm import (
    Client,
    ConfigurationError,
    Message,
    ProviderAdapter,
    Request,
    Response,
    ServerError,
    StreamEvent,
    StreamEventType,
    Tool,
    ToolChoice,
    UnsupportedToolChoiceError,
    get_default_client,
    set_default_client,
)
from unified_llm.providers.registry import PROVIDERS, ProviderEntry
from unified_llm.testing import ScriptedAdapter, events_of, respond

ASK = Request(model="m", messages=[Message.user("hi")])


@pytest.fixture
def no_default_client() -> Iterator[None]:
    set_default_client(None)
    yield
    set_default_client(None)


async def test_the_request_names_the_provider() -> None:
    with ScriptedAdapter("from a", name="a") as a, ScriptedAdapter("from b", name="b") as b:
        client = Client({"a": a, "b": b}, default_provider="a")
        assert (await client.complete(ASK.model_copy(update={"provider": "b"}))).text == "from b"
        assert (await client.complete(ASK)).text == "from a"
        assert a.requests[0].provider == "a"


@pytest.mark.parametrize("streamed", [False, True])
async def test_without_a_default_the_client_never_guesses(streamed: bool) -> None:
    client = Client({"only": ScriptedAdapter()})
    with pytest.raises(ConfigurationError, match=r"request\.provider is not set.*default_provider.*only"):
        await (anext(client.stream(ASK)) if streamed else client.complete(ASK))


async def test_an_unknown_provider_is_named() -> None:
    client = Client({"a": ScriptedAdapter(), "b": ScriptedAdapter()}, "a")
    with pytest.raises(ConfigurationError, match=r"request\.provider names 'c', but the client only has a, b"):
        await client.complete(ASK.model_copy(update={"provider": "c"}))
    with pytest.raises(ConfigurationError, match="default_provider names 'z'"):
        Client({"a": ScriptedAdapter()}, "z")


async def test_an_empty_client_says_which_variables_to_set() -> None:
    client = Client.from_env({})
    assert client.providers == {}
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY for anthropic"):
        await client.complete(ASK)


async def test_the_environment_registers_what_it_has_keys_for() -> None:
    async with Client.from_env({"OPENAI_COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1", "ANTHROPIC_API_KEY": ""}) as c:
        assert list(c.providers) == ["openai_compatible"]
        assert c.default_provider == "openai_compatible"


async def test_the_first_provider_of_the_environment_is_the_default() -> None:
    pytest.importorskip("unified_llm.providers.anthropic.adapter")
    environ = {"OPENAI_COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1", "ANTHROPIC_API_KEY": "key"}
    async with Client.from_env(environ) as client:
        assert list(client.providers) == ["anthropic", "openai_compatible"]
        assert client.default_provider == "anthropic"
    async with Client.from_env(environ, default_provider="openai_compatible") as client:
        assert client.default_provider == "openai_compatible"


async def test_close_closes_every_adapter_even_if_one_fails() -> None:
    class Failing(ScriptedAdapter):
        async def close(self) -> None:
            raise ServerError("cannot close")

    a, b = Failing(), ScriptedAdapter()
    with pytest.raises(ServerError, match="cannot close"):
        async with Client({"a": a, "b": b}):
            pass
    assert b.closed


async def test_adapters_without_optional_methods_do() -> None:
    class Minimal:
        name = "minimal"

        async def complete(self, request: Request) -> Response:
            return respond("small", provider=self.name)

        async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
            for event in events_of(respond("small")):
                yield event

    async with Client({"minimal": Minimal()}, "minimal") as client:
        assert (await client.complete(ASK)).text == "small"
        assert [event.type async for event in client.stream(ASK)][-1] == StreamEventType.FINISH


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_choice_that_the_adapter_does_not_support_is_refused_for_it(streamed: bool) -> None:
    class Simple(ScriptedAdapter):
        def supports_tool_choice(self, mode: str) -> bool:
            return mode in ("auto", "none")

    adapter = Simple("hello")
    client = Client({"s": adapter}, "s")
    tools = [Tool(name="t", description="")]
    demanding = Request(model="m", messages=[Message.user("hi")], tools=tools, tool_choice="required")
    with pytest.raises(UnsupportedToolChoiceError, match="s can't do tool_choice 'required'"):
        await (client.stream(demanding).aclose() if streamed else client.complete(demanding))
    assert adapter.requests == []
    modest = demanding.model_copy(update={"tool_choice": ToolChoice(mode="auto")})
    assert (await client.complete(modest)).text == "hello"


async def test_initialize_runs_once_before_the_first_request() -> None:
    class Checked(ScriptedAdapter):
        checks = 0
        broken = True

        async def initialize(self) -> None:
            await anyio.lowlevel.checkpoint()
            self.checks += 1
            if self.broken:
                raise ConfigurationError("not ready")

    with Checked("one", "two", "three") as adapter:
        client = Client({"x": adapter}, "x")
        with pytest.raises(ConfigurationError, match="not ready"):
            await client.complete(ASK)
        assert adapter.requests == []
        adapter.broken = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.complete, ASK)
            tasks.start_soon(client.complete, ASK)
        assert [event.type async for event in client.stream(ASK)][-1] == StreamEventType.FINISH
        assert adapter.checks == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_stream_releases_its_connection_when_it_ends() -> None:
    with ScriptedAdapter("hello") as adapter:
        events = [event async for event in Client({"s": adapter}, "s").stream(ASK)]
        assert adapter.open_streams == 0
    assert events[-1].response is not None
    assert events[-1].response.text == "hello"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_leaving_the_context_releases_the_connection_at_once() -> None:
    adapter = ScriptedAdapter("hello")
    async with Client({"s": adapter}, "s").stream(ASK) as events:
        async for _ in events:
            break
        assert adapter.open_streams == 1
    assert adapter.open_streams == 0
    await events.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelling_the_reader_releases_the_connection_at_once() -> None:
    reading = anyio.Event()

    async def hang() -> None:
        reading.set()
        await anyio.sleep_forever()

    adapter = ScriptedAdapter([*events_of(respond("hello"))[:2], hang])
    stream = Client({"s": adapter}, "s").stream(ASK)

    async def read() -> None:
        async for _ in stream:
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await reading.wait()
        assert adapter.open_streams == 1
        tasks.cancel_scope.cancel()
    assert adapter.open_streams == 0


async def test_an_abandoned_stream_is_released_by_the_garbage_collector() -> None:
    adapter = ScriptedAdapter("hello")
    async for _ in Client({"s": adapter}, "s").stream(ASK):
        break
    gc.collect()
    await anyio.wait_all_tasks_blocked()
    assert adapter.open_streams == 0


async def test_nothing_is_sent_before_the_first_event_is_asked_for() -> None:
    adapter = ScriptedAdapter("hello")
    stream = Client({"s": adapter}, "s").stream(ASK)
    assert adapter.requests == []
    await stream.aclose()
    assert adapter.requests == []


@pytest.mark.usefixtures("no_default_client")
def test_the_default_client_is_made_once_and_can_be_replaced() -> None:
    made = get_default_client()
    assert get_default_client() is made
    mine = Client()
    set_default_client(mine)
    assert get_default_client() is mine


@pytest.mark.parametrize("entry", PROVIDERS, ids=lambda entry: entry.name)
def test_every_registered_adapter_takes_its_variables(entry: ProviderEntry) -> None:
    variables = [names[-1] for names in {**entry.required, **entry.optional}.values()]
    environ = dict.fromkeys(variables, "http://127.0.0.1:1/v1")
    assert entry.is_configured(environ)
    adapter = entry.create(environ)
    assert isinstance(adapter, ProviderAdapter)
    assert adapter.name == entry.name
    assert not entry.is_configured(dict.fromkeys(variables, ""))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_client_that_one_event_loop_made_works_in_another(anyio_backend_name: str) -> None:
    class Careful(ScriptedAdapter):
        async def initialize(self) -> None:
            await anyio.lowlevel.checkpoint()

    request = Request(model="m", messages=[Message.user("hi")])
    with Careful("one", "two", "three") as adapter:
        client = Client({"scripted": adapter}, "scripted")
        other = "trio" if anyio_backend_name == "asyncio" else "asyncio"
        for backend, text in ((other, "one"), (anyio_backend_name, "two")):
            call = partial(anyio.run, client.complete, request, backend=backend)
            assert (await to_thread.run_sync(call)).text == text
        assert (await client.complete(request)).text == "three"
