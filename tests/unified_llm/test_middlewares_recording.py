"""RecordingMiddleware: cassettes that people can read, edit, and test with."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import (
    AbortError,
    Client,
    ConfigurationError,
    Message,
    NetworkError,
    RateLimitError,
    Request,
    Response,
    SDKError,
    StreamAccumulator,
    StreamError,
    Tool,
    generate,
)
from unified_llm.client.middlewares import RecordingMiddleware
from unified_llm.client.middlewares.cassette import differences, write_cassette
from unified_llm.testing import ScriptedAdapter, events_of, respond

ASK = Request(model="m", messages=[Message.system("be kind"), Message.user("hi")])


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "one.json"


def recorder(adapter: ScriptedAdapter, cassette: Path, **options: Any) -> Client:
    return Client({"s": adapter}, "s", [RecordingMiddleware(cassette, "record", **options)])


def player(cassette: Path, **options: Any) -> Client:
    """No provider at all."""
    return Client(middleware=[RecordingMiddleware(cassette, **options)])


async def call(client: Client, request: Request, streamed: bool) -> Response:
    if not streamed:
        return await client.complete(request)
    accumulator = StreamAccumulator()
    async for event in client.stream(request):
        accumulator.process(event)
    return accumulator.response()


BOTH = pytest.mark.parametrize("streamed", [False, True])


@BOTH
@pytest.mark.parametrize("replayed_streamed", [False, True])
async def test_what_is_recorded_is_replayed_without_a_provider(
    cassette: Path, streamed: bool, replayed_streamed: bool
) -> None:
    answer = respond("hello\nthere", reasoning="thought", tool_calls=[("add", {"a": 1})])
    with ScriptedAdapter(answer) as adapter:
        assert await call(recorder(adapter, cassette), ASK, streamed) == answer
    assert await call(player(cassette), ASK, replayed_streamed) == answer


async def test_the_file_is_plain_enough_to_read(cassette: Path) -> None:
    with ScriptedAdapter("Grüße!") as adapter:
        await recorder(adapter, cassette).complete(ASK)
    text = cassette.read_text(encoding="utf-8")
    assert json.loads(text) == {
        "cassette": 1,
        "exchanges": [
            {
                "request": {
                    "model": "m",
                    "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
                    "provider": "s",
                },
                "response": {
                    "id": "response-1",
                    "model": "m",
                    "provider": "scripted",
                    "message": {"role": "assistant", "content": "Grüße!"},
                    "finish_reason": {"reason": "stop"},
                    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
                },
            }
        ],
    }
    assert '\n        "model": "m",\n' in text
    assert "Grüße!" in text


async def test_raw_bodies_stay_out(cassette: Path) -> None:
    answer = respond("hello").model_copy(update={"raw": {"huge": "body"}})
    with ScriptedAdapter(answer) as adapter:
        await recorder(adapter, cassette).complete(ASK)
    assert "huge" not in cassette.read_text(encoding="utf-8")


async def test_a_file_written_by_hand_will_do(cassette: Path) -> None:
    cassette.parent.mkdir()
    cassette.write_text(
        '{"cassette": 1, "exchanges": [{"request": {"model": "m", "messages": ['
        '{"role": "user", "content": "2+2?"}]}, "response": "4"}]}'
    )
    response = await player(cassette).complete(Request(model="m", messages=[Message.user("2+2?")]))
    assert (response.text, response.model, response.finish_reason.reason) == ("4", "m", "stop")


@BOTH
async def test_failures_are_recorded_and_replayed(cassette: Path, streamed: bool) -> None:
    error = RateLimitError("later", provider="s", status_code=429, error_code="slow", retry_after=1.5)
    with ScriptedAdapter(error, "then this") as adapter:
        client = recorder(adapter, cassette)
        with pytest.raises(RateLimitError):
            await call(client, ASK, streamed)
        await call(client, ASK, streamed)
    client = player(cassette)
    with pytest.raises(RateLimitError, match="later") as caught:
        await call(client, ASK, streamed)
    facts = (caught.value.provider, caught.value.status_code, caught.value.error_code, caught.value.retry_after)
    assert facts == ("s", 429, "slow", 1.5)
    assert caught.value.retryable
    assert (await call(client, ASK, streamed)).text == "then this"


async def test_a_stream_that_broke_breaks_again_at_the_same_place(cassette: Path) -> None:
    begun = events_of(respond("half an answer"))[:4]
    with ScriptedAdapter([*begun, StreamError("cut")]) as adapter, pytest.raises(StreamError):
        await call(recorder(adapter, cassette), ASK, streamed=True)
    accumulator = StreamAccumulator()

    async def read() -> None:
        async for event in player(cassette).stream(ASK):
            accumulator.process(event)

    with pytest.raises(StreamError, match="cut"):
        await read()
    assert accumulator.partial_response is not None
    assert accumulator.partial_response.text == "half an answer"
    with pytest.raises(StreamError):
        accumulator.response()


async def test_what_is_no_answer_of_a_provider_is_not_recorded(cassette: Path) -> None:
    with ScriptedAdapter(AbortError("stop"), ConfigurationError("wrong"), "left", "fine") as adapter:
        client = recorder(adapter, cassette)
        for error in (AbortError, ConfigurationError):
            with pytest.raises(error):
                await client.complete(ASK)
        async with client.stream(ASK) as events:
            await anext(events)
        assert not cassette.exists()
        await client.complete(ASK)
    assert (await player(cassette).complete(ASK)).text == "fine"


async def test_equal_requests_are_answered_in_order_and_each_once(cassette: Path) -> None:
    with ScriptedAdapter("one", "two") as adapter:
        client = recorder(adapter, cassette)
        await client.complete(ASK)
        await client.complete(ASK)
    recording = RecordingMiddleware(cassette)
    client = Client(middleware=[recording])
    assert recording.unplayed == 2
    assert [(await client.complete(ASK)).text for _ in range(2)] == ["one", "two"]
    assert recording.unplayed == 0
    with pytest.raises(ConfigurationError, match="recorded 2 times and asked once more"):
        await client.complete(ASK)


@BOTH
async def test_an_unknown_request_names_the_nearest(cassette: Path, streamed: bool) -> None:
    near = ASK.model_copy(update={"messages": [Message.system("be kind"), Message.user("hello")]})
    far = Request(model="other", messages=[Message.user("something else")], temperature=1)
    with ScriptedAdapter("far", "near") as adapter:
        client = recorder(adapter, cassette)
        await client.complete(far)
        await client.complete(near)
    with pytest.raises(ConfigurationError) as caught:
        await call(player(cassette), ASK, streamed)
    assert str(caught.value) == (
        f"the cassette {cassette} has no answer for this request to m: exchanges[1] of 2 is nearest, and differs in "
        "messages[1].content: recorded is 'hello', asked was 'hi'; "
        'record it with mode="extend", edit the cassette, or tell with match_on what matters'
    )


async def test_extending_records_only_what_is_missing_and_leaves_the_rest_as_it_is(cassette: Path) -> None:
    cassette.parent.mkdir()
    by_hand = {"request": {"messages": [{"content": "hi", "role": "user"}], "model": "m"}, "response": "by hand"}
    cassette.write_text(json.dumps({"cassette": 1, "exchanges": [by_hand]}))
    known, unknown = (Request(model="m", messages=[Message.user(text)]) for text in ("hi", "bye"))
    with ScriptedAdapter("new") as adapter:
        # The client names its default provider, the file doesn't: what matters is the rest.
        recording = RecordingMiddleware(cassette, "extend", match_on=lambda request: request["messages"])
        client = Client({"s": adapter}, "s", [recording])
        assert (await client.complete(known)).text == "by hand"
        assert (await client.complete(unknown)).text == "new"
    content = json.loads(cassette.read_text(encoding="utf-8"))
    assert content["exchanges"][0] == by_hand
    assert content["exchanges"][1]["request"]["messages"][0]["content"] == "bye"


async def test_recording_begins_anew(cassette: Path) -> None:
    for text in ("old", "new"):
        with ScriptedAdapter(text) as adapter:
            await recorder(adapter, cassette).complete(ASK)
    assert (await player(cassette).complete(ASK)).text == "new"


async def test_match_on_tells_what_matters(cassette: Path) -> None:
    def last_message(request: dict[str, Any]) -> object:
        return request["messages"][-1]

    with ScriptedAdapter("hello") as adapter:
        await recorder(adapter, cassette).complete(ASK)
    elsewhere = Request(model="another", messages=[Message.system("Today is Monday."), Message.user("hi")])
    assert (await player(cassette, match_on=last_message).complete(elsewhere)).text == "hello"


SECRETS = [
    "sk-proj-" + "a" * 40,
    "AIza" + "b" * 35,
    "gsk_" + "c" * 30,
    "Bearer " + "d" * 20,
    "hunter2 of mine",
]


@BOTH
async def test_no_secret_gets_into_the_file(cassette: Path, streamed: bool) -> None:
    request = Request(
        model="m",
        messages=[Message.user(f"my keys: {SECRETS}")],
        metadata={"api_key": "value-one", "user": "kept"},
        provider_options={
            "s": {
                "extra_headers": {"x-anything": "value-two"},
                "nested": [{"password": "value-three", "max_tokens_key": 7}],
                "max_tokens": 5,
            }
        },
    )
    answer, error = respond(f"they are {SECRETS}"), NetworkError(f"refused {SECRETS}")
    with ScriptedAdapter(answer, error) as adapter:
        client = recorder(adapter, cassette, secrets=["hunter2 of mine"])
        await call(client, request, streamed)
        with pytest.raises(NetworkError):
            await call(client, request, streamed)
    text = cassette.read_text(encoding="utf-8")
    for secret in (*(secret.removeprefix("Bearer ") for secret in SECRETS), "value-one", "value-two", "value-three"):
        assert secret not in text
    assert '"max_tokens": 5' in text
    assert '"user": "kept"' in text
    assert "[redacted]" in (await call(player(cassette, secrets=["hunter2 of mine"]), request, streamed)).text


async def test_a_tool_loop_is_replayed_whole(cassette: Path) -> None:
    def add(a: int, b: int) -> str:
        return str(a + b)

    parameters = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    tool = Tool(name="add", description="Adds.", parameters=parameters, execute=add)
    steps = [respond(tool_calls=[("add", {"a": 2, "b": 3})]), "It is 5."]
    with ScriptedAdapter(*steps) as adapter:
        client = recorder(adapter, cassette)
        first = await generate("m", "2+3?", tools=[tool], client=client)
    again = await generate("m", "2+3?", tools=[tool], client=player(cassette))
    assert again.text == first.text == "It is 5."
    assert again.steps[0].tool_results == first.steps[0].tool_results


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_calls_at_the_same_time_are_all_recorded(cassette: Path, anyio_backend: str) -> None:
    requests = [Request(model="m", messages=[Message.user(str(number))]) for number in range(20)]
    with ScriptedAdapter(*[lambda request: request.messages[0].text] * 20) as adapter:
        client = recorder(adapter, cassette)
        async with anyio.create_task_group() as tasks:
            for number, request in enumerate(requests):
                tasks.start_soon(call, client, request, number % 2 == 0)
    client = player(cassette)
    for request in requests:
        assert (await client.complete(request)).text == request.messages[0].text


def test_a_failed_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    cassette = tmp_path / "one.json"
    write_cassette(cassette, ["{}"])
    before = cassette.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        write_cassette(cassette, ["{}", "no file can hold \ud800"])
    assert cassette.read_bytes() == before
    assert list(tmp_path.iterdir()) == [cassette]


async def test_half_a_character_survives(cassette: Path) -> None:
    request = Request(model="m", messages=[Message.user("half \ud800")])
    with ScriptedAdapter("another \udfff half") as adapter:
        await recorder(adapter, cassette).complete(request)
    assert (await player(cassette).complete(request)).text == "another \udfff half"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON.*line 1"),
        ("[]", "must be an object with a list `exchanges`"),
        ('{"exchanges": []}', 'must say "cassette": 1'),
        ('{"cassette": 1, "exchanges": [{}]}', r"exchanges\[0\]: it needs a `request`"),
        ('{"cassette": 1, "exchanges": [{"request": {"model": "m"}, "response": ""}]}', r"exchanges\[0\]: messages"),
        (
            '{"cassette": 1, "exchanges": [{"request": {"model": "m", "messages": []}, "error": {"type": "Oops"}}]}',
            r"exchanges\[0\]: the error's type must be one of.*'Oops'",
        ),
        (
            '{"cassette": 1, "exchanges": [{"request": {"model": "m", "messages": []},'
            ' "error": {"type": "SDKError", "status": 1}}]}',
            r"exchanges\[0\]: an error has no 'status'",
        ),
    ],
)
def test_a_file_that_can_not_be_used_says_why(cassette: Path, content: str, message: str) -> None:
    cassette.parent.mkdir()
    cassette.write_text(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        RecordingMiddleware(cassette)
    assert str(cassette) in str(caught.value)


def test_a_missing_file_and_a_wrong_mode_are_refused(cassette: Path) -> None:
    with pytest.raises(ConfigurationError, match=r'no cassette .*one\.json; make it with mode="record"'):
        RecordingMiddleware(cassette)
    with pytest.raises(ConfigurationError, match='mode must be "replay"'):
        RecordingMiddleware(cassette, "rewind")  # type: ignore[arg-type]


async def test_every_error_class_can_be_recorded(cassette: Path) -> None:
    classes = [kind for kind in _subclasses(SDKError) if not issubclass(kind, AbortError | ConfigurationError)]
    with ScriptedAdapter(*[kind(f"a {kind.__name__}") for kind in classes]) as adapter:
        client = recorder(adapter, cassette)
        for kind in classes:
            with pytest.raises(kind):
                await client.complete(ASK)
    client = player(cassette)
    for kind in classes:
        with pytest.raises(kind, match=f"a {kind.__name__}") as caught:
            await client.complete(ASK)
        assert type(caught.value) is kind


def _subclasses(kind: type[SDKError]) -> list[type[SDKError]]:
    below = [inner for child in kind.__subclasses__() for inner in _subclasses(child)]
    return [kind, *(child for child in below if child.__module__ == "unified_llm.spec.errors")]


JSON = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_values_differ_somewhere_if_and_only_if_they_differ(left: Any, right: Any) -> None:
    assert bool(list(differences(left, right))) == (left != right)
