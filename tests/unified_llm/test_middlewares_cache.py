"""CacheMiddleware: what was answered is not asked again."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from unified_llm import (
    Client,
    ConfigurationError,
    ContentKind,
    ContentPart,
    ImageData,
    Message,
    RateLimitError,
    Request,
    Response,
    StreamAccumulator,
    StreamError,
    StreamEvent,
    Tool,
)
from unified_llm.client.middlewares import CacheMiddleware, CacheStore, MemoryCacheStore
from unified_llm.testing import ScriptedAdapter, events_of, respond

ASK = Request(model="m", messages=[Message.user("hi")])


def client_of(adapter: ScriptedAdapter, store: CacheStore | None = None) -> tuple[Client, CacheMiddleware]:
    cache = CacheMiddleware(store)
    return Client({"s": adapter}, "s", [cache]), cache


async def accumulate(stream: AsyncIterator[StreamEvent]) -> Response:
    accumulator = StreamAccumulator()
    async for event in stream:
        accumulator.process(event)
    return accumulator.response()


async def test_the_second_answer_is_the_first() -> None:
    with ScriptedAdapter("once") as adapter:
        client, cache = client_of(adapter)
        first = await client.complete(ASK)
        assert await client.complete(ASK) == first
    assert (cache.hits, cache.misses) == (1, 1)


@pytest.mark.parametrize("streamed_first", [False, True])
async def test_whole_and_streamed_calls_share_answers(streamed_first: bool) -> None:
    answer = respond("text", reasoning="thought", tool_calls=[("add", {"a": 1})])
    with ScriptedAdapter(answer) as adapter:
        client, _ = client_of(adapter)
        calls = [lambda: client.complete(ASK), lambda: accumulate(client.stream(ASK))]
        answers = [await call() for call in (reversed(calls) if streamed_first else calls)]
    assert answers == [answer, answer]


async def test_a_cached_stream_keeps_the_discipline_and_its_deltas() -> None:
    answer = respond("some text", reasoning="thought", tool_calls=[("add", {"a": 1})])
    with ScriptedAdapter(answer) as adapter:
        client, _ = client_of(adapter)
        await client.complete(ASK)
        events = [event async for event in client.stream(ASK)]
    assert [str(event.type) for event in events] == [
        "stream_start",
        *("reasoning_start", "reasoning_delta", "reasoning_end"),
        *("text_start", "text_delta", "text_end"),
        *("tool_call_start", "tool_call_delta", "tool_call_end"),
        "finish",
    ]
    assert events[5].delta == "some text"
    assert events == events_of(answer, chunk=None)


def tool(description: str = "adds") -> Tool:
    return Tool(name="add", description=description, execute=lambda: "never the same function")


async def test_functions_behind_tools_are_no_part_of_the_key_but_the_rest_is() -> None:
    with ScriptedAdapter("one", "two", "three", "four", "five") as adapter:
        client, _ = client_of(adapter)

        async def ask(**fields: object) -> str:
            return (await client.complete(ASK.model_copy(update=fields))).text

        assert await ask(tools=[tool()]) == "one"
        assert await ask(tools=[tool()]) == "one"
        assert await ask(tools=[tool("adds well")]) == "two"
        assert await ask(temperature=0.5) == "three"
        assert await ask(provider_options={"s": {"a": 1, "b": 2}}) == "four"
        assert await ask(provider_options={"s": {"b": 2, "a": 1}}) == "four"
        assert await ask(messages=[Message.user("hi ")]) == "five"


async def test_a_changed_local_file_is_another_request(tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"one")
    part = ContentPart(kind=ContentKind.IMAGE, image=ImageData(url=str(image)))
    request = Request(model="m", messages=[Message.user([part])])
    with ScriptedAdapter("one", "two") as adapter:
        client, _ = client_of(adapter)
        assert (await client.complete(request)).text == "one"
        assert (await client.complete(request)).text == "one"
        image.write_bytes(b"two")
        os.utime(image, ns=(1, 1))
        assert (await client.complete(request)).text == "two"


async def test_what_is_not_json_is_refused_with_a_clear_error() -> None:
    with ScriptedAdapter() as adapter:
        client, _ = client_of(adapter)
        with pytest.raises(ConfigurationError, match="can't be written as JSON"):
            await client.complete(ASK.model_copy(update={"provider_options": {"s": {"a": object()}}}))


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "other"])
async def test_an_incomplete_answer_is_not_kept(reason: str) -> None:
    with ScriptedAdapter(respond("half", finish_reason=reason), "whole") as adapter:  # type: ignore[arg-type]
        client, _ = client_of(adapter)
        assert (await client.complete(ASK)).text == "half"
        assert (await client.complete(ASK)).text == "whole"


async def test_failures_are_not_kept() -> None:
    broken = [*events_of(respond("half"))[:-1], StreamError("cut")]
    with ScriptedAdapter(RateLimitError("later"), broken, "whole") as adapter:
        client, _ = client_of(adapter)
        with pytest.raises(RateLimitError):
            await client.complete(ASK)
        with pytest.raises(StreamError):
            await accumulate(client.stream(ASK))
        assert (await client.complete(ASK)).text == "whole"


async def test_a_stream_left_early_is_not_kept_and_closed() -> None:
    with ScriptedAdapter("one", "two") as adapter:
        client, _ = client_of(adapter)
        async with client.stream(ASK) as events:
            async for _ in events:
                break
        assert adapter.open_streams == 0
        assert (await client.complete(ASK)).text == "two"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_equal_calls_at_the_same_time_reach_the_provider_once(anyio_backend: str) -> None:
    entered = anyio.Event()

    async def wait() -> None:
        entered.set()
        await anyio.wait_all_tasks_blocked()

    answers = []
    with ScriptedAdapter([wait, *events_of(respond("once"))]) as adapter:
        client, cache = client_of(adapter)

        async def ask() -> None:
            answers.append(await client.complete(ASK))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert entered.is_set()
    assert [answer.text for answer in answers] == ["once"] * 5
    assert (cache.hits, cache.misses) == (4, 1)
    assert cache._flights == {}


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_when_the_first_of_equal_calls_is_cancelled_the_next_asks(anyio_backend: str) -> None:
    first = anyio.CancelScope()

    async def hang() -> None:
        await anyio.sleep_forever()

    answers = []
    with ScriptedAdapter([hang], "second") as adapter:
        client, _ = client_of(adapter)

        async def ask(scope: anyio.CancelScope) -> None:
            with scope:
                answers.append((await client.complete(ASK)).text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, first)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask, anyio.CancelScope())
            await anyio.wait_all_tasks_blocked()
            first.cancel()
    assert answers == ["second"]


async def test_memory_is_bounded_and_the_longest_unused_goes_first() -> None:
    store = MemoryCacheStore(2)
    for key in ("a", "b"):
        await store.put(key, respond(key))
    assert await store.get("a") is not None
    await store.put("c", respond("c"))
    assert len(store) == 2
    assert await store.get("b") is None
    assert await store.get("a") is not None


async def test_an_old_entry_is_gone() -> None:
    now = [0.0]
    store = MemoryCacheStore(ttl=10, clock=lambda: now[0])
    await store.put("a", respond("a"))
    now[0] = 9.9
    assert await store.get("a") is not None
    now[0] = 10.0
    assert await store.get("a") is None
    assert len(store) == 0


async def test_any_store_will_do() -> None:
    class TextStore:
        def __init__(self) -> None:
            self.entries: dict[str, str] = {}

        async def get(self, key: str) -> Response | None:
            text = self.entries.get(key)
            return None if text is None else Response.model_validate_json(text)

        async def put(self, key: str, response: Response) -> None:
            self.entries[key] = response.model_dump_json()

    store = TextStore()
    answer = respond("text", tool_calls=[("add", {"a": 1})])
    with ScriptedAdapter(answer) as adapter:
        await client_of(adapter, store)[0].complete(ASK)
    with ScriptedAdapter() as other:
        assert await client_of(other, store)[0].complete(ASK) == answer
    assert [len(key) for key in store.entries] == [64]


@pytest.mark.parametrize(("arguments", "field"), [({"max_entries": 0}, "max_entries"), ({"ttl": 0}, "ttl")])
def test_nonsense_is_refused(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        MemoryCacheStore(**arguments)
