"""What providers do wrong or oddly, and what programs send them, from the wire to the result, for every protocol."""

import json
from collections.abc import AsyncIterable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from unified_llm import (
    AnthropicAdapter,
    Client,
    ContentFilterError,
    ContentKind,
    ContentPart,
    ContextLengthError,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    ProviderError,
    RateLimitError,
    Request,
    Response,
    RetryPolicy,
    SDKError,
    ServerError,
    StreamError,
    StreamEvent,
    StreamEventType,
    Tool,
    ToolCallData,
    generate,
    stream,
)

_Json = dict[str, Any]
AT_ONCE = RetryPolicy(base_delay=0, jitter=False)
ASK = [Message.user("hi")]


@dataclass(frozen=True)
class Protocol:
    """An adapter, the frames of a streamed text, an error as a frame and what it is, and a body that means too long."""

    make: Callable[[httpx.AsyncClient], ProviderAdapter]
    opening: list[_Json]
    delta: Callable[[str], _Json]
    closing: list[_Json]
    error: tuple[_Json, type[ProviderError]]
    too_long: _Json
    whole: _Json


def item_message(text: str) -> _Json:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def candidate(text: str, **fields: Any) -> _Json:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **fields}]}


PROTOCOLS = {
    "anthropic": Protocol(
        lambda client: AnthropicAdapter(api_key="key", http_client=client),
        [
            {"type": "ping"},
            {"type": "message_start", "message": {"id": "1", "model": "m", "content": [], "usage": {}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ],
        lambda text: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ],
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ServerError),
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
        {"id": "1", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"},
    ),
    "openai": Protocol(
        lambda client: OpenAIAdapter(api_key="key", http_client=client),
        [
            {"type": "response.created", "response": {"id": "1", "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item_message("")},
        ],
        lambda text: {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        },
        [{"type": "response.completed", "response": {"id": "1", "status": "completed", "output": []}}],
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down"}, RateLimitError),
        {
            "error": {
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
                "message": "Your input exceeds the context window of this model.",
            }
        },
        {"id": "1", "status": "completed", "output": [item_message("Hello")]},
    ),
    "openai_compatible": Protocol(
        lambda client: OpenAICompatibleAdapter(base_url="http://chat.test/v1", http_client=client),
        [{"choices": []}],
        lambda text: {"choices": [{"delta": {"content": text}, "finish_reason": None}]},
        [
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60}},
        ],
        ({"error": {"message": "Slow down", "code": 429}}, RateLimitError),
        {"error": {"message": "This model's maximum context length is 8192 tokens", "type": "BadRequestError"}},
        {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}]},
    ),
    "gemini": Protocol(
        lambda client: GeminiAdapter(api_key="key", http_client=client),
        [],
        candidate,
        [candidate("", finishReason="STOP")],
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}}, ServerError),
        {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            }
        },
        candidate("Hello", finishReason="STOP"),
    ),
}
every_protocol = pytest.mark.parametrize("name", PROTOCOLS)


class Server:
    """Answers one request after the other, the last answer again and again; keeps what it was sent."""

    def __init__(self, *answers: httpx.Response | list[_Json] | bytes) -> None:
        self.bodies: list[_Json] = []
        self._answers = list(answers)

    def client(self, name: str) -> Client:
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        return Client({name: PROTOCOLS[name].make(http_client)}, name)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        match answer:
            case httpx.Response():
                return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
            case bytes():
                return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Bytes(answer))
            case frames:
                content = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
                return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)


class _Bytes(httpx.AsyncByteStream):
    """One byte a read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self):
        for byte in self._content:
            yield bytes([byte])


def frames(protocol: Protocol, *texts: str) -> list[_Json]:
    return [*protocol.opening, *(protocol.delta(text) for text in texts), *protocol.closing]


async def read(events: AsyncIterable[StreamEvent], seen: list[str]) -> None:
    """Read to the end, and note the types in `seen` even if the stream fails."""
    async for event in events:
        seen.append(event.type)  # noqa: PERF401 (what is seen before a failure counts)


async def answer_of(client: Client, *, streamed: bool) -> Response:
    if streamed:
        return await stream("m", messages=ASK, client=client).response()
    return (await generate("m", messages=ASK, client=client)).response


# Streams


@pytest.mark.parametrize("written", [b"data: %b\n\n", b"data:%b\n\n", b"data: %b\r\n\r\n", b"data: %b\r\r"])
@every_protocol
async def test_no_text_is_lost_however_the_bytes_arrive(name, written):
    protocol = PROTOCOLS[name]
    sent = frames(protocol, "é you\u2028 ", "🙂", "\U0001d11e")
    server = Server(b"".join(written % json.dumps(frame, ensure_ascii=False).encode() for frame in sent))
    async with server.client(name) as client, stream("m", messages=ASK, client=client) as result:
        texts = [text async for text in result.text_stream]
    assert texts == ["é you\u2028 ", "🙂", "\U0001d11e"]


@every_protocol
async def test_an_error_within_a_stream_is_retried_before_any_text_only(name):
    protocol = PROTOCOLS[name]
    failure, kind = protocol.error
    early = Server([*protocol.opening, failure], frames(protocol, "Hello"))
    async with early.client(name) as client, stream("m", messages=ASK, client=client, retry_policy=AT_ONCE) as result:
        assert (await result.response()).text == "Hello"
    assert len(early.bodies) == 2

    late = Server([*protocol.opening, protocol.delta("Partial"), failure])
    async with late.client(name) as client, stream("m", messages=ASK, client=client, retry_policy=AT_ONCE) as result:
        with pytest.raises(kind) as caught:
            await read(result, [])
    assert len(late.bodies) == 1
    assert caught.value.retryable
    assert caught.value.provider == name
    assert result.partial_response is not None
    assert result.partial_response.text == "Partial"


@every_protocol
async def test_an_error_frame_is_never_a_short_answer(name):
    protocol = PROTOCOLS[name]
    failure, kind = protocol.error
    server = Server([failure])
    seen = []
    async with server.client(name) as client:
        with pytest.raises(kind):
            await read(client.stream(Request(model="m", messages=ASK)), seen)
    assert seen[-1] == StreamEventType.ERROR
    assert StreamEventType.FINISH not in seen


NAMED_ERRORS = [
    (b'{"message": "boom", "code": 429}', RateLimitError, "boom"),
    (b'{"message": "boom"}', SDKError, "boom"),
    (b'{"type": "overloaded_error", "message": "boom"}', ServerError, "boom"),
    (b'"boom"', StreamError, "boom"),
    (b"boom", StreamError, "boom"),
]


@pytest.mark.parametrize(("data", "kind", "said"), NAMED_ERRORS)
@every_protocol
async def test_an_event_that_is_named_error_is_one_whatever_it_holds(name, data, kind, said):
    protocol = PROTOCOLS[name]
    begun = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in protocol.opening)
    server = Server(begun + b"event: error\ndata: " + data + b"\n\n")
    async with server.client(name) as client:
        with pytest.raises(kind, match=said):
            await read(client.stream(Request(model="m", messages=ASK)), [])


# Errors


@every_protocol
async def test_a_provider_that_is_overloaded_is_asked_again(name):
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server = Server(httpx.Response(529, json=overloaded), httpx.Response(200, json=PROTOCOLS[name].whole))
    async with server.client(name) as client:
        result = await generate("m", messages=ASK, client=client, retry_policy=AT_ONCE)
    assert result.text == "Hello"
    assert len(server.bodies) == 2


@every_protocol
async def test_a_prompt_that_is_too_long_is_sent_once(name):
    server = Server(httpx.Response(400, json=PROTOCOLS[name].too_long))
    async with server.client(name) as client:
        with pytest.raises(ContextLengthError) as caught:
            await generate("m", messages=ASK, client=client, retry_policy=AT_ONCE)
    assert not caught.value.retryable
    assert len(server.bodies) == 1


@every_protocol
async def test_a_wait_beyond_the_longest_is_not_waited_for(name):
    server = Server(httpx.Response(429, headers={"retry-after": "90"}, json={"error": {"message": "Slow down"}}))
    async with server.client(name) as client:
        with pytest.raises(RateLimitError) as caught:
            await generate("m", messages=ASK, client=client)
    assert caught.value.retry_after == 90
    assert len(server.bodies) == 1


async def test_a_wait_that_stands_in_the_body_counts():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "75.837906927s"}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded", "details": [info]}}
    server = Server(httpx.Response(429, json=body))
    async with server.client("gemini") as client:
        with pytest.raises(RateLimitError) as caught:
            await generate("m", messages=ASK, client=client)
    assert caught.value.retry_after == pytest.approx(75.837906927)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_blocked_prompt_is_no_empty_answer(streamed):
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}
    server = Server([body] if streamed else httpx.Response(200, json=body))
    async with server.client("gemini") as client:
        call = (
            stream("m", messages=ASK, client=client).response()
            if streamed
            else generate("m", messages=ASK, client=client)
        )
        with pytest.raises(ContentFilterError):
            await call
    assert len(server.bodies) == 1


# Usage


async def test_counts_that_grow_are_not_added_up():
    protocol = PROTOCOLS["anthropic"]
    usage = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "1", "model": "m", "content": [], "usage": usage}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**usage, "output_tokens": 16}}
    server = Server(
        [start, protocol.opening[2], protocol.delta("Hello"), protocol.closing[0], end, protocol.closing[2]]
    )
    async with server.client("anthropic") as client:
        counted = (await stream("m", messages=ASK, client=client).response()).usage
    assert (counted.input_tokens, counted.output_tokens, counted.cache_read_tokens) == (10, 16, 1)


@pytest.mark.parametrize("behind", [False, True])
async def test_a_streams_usage_is_that_of_the_whole_answer(behind):
    counts = {
        "promptTokenCount": 24,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 185,
        "cachedContentTokenCount": 8,
        "totalTokenCount": 214,
    }
    last = candidate("Hello", finishReason="STOP")
    sent = [last, {"usageMetadata": counts}] if behind else [{**last, "usageMetadata": counts}]
    server = Server(sent, httpx.Response(200, json={**last, "usageMetadata": counts}))
    async with server.client("gemini") as client:
        streamed = await stream("m", messages=ASK, client=client).response()
        whole = await generate("m", messages=ASK, client=client)
    assert streamed.usage == whole.usage
    usage = whole.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cache_read_tokens) == (
        24,
        190,
        185,
        8,
    )


# Tool calls


def calls_in(body: Any) -> Iterator[Any]:
    """The arguments of every tool call in a request, whatever the protocol."""
    match body:
        case {"type": "tool_use", "input": arguments} | {"functionCall": {"args": arguments}}:
            yield arguments
        case {"type": "function_call", "arguments": arguments} | {"function": {"arguments": arguments}}:
            yield json.loads(arguments)
        case dict():
            for value in body.values():
                yield from calls_in(value)
        case list():
            for value in body:
                yield from calls_in(value)


def takes(name: str) -> _Json:
    return {"type": "object", "properties": {name: {}}, "required": [name]}


@pytest.mark.parametrize("written", ["", "  ", "{}"])
@every_protocol
async def test_a_call_without_arguments_goes_back_as_one(name, written):
    call = ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text("call_1", "clock", written))
    history = [*ASK, Message.assistant([call]), Message.tool_result("call_1", "noon")]
    server = Server(httpx.Response(200, json=PROTOCOLS[name].whole))
    async with server.client(name) as client:
        await client.complete(Request(model="m", messages=history))
    assert list(
        calls_in(server.bodies[0]["contents" if name == "gemini" else "input" if name == "openai" else "messages"])
    ) == [{}]


async def test_a_call_without_an_id_is_answered_under_the_one_it_gets():
    def chunk(**fields: Any) -> _Json:
        return {"choices": [{"delta": fields.pop("delta", {}), **fields}]}

    parallel = [
        {"index": 0, "function": {"name": "double", "arguments": '{"x":'}},
        {"index": 1, "function": {"name": "double", "arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "function": {"arguments": "2}"}},
    ]
    asking = [*(chunk(delta={"tool_calls": [call]}) for call in parallel), chunk(finish_reason="tool_calls")]
    server = Server(asking, frames(PROTOCOLS["openai_compatible"], "Done"))
    tool = Tool(name="double", description="Doubles", parameters=takes("x"), execute=lambda x: f"{x} doubled")
    async with server.client("openai_compatible") as client:
        assert (await stream("m", messages=ASK, tools=[tool], client=client).response()).text == "Done"
    _, said, *results = server.bodies[1]["messages"]
    ids = [call["id"] for call in said["tool_calls"]]
    assert len({*ids, ""}) == 3
    assert [(result["tool_call_id"], result["content"]) for result in results] == [
        (ids[0], "1 doubled"),
        (ids[1], "2 doubled"),
    ]


async def test_a_signature_without_a_thought_goes_back_with_the_result():
    asking = [
        PROTOCOLS["anthropic"].opening[1],
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t1", "name": "clock", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    server = Server(asking, frames(PROTOCOLS["anthropic"], "Noon"))
    tool = Tool(name="clock", description="Tells the time", execute=lambda: "12:00")
    async with server.client("anthropic") as client:
        await stream("m", messages=ASK, tools=[tool], client=client).response()
    assert server.bodies[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "sig"},
        {"type": "tool_use", "id": "t1", "name": "clock", "input": {}},
    ]


async def test_a_signature_stays_on_its_call_and_results_stand_together():
    calls = [{"functionCall": {"name": "look", "args": {"at": at}}} for at in ("a", "b", "c")]
    calls[0]["thoughtSignature"] = "S"
    asking = [{"candidates": [{"content": {"role": "model", "parts": calls}, "finishReason": "STOP"}]}]
    server = Server(asking, frames(PROTOCOLS["gemini"], "Done"))
    tool = Tool(name="look", description="Looks", parameters=takes("at"), execute=lambda at: f"saw {at}")
    async with server.client("gemini") as client:
        await stream("m", messages=ASK, tools=[tool], client=client).response()
    _, said, results = server.bodies[1]["contents"]
    assert said == {"role": "model", "parts": calls}
    assert results["role"] == "user"
    found = [part["functionResponse"] for part in results["parts"]]
    assert [response["name"] for response in found] == ["look"] * 3
    assert ["saw a" in json.dumps(found[0]), "saw b" in json.dumps(found[1]), "saw c" in json.dumps(found[2])] == [
        True
    ] * 3


# Text


@every_protocol
async def test_half_a_character_anywhere_is_replaced_and_sent_once(name):
    half = "ok \udcb0 end"
    call = ContentPart(
        kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id="call_1", name="t", arguments={half: half})
    )
    history = [
        Message.system(half),
        Message.user(half),
        Message.assistant([ContentPart(kind=ContentKind.TEXT, text=half), call]),
        Message.tool_result("call_1", half),
    ]
    server = Server(httpx.Response(200, json=PROTOCOLS[name].whole))
    tool = Tool(name="t", description=half)
    async with server.client(name) as client:
        await generate("m", messages=history, tools=[tool], client=client)
    assert len(server.bodies) == 1
    written = json.dumps(server.bodies[0], ensure_ascii=False)
    assert written.count("ok \ufffd end") >= 5
    assert "\udcb0" not in written
