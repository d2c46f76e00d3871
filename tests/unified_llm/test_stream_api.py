"""stream() (sections 4.4, 4.7, 5.9 and 6.6)."""

from typing import Any

import anyio
import pytest
from unified_llm import (
    AbortController,
    AbortError,
    AuthenticationError,
    Client,
    ConfigurationError,
    Message,
    RequestTimeoutError,
    RetryPolicy,
    ServerError,
    StreamError,
    StreamEvent,
    StreamEventType,
    StreamResult,
    TimeoutConfig,
    Tool,
    Usage,
    stream,
)
from unified_llm.testing import ScriptedAdapter, events_of, respond

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
QUICK = RetryPolicy(base_delay=0, jitter=False)


def client_of(adapter: ScriptedAdapter) -> Client:
    return Client({"scripted": adapter}, "scripted")


def ping(execute: Any = lambda: "pong") -> Tool:
    return Tool(name="ping", description="ping", execute=execute)


async def read_until_error(result: StreamResult) -> tuple[list[StreamEvent], Exception | None]:
    events: list[StreamEvent] = []
    try:
        async for event in result:
            events.append(event)  # noqa: PERF401  (what came before the error is wanted)
    except Exception as error:
        return events, error
    return events, None


@BOTH
async def test_events_come_in_order_and_add_up_to_the_response() -> None:
    answer = respond("Hello, world. " * 3, reasoning="let me think")
    with ScriptedAdapter(answer) as adapter:
        result = stream("m", "hi", client=client_of(adapter))
        assert result.partial_response is None
        events = [event async for event in result]
        assert adapter.open_streams == 0
    assert [event.type for event in events[:2]] == ["stream_start", "reasoning_start"]
    assert events[-1].type == "finish"
    assert events[-1].usage == answer.usage
    assert "".join(e.delta or "" for e in events if e.type == "text_delta") == answer.text
    assert await result.response() == answer
    assert result.partial_response == answer
    assert result.total_usage == answer.usage


async def test_text_stream_yields_only_text() -> None:
    with ScriptedAdapter(respond("Hello, world", reasoning="hm")) as adapter:
        result = await stream("m", "hi", client=client_of(adapter))
        assert [text async for text in result.text_stream] == ["Hello, w", "orld"]


async def test_response_reads_what_is_left() -> None:
    with ScriptedAdapter("Hello, world") as adapter:
        assert (await stream("m", "hi", client=client_of(adapter)).response()).text == "Hello, world"


async def test_partial_response_grows() -> None:
    with ScriptedAdapter("Hello, world") as adapter:
        texts = []
        async with stream("m", "hi", client=client_of(adapter)) as result:
            async for _ in result:
                assert result.partial_response is not None
                texts.append(result.partial_response.text)
    assert texts == ["", "", "Hello, w", "Hello, world", "Hello, world", "Hello, world"]


async def test_misuse_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="one of prompt and messages"):
        stream("m", client=Client())


async def test_a_step_finish_stands_between_steps() -> None:
    with ScriptedAdapter(respond("Wait.", tool_calls=[("ping", {})]), "done") as adapter:
        result = stream("m", "go", tools=[ping()], client=client_of(adapter))
        steps_seen = []
        kinds = []
        async for event in result:
            kinds.append(event.type)
            if event.type == StreamEventType.STEP_FINISH:
                steps_seen.append([r.content for r in result.steps[-1].tool_results])
                assert event.finish_reason is not None
                assert event.finish_reason.reason == "tool_calls"
        assert len(adapter.requests[1].messages) == 3
    assert kinds == [
        *["stream_start", "text_start", "text_delta", "text_end"],
        *["tool_call_start", "tool_call_delta", "tool_call_end", "step_finish"],
        *["text_start", "text_delta", "text_end", "finish"],
    ]
    assert steps_seen == [["pong"]]
    assert (await result.response()).text == "done"
    assert result.total_usage == Usage(input_tokens=20, output_tokens=10, total_tokens=30)


@pytest.mark.parametrize(
    "opening",
    [
        [ServerError("down")],
        [*events_of(respond("x"))[:2], ServerError("down")],
        [
            StreamEvent(type="stream_start"),
            StreamEvent(type="provider_event", raw={"type": "ping"}),
            StreamError("cut"),
        ],
        [StreamEvent(type="stream_start")],
    ],
)
async def test_a_failure_before_the_first_content_is_retried_unseen(opening: Any) -> None:
    with ScriptedAdapter(opening, "hello") as adapter:
        events = [event async for event in stream("m", "hi", retry_policy=QUICK, client=client_of(adapter))]
        assert adapter.open_streams == 0
    assert [event.type for event in events] == ["stream_start", "text_start", "text_delta", "text_end", "finish"]


async def test_a_failure_after_content_is_one_error_event_and_then_raised() -> None:
    failure = ServerError("down")
    with ScriptedAdapter([*events_of(respond("Hello, world"))[:3], failure]) as adapter:
        result = stream("m", "hi", retry_policy=QUICK, client=client_of(adapter))
        events, error = await read_until_error(result)
        assert adapter.open_streams == 0
    assert error is failure
    assert [event.type for event in events] == ["stream_start", "text_start", "text_delta", "error"]
    assert events[-1].error is failure
    with pytest.raises(ServerError, match="down"):
        await result.response()


async def test_a_final_failure_to_open_is_an_error_event_too() -> None:
    with ScriptedAdapter(AuthenticationError("bad key")) as adapter:
        events, error = await read_until_error(stream("m", "hi", client=client_of(adapter)))
    assert [event.type for event in events] == ["error"]
    assert isinstance(error, AuthenticationError)


async def test_retries_count_for_each_step() -> None:
    steps = [ServerError("a"), respond(tool_calls=[("ping", {})]), ServerError("b"), "done"]
    with ScriptedAdapter(*steps) as adapter:
        result = stream("m", "go", tools=[ping()], retry_policy=QUICK, client=client_of(adapter))
        assert (await result.response()).text == "done"


async def test_a_stream_without_a_finish_event_is_an_error() -> None:
    with ScriptedAdapter(events_of(respond("hello"))[:-1]) as adapter:
        events, error = await read_until_error(stream("m", "hi", client=client_of(adapter)))
    assert isinstance(error, StreamError)
    assert events[-1].type == "error"


async def test_a_response_is_built_if_the_finish_event_lacks_it() -> None:
    *events, finish = events_of(respond("hello"))
    bare = StreamEvent(type="finish", finish_reason=finish.finish_reason, usage=finish.usage)
    with ScriptedAdapter([*events, bare]) as adapter:
        response = await stream("m", "hi", client=client_of(adapter)).response()
    assert response.text == "hello"
    assert response.usage == finish.usage


@BOTH
async def test_leaving_early_releases_the_connection_at_once() -> None:
    adapter = ScriptedAdapter("Hello, world")
    async with stream("m", "hi", client=client_of(adapter)) as result:
        async for event in result:
            if event.type == StreamEventType.TEXT_DELTA:
                break
        assert adapter.open_streams == 1
    assert adapter.open_streams == 0
    with pytest.raises(StreamError, match="closed before its end"):
        await result.response()
    assert result.partial_response is not None
    assert result.partial_response.text == "Hello, w"


@BOTH
async def test_an_abort_ends_the_stream_and_releases_the_connection() -> None:
    controller = AbortController()

    async def abort() -> None:
        controller.abort("enough")
        await anyio.sleep_forever()

    adapter = ScriptedAdapter([*events_of(respond("hello"))[:3], abort])
    result = stream("m", "hi", abort_signal=controller.signal, client=client_of(adapter))
    events, error = await read_until_error(result)
    assert isinstance(error, AbortError)
    assert events[-1].error is error
    assert adapter.open_streams == 0


@BOTH
async def test_an_abort_between_events_is_noticed_at_the_next() -> None:
    controller = AbortController()
    adapter = ScriptedAdapter("Hello, world")
    result = stream("m", "hi", abort_signal=controller.signal, client=client_of(adapter))
    assert (await anext(result)).type == "stream_start"
    controller.abort()
    events, error = await read_until_error(result)
    assert [event.type for event in events] == ["error"]
    assert isinstance(error, AbortError)
    assert adapter.open_streams == 0


@BOTH
@pytest.mark.parametrize("timeout", [0.02, TimeoutConfig(per_step=0.02)])
async def test_time_limits_end_the_stream(timeout: Any) -> None:
    adapter = ScriptedAdapter([*events_of(respond("hello"))[:3], anyio.sleep_forever])
    events, error = await read_until_error(stream("m", "hi", timeout=timeout, client=client_of(adapter)))
    assert isinstance(error, RequestTimeoutError)
    assert [event.type for event in events][-2:] == ["text_delta", "error"]
    assert adapter.open_streams == 0


@BOTH
async def test_the_reader_may_use_cancel_scopes_of_its_own() -> None:
    with ScriptedAdapter(respond(tool_calls=[("ping", {})]), "done") as adapter:
        result = stream("m", "go", tools=[ping()], timeout=10, client=client_of(adapter))
        kinds = []
        while True:
            with anyio.fail_after(5):
                try:
                    kinds.append((await anext(result)).type)
                except StopAsyncIteration:
                    break
        assert kinds[-1] == "finish"


async def test_a_system_message_and_a_history_are_sent() -> None:
    with ScriptedAdapter("x") as adapter:
        await stream("m", messages=[Message.user("a")], system="s", client=client_of(adapter)).response()
        assert adapter.requests[0].messages == [Message.system("s"), Message.user("a")]
