"""FallbackMiddleware: another model answers when one fails."""

import pytest
from unified_llm import (
    Client,
    ConfigurationError,
    InvalidRequestError,
    Message,
    NetworkError,
    QuotaExceededError,
    RateLimitError,
    Request,
    RequestTimeoutError,
    Response,
    ServerError,
    StreamAccumulator,
    StreamError,
    StreamEvent,
    StreamEventType,
    Warning,
)
from unified_llm.client.middlewares import FallbackMiddleware
from unified_llm.testing import ScriptedAdapter, events_of, respond

ASK = Request(model="large", messages=[Message.user("hi")], temperature=0.5)
FALLBACKS = [("b", "medium"), ("c", "small")]


def client_of(*adapters: ScriptedAdapter, **options: object) -> Client:
    middleware = FallbackMiddleware(FALLBACKS[: len(adapters) - 1], **options)  # type: ignore[arg-type]
    return Client(dict(zip("abc", adapters, strict=False)), "a", [middleware])


async def call(client: Client, streamed: bool) -> Response:
    if not streamed:
        return await client.complete(ASK)
    accumulator = StreamAccumulator()
    async for event in client.stream(ASK):
        accumulator.process(event)
    return accumulator.response()


async def read(client: Client, seen: list[StreamEvent]) -> None:
    async for event in client.stream(ASK):
        seen.append(event)  # noqa: PERF401  (what came before a failure is kept)


BOTH = pytest.mark.parametrize("streamed", [False, True])


@BOTH
async def test_an_answer_passes_unchanged(streamed: bool) -> None:
    answer = respond("hello")
    with ScriptedAdapter(answer) as a, ScriptedAdapter() as b:
        assert await call(client_of(a, b), streamed) == answer


@BOTH
@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down"),
        ServerError("down"),
        NetworkError("gone"),
        StreamError("cut"),
        RequestTimeoutError("slow"),
        QuotaExceededError("no money"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_the_next_model_answers_with_a_warning(error: Exception, streamed: bool) -> None:
    with ScriptedAdapter(error) as a, ScriptedAdapter("from b") as b:
        response = await call(client_of(a, b), streamed)
    assert response.text == "from b"
    assert response.warnings == [
        Warning(
            message=f"a/large failed with {type(error).__name__}: {error}; b/medium answered instead", code="fallback"
        )
    ]
    assert b.requests == [ASK.model_copy(update={"provider": "b", "model": "medium"})]


@BOTH
async def test_they_are_asked_in_order_and_every_failure_is_told(streamed: bool) -> None:
    answer = respond("from c").model_copy(update={"warnings": [Warning(message="its own")]})
    with (
        ScriptedAdapter(ServerError("one")) as a,
        ScriptedAdapter(NetworkError("two")) as b,
        ScriptedAdapter(answer) as c,
    ):
        response = await call(client_of(a, b, c), streamed)
    assert [warning.message for warning in response.warnings] == [
        "a/large failed with ServerError: one; b/medium failed with NetworkError: two; c/small answered instead",
        "its own",
    ]


@BOTH
async def test_if_all_fail_the_last_error_names_the_others(streamed: bool) -> None:
    a, b = ScriptedAdapter(ServerError("one")), ScriptedAdapter(NetworkError("two"))
    with pytest.raises(NetworkError, match="two") as caught:
        await call(client_of(a, b), streamed)
    assert caught.value.__notes__ == ["before that, a/large failed with ServerError: one"]


@BOTH
async def test_the_requests_own_fault_is_raised_at_once(streamed: bool) -> None:
    a, b = ScriptedAdapter(InvalidRequestError("bad")), ScriptedAdapter("never asked")
    with pytest.raises(InvalidRequestError):
        await call(client_of(a, b), streamed)
    assert not b.requests


@BOTH
async def test_the_errors_can_be_chosen(streamed: bool) -> None:
    with ScriptedAdapter(InvalidRequestError("bad"), ServerError("down")) as a, ScriptedAdapter("from b") as b:
        client = client_of(a, b, on=(InvalidRequestError,))
        assert (await call(client, streamed)).text == "from b"
        with pytest.raises(ServerError):
            await call(client, streamed)


async def test_a_stream_falls_back_before_its_first_content_and_shows_one_beginning() -> None:
    begun = events_of(respond("never seen"))[:2]
    with ScriptedAdapter([*begun, ServerError("down")]) as a, ScriptedAdapter("from b") as b:
        events = [event async for event in client_of(a, b).stream(ASK)]
    types = [event.type for event in events]
    assert types.count(StreamEventType.STREAM_START) == types.count(StreamEventType.TEXT_START) == 1
    assert StreamEventType.ERROR not in types
    assert [warning.code for warning in events[0].warnings] == ["fallback"]


async def test_a_stream_with_content_does_not_fall_back() -> None:
    begun = events_of(respond("half an answer"))[:3]
    a, b = ScriptedAdapter([*begun, ServerError("down")]), ScriptedAdapter("never asked")
    seen: list[StreamEvent] = []
    with pytest.raises(ServerError):
        await read(client_of(a, b), seen)
    assert not b.requests
    assert seen[:3] == begun
    assert [event.type for event in seen[3:]] == [StreamEventType.ERROR]


async def test_a_stream_that_fails_everywhere_is_one_error_event_and_the_error() -> None:
    a, b = ScriptedAdapter(ServerError("one")), ScriptedAdapter(ServerError("two"))
    seen: list[StreamEvent] = []
    with pytest.raises(ServerError, match="two"):
        await read(client_of(a, b), seen)
    assert [event.type for event in seen] == [StreamEventType.ERROR]


async def test_nothing_stays_open_when_a_stream_is_left() -> None:
    with ScriptedAdapter(ServerError("one")) as a, ScriptedAdapter("from b") as b:
        async with client_of(a, b).stream(ASK) as events:
            await anext(events)
            assert (a.open_streams, b.open_streams) == (0, 1)
        assert b.open_streams == 0


async def test_the_model_that_failed_is_not_asked_twice() -> None:
    with ScriptedAdapter(ServerError("one")) as a:
        client = Client({"a": a}, "a", [FallbackMiddleware([("a", "large")])])
        with pytest.raises(ServerError):
            await client.complete(ASK)


@pytest.mark.parametrize(("fallbacks", "message"), [([], "empty"), (["gpt"], r"fallbacks\[0\]"), ([("a",)], "0")])
def test_nonsense_is_refused(fallbacks: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FallbackMiddleware(fallbacks)
