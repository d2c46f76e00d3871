"""LoggingMiddleware: one record a call, and nothing in it that shouldn't be."""

import logging
from collections.abc import AsyncIterator
from itertools import count

import anyio
import pytest
from unified_llm import Client, Message, RateLimitError, Request, StreamError
from unified_llm.client.middlewares import LoggingMiddleware
from unified_llm.testing import ScriptedAdapter, events_of, respond

KEY = "sk-ant-" + "0123456789abcdef"
ASK = Request(
    model="m",
    messages=[Message.user(f"the prompt, {KEY}")],
    metadata={"user": "the user's name"},
    provider_options={"s": {"extra_headers": {"authorization": "Bearer of-what"}}},
)


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "unified_llm")


def client_of(adapter: ScriptedAdapter, *, content: bool = False) -> Client:
    ticks = count()
    return Client({"s": adapter}, "s", [LoggingMiddleware(content=content, clock=lambda: float(next(ticks)))])


async def test_an_answer_is_one_record_with_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedAdapter("the answer") as adapter:
        await client_of(adapter).complete(ASK)
    [record] = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == "complete s/m: stop, 1.000 s, 10 tokens in, 5 out"
    facts = {name: value for name, value in vars(record).items() if name.startswith("llm_")}
    assert facts == {
        "llm_mode": "complete",
        "llm_provider": "s",
        "llm_model": "m",
        "llm_outcome": "stop",
        "llm_seconds": 1.0,
        "llm_input_tokens": 10,
        "llm_output_tokens": 5,
    }


async def test_a_stream_is_one_record_too(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedAdapter("the answer") as adapter:
        assert [event async for event in client_of(adapter).stream(ASK)]
    assert [record.getMessage() for record in caplog.records] == [
        "stream s/m: stop, 1.000 s, 10 tokens in, 5 out",
    ]


async def test_a_failure_is_a_warning_without_the_message(caplog: pytest.LogCaptureFixture) -> None:
    error = RateLimitError("you said: the prompt", status_code=429, error_code="slow_down")
    with ScriptedAdapter(error, error) as adapter:
        client = client_of(adapter)
        with pytest.raises(RateLimitError):
            await client.complete(ASK)
        with pytest.raises(RateLimitError):
            _ = [event async for event in client.stream(ASK)]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "complete s/m: RateLimitError 429 slow_down, 1.000 s",
        "stream s/m: RateLimitError 429 slow_down, 1.000 s",
    ]


async def test_a_stream_that_breaks_or_is_left_is_told(caplog: pytest.LogCaptureFixture) -> None:
    begun = events_of(respond("hello"))[:-1]
    with ScriptedAdapter([*begun, StreamError("cut")], "hello") as adapter:
        client = client_of(adapter)
        with pytest.raises(StreamError):
            _ = [event async for event in client.stream(ASK)]
        async with client.stream(ASK) as events:
            async for _ in events:
                break
    assert [record.getMessage() for record in caplog.records] == [
        "stream s/m: StreamError, 1.000 s",
        "stream s/m: left by its reader, 1.000 s",
    ]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancelled_call_is_told(caplog: pytest.LogCaptureFixture, anyio_backend: str) -> None:
    client = client_of(ScriptedAdapter([anyio.sleep_forever]))
    with anyio.move_on_after(0.01):
        await client.complete(ASK)
    assert [record.getMessage() for record in caplog.records if record.name == "unified_llm"] == [
        "complete s/m: cancelled, 1.000 s"
    ]


@pytest.mark.parametrize("content", [False, True])
async def test_no_key_no_header_and_no_metadata_is_ever_logged(caplog: pytest.LogCaptureFixture, content: bool) -> None:
    with ScriptedAdapter(f"the answer, {KEY}", f"the answer, {KEY}", RateLimitError(f"wrong key {KEY}")) as adapter:
        client = client_of(adapter, content=content)
        await client.complete(ASK)
        _ = [event async for event in client.stream(ASK)]
        with pytest.raises(RateLimitError):
            await client.complete(ASK)
    logged = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    for secret in (KEY, KEY[8:], "of-what", "the user's name"):
        assert secret not in logged
    assert ("the prompt" in logged) is content
    assert ("the answer" in logged) is content
    assert ("wrong key" in logged) is content


async def test_content_is_debug_and_a_logger_of_ones_own_is_used(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mine")
    caplog.set_level(logging.DEBUG, "mine")
    with ScriptedAdapter("the answer") as adapter:
        client = Client({"s": adapter}, "s", [LoggingMiddleware(logger, content=True)])
        await client.complete(Request(model="m", messages=[Message.system("be kind"), Message.user("hi")]))
    assert [
        (record.name, record.levelname, record.getMessage()) for record in caplog.records if record.levelno < 20
    ] == [
        ("mine", "DEBUG", "system: be kind"),
        ("mine", "DEBUG", "user: hi"),
        ("mine", "DEBUG", "answer: the answer"),
    ]


async def test_a_silent_logger_leaves_the_events_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "unified_llm")
    response = respond("hello")
    with ScriptedAdapter(response) as adapter:
        stream: AsyncIterator[object] = client_of(adapter, content=True).stream(ASK)
        assert [event async for event in stream] == events_of(response)
    assert not caplog.records
