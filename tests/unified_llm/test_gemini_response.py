"""Answers of the Gemini API, whole and streamed, hand-written: what the recordings show and what they don't."""

import base64
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.gemini.adapter import GeminiAdapter
from unified_llm.providers.gemini.partial_args import add_partial
from unified_llm.providers.gemini.request import build_request
from unified_llm.providers.gemini.response import StreamDecoder, parse_response
from unified_llm.spec.errors import ContentFilterError, RateLimitError, ServerError, StreamError
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

USAGE = {
    "promptTokenCount": 24,
    "toolUsePromptTokenCount": 6,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 185,
    "cachedContentTokenCount": 8,
    "totalTokenCount": 220,
}

TEXT = {"text": "Hello there"}
SIGNED_TEXT = {"text": "signed", "thoughtSignature": "S1"}
EMPTY = {"text": "", "thoughtSignature": "S2"}
THOUGHT = {"text": "Let me see", "thought": True}
CALL = {"functionCall": {"name": "weather", "args": {"city": "Rome"}, "id": "x7"}, "thoughtSignature": "S3"}
BARE_CALL = {"functionCall": {"name": "clock", "args": {}}}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"png").decode()}}
PARTS = [TEXT, SIGNED_TEXT, EMPTY, THOUGHT, CALL, BARE_CALL, CODE, IMAGE]


def body(*parts, reason="STOP", usage=USAGE, **candidate):
    return {
        "responseId": "r1",
        "modelVersion": "gemini-x",
        "candidates": [
            {"content": {"role": "model", "parts": list(parts)}, "finishReason": reason, "index": 0, **candidate}
        ],
        "usageMetadata": usage,
    }


def chunk(*parts, **candidate):
    return {
        "responseId": "r1",
        "modelVersion": "gemini-x",
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}],
        "usageMetadata": {"promptTokenCount": 24},
    }


def streamed(*parts, size=3, reason="STOP"):
    """The chunks of a stream that brings these parts, the plain texts in pieces of `size` characters."""
    chunks = []
    for part in parts:
        text = part.get("text", "")
        if "thoughtSignature" in part or not text:
            chunks.append(chunk(part))
        else:
            chunks += [chunk({**part, "text": text[at : at + size]}) for at in range(0, len(text), size)]
    return [*chunks, chunk({"text": ""}, finishReason=reason), {"usageMetadata": USAGE, "responseId": "r1"}]


def numbered():
    count = itertools.count(1)
    return lambda: f"call_{next(count)}"


def parse(answer, **options):
    return parse_response(answer, new_id=numbered(), **options)


def decode(chunks, **options):
    decoder = StreamDecoder(new_id=numbered(), **options)
    decoded = [event for payload in chunks for event in decoder.feed(ServerSentEvent("", json.dumps(payload)))]
    return decoded + decoder.finish()


def kinds(events):
    return [str(event.type) for event in events]


# Whole answers


def test_a_whole_answer():
    response = parse(body(THOUGHT, TEXT, CALL, BARE_CALL), headers={"x-ratelimit-remaining-requests": "3"})
    assert (response.id, response.model, response.provider) == ("r1", "gemini-x", "gemini")
    assert response.text == "Hello there"
    assert response.reasoning == "Let me see"
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("x7", "weather", {"city": "Rome"}),
        ("call_1", "clock", {}),
    ]
    assert (response.finish_reason.reason, response.finish_reason.raw) == ("tool_calls", "STOP")
    assert response.raw == body(THOUGHT, TEXT, CALL, BARE_CALL)
    assert response.rate_limit.requests_remaining == 3


def test_ids_that_we_make_up_are_unique():
    calls = parse_response(body(BARE_CALL, BARE_CALL)).tool_calls
    assert len({call.id for call in calls}) == 2
    assert all(call.id.startswith("call_") for call in calls)


def test_usage():
    usage = parse(body(TEXT)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (30, 190, 220)
    assert (usage.reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (185, 8, None)
    assert usage.raw == USAGE


def test_usage_that_is_not_there():
    usage = parse(body(TEXT, usage=None)).usage
    assert (usage.total_tokens, usage.reasoning_tokens, usage.raw) == (0, None, None)


@pytest.mark.parametrize(
    ("parts", "raw", "reason"),
    [
        ([TEXT], "STOP", "stop"),
        ([CALL], "STOP", "tool_calls"),
        ([CALL], "UNEXPECTED_TOOL_CALL", "tool_calls"),
        ([CALL], "FUNCTION_CALL", "tool_calls"),
        ([], "UNEXPECTED_TOOL_CALL", "other"),
        ([CALL], "MAX_TOKENS", "length"),
        ([], "SAFETY", "content_filter"),
        ([], "RECITATION", "content_filter"),
        ([], "PROHIBITED_CONTENT", "content_filter"),
        ([], "MALFORMED_FUNCTION_CALL", "error"),
        ([TEXT], "SOMETHING_NEW", "other"),
        ([TEXT], None, "other"),
    ],
)
def test_finish_reasons(parts, raw, reason):
    finish = parse(body(*parts, reason=raw)).finish_reason
    assert (finish.reason, finish.raw) == (reason, raw)


def test_signatures_stay_on_their_parts():
    first, second, third = parse(body(TEXT, SIGNED_TEXT, EMPTY)).message.content
    assert first.provider_metadata is None
    assert (second.text, second.provider_metadata) == ("signed", {"gemini": {"thoughtSignature": "S1"}})
    assert (third.text, third.provider_metadata) == ("", {"gemini": {"thoughtSignature": "S2"}})


def test_parts_that_are_not_modelled_are_kept_whole():
    odd = [CODE, {"toolCall": {"id": "t1"}, "thoughtSignature": "S"}, {"text": 5}, {"inlineData": {"mimeType": "a/b"}}]
    content = parse(body(*odd)).message.content
    assert [str(part.kind) for part in content] == ["executableCode", "toolCall", "gemini.text", "inlineData"]
    assert [part.provider_metadata["gemini"] for part in content] == odd


def test_a_generated_image():
    (part,) = parse(body(IMAGE)).message.content
    assert (part.image.data, part.image.media_type) == (b"png", "image/png")
    broken = {"inlineData": {"mimeType": "image/png", "data": "cut off!"}}
    (part,) = parse(body(broken)).message.content
    assert part.provider_metadata == {"gemini": broken}


def test_half_a_surrogate_pair_is_replaced():
    broken = json.loads('"a \\udcb0 b"')
    response = parse(body({"text": broken, "thought": True}, {"text": broken}))
    assert response.text == response.reasoning == "a � b"


def test_only_the_first_candidate_is_followed():
    answer = body(TEXT)
    answer["candidates"].append({"content": {"parts": [{"text": "no"}]}, "index": 1, "finishReason": "SAFETY"})
    assert parse(answer).text == "Hello there"
    assert parse(answer).finish_reason.reason == "stop"


BLOCKED = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "why"}, "usageMetadata": USAGE}


def test_a_blocked_prompt_is_a_content_filter_error():
    with pytest.raises(ContentFilterError, match=r"blocked the prompt \(SAFETY\): why") as whole:
        parse(BLOCKED)
    with pytest.raises(ContentFilterError) as stream:
        decode([BLOCKED])
    for caught in (whole, stream):
        assert (caught.value.error_code, caught.value.retryable) == ("SAFETY", False)
        assert caught.value.raw == BLOCKED


def test_an_answer_without_candidates_is_a_server_error():
    with pytest.raises(ServerError, match="without any candidates"):
        parse({"usageMetadata": USAGE})


# Streams


@given(st.lists(st.sampled_from(PARTS), max_size=6), st.integers(1, 20))
def test_a_stream_accumulates_to_the_whole_answer(parts, size):
    finish = decode(streamed(*parts, size=size))[-1]
    assert finish.type == StreamEventType.FINISH
    whole = parse(body(*parts))
    assert finish.response.message == whole.message
    assert finish.response.usage == whole.usage
    assert finish.response.finish_reason == whole.finish_reason
    assert parse(finish.response.raw).message == whole.message


def test_the_events_of_a_stream():
    assert kinds(decode(streamed(THOUGHT, TEXT, EMPTY, CALL, BARE_CALL, CODE, size=6))) == [
        "stream_start",
        *("reasoning_start", "reasoning_delta", "reasoning_delta", "reasoning_end"),
        *("text_start", "text_delta", "text_delta", "text_end"),
        *("text_start", "text_end"),
        *("tool_call_start", "tool_call_end"),
        *("tool_call_start", "tool_call_end"),
        "provider_event",
        "finish",
    ]


def test_what_the_end_events_carry():
    ends = {str(event.type): event for event in decode(streamed(TEXT, CALL))}
    assert ends["text_end"].part.text == "Hello there"
    assert ends["tool_call_start"].tool_call.name == "weather"
    assert ends["tool_call_end"].tool_call.arguments == {"city": "Rome"}
    assert ends["tool_call_end"].part.provider_metadata["gemini"]["thoughtSignature"] == "S3"
    assert ends["finish"].finish_reason.reason == "tool_calls"


def test_counts_may_come_with_the_finish_reason_or_after_it():
    *before, last = streamed(TEXT)[:-1]
    after = decode(streamed(TEXT))[-1].usage
    assert decode([*before, {**last, "usageMetadata": USAGE}])[-1].usage == after == parse(body(TEXT)).usage


def test_grounding_passes_through_and_is_kept():
    grounding = {"groundingChunks": [{"web": {"uri": "https://x.example"}}]}
    chunks = [chunk(TEXT, groundingMetadata=grounding), chunk(finishReason="STOP")]
    events = decode(chunks)
    assert [event.raw for event in events if event.type == StreamEventType.PROVIDER_EVENT] == chunks[:1]
    assert events[-1].response.raw["candidates"][0]["groundingMetadata"] == grounding


def test_an_answer_that_is_filtered_halfway_keeps_its_text():
    response = decode([chunk(TEXT), {"candidates": [{"finishReason": "SAFETY"}]}])[-1].response
    assert (response.text, response.finish_reason.reason) == ("Hello there", "content_filter")


ERRORS = [
    {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "later"}},
    {"error": {"code": 429, "message": "later"}},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_error_in_a_stream_is_raised(error, before):
    with pytest.raises(RateLimitError, match="later"):
        decode([*streamed(TEXT)[:before], error])


@pytest.mark.parametrize("length", range(len(streamed(TEXT, CALL)) - 1))
def test_a_stream_without_a_finish_reason_is_an_error(length):
    with pytest.raises(StreamError, match="ended before"):
        decode(streamed(TEXT, CALL)[:length])


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        '"text"',
        '{"candidates": 5}',
        '{"candidates": [5]}',
        '{"candidates": [{"content": {"parts": [5]}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]}',
        '{"candidates": [{"content": {"parts": [{"functionCall": {"name": 5}}]}}]}',
        "[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_understood_is_a_stream_error(data):
    decoder = StreamDecoder()
    with pytest.raises(StreamError, match="can't be understood") as caught:
        decoder.feed(ServerSentEvent("x", data))
    assert caught.value.raw["data"] == data[:4096]


# Arguments in pieces


def pieces(*calls):
    return [chunk({"functionCall": call}) for call in calls]


def test_arguments_that_come_in_pieces():
    chunks = pieces(
        {"name": "mail", "id": "m1", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.to[0].name", "stringValue": "Jo"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.body", "stringValue": "Hel", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.body", "stringValue": "lo"}], "willContinue": True},
        {
            "partialArgs": [
                {"jsonPath": "$.urgent", "boolValue": False},
                {"jsonPath": "$['reply to']", "nullValue": "NULL_VALUE"},
                {"jsonPath": "$.to[1].age", "numberValue": 7},
            ],
            "willContinue": True,
        },
        {},
    )
    events = decode([*chunks, chunk(finishReason="STOP")])
    assert kinds(events) == ["stream_start", "tool_call_start", "tool_call_end", "finish"]
    (call,) = events[-1].response.tool_calls
    assert (call.id, call.name) == ("m1", "mail")
    assert call.arguments == {
        "to": [{"name": "Jo"}, {"age": 7}],
        "body": "Hello",
        "urgent": False,
        "reply to": None,
    }


def test_a_call_ends_where_the_next_begins_or_the_answer_ends():
    chunks = pieces({"name": "a", "willContinue": True}, {"name": "b", "willContinue": True})
    calls = decode([*chunks, chunk(finishReason="MAX_TOKENS")])[-1].response.tool_calls
    assert [call.name for call in calls] == ["a", "b"]
    chunks = [*pieces({"name": "a", "willContinue": True}), chunk(TEXT, finishReason="STOP")]
    assert kinds(decode(chunks))[1:4] == ["tool_call_start", "tool_call_end", "text_start"]


def test_a_text_is_replaced_unless_it_goes_on():
    arguments = {}
    for value in ("one", "two"):
        add_partial(arguments, {"jsonPath": "$.a", "stringValue": value}, continues=False)
    assert arguments == {"a": "two"}


@pytest.mark.parametrize("path", ["", "$", "$.", "a", "$.a[x]", "$.list[5]", "$.text.deeper", "$.list.name", "$.a[0]"])
def test_a_path_that_leads_nowhere_is_refused(path):
    with pytest.raises(ValueError):
        add_partial({"list": [], "text": "t", "a": {}}, {"jsonPath": path, "stringValue": "v"}, continues=False)


# Round trips


@pytest.mark.parametrize("parts", [None, streamed(THOUGHT, TEXT, SIGNED_TEXT, EMPTY, CALL, BARE_CALL, CODE, IMAGE)])
def test_what_came_goes_back_as_it_came(parts):
    sent = [THOUGHT, TEXT, SIGNED_TEXT, EMPTY, CALL, BARE_CALL, CODE, IMAGE]
    response = parse(body(*sent)) if parts is None else decode(parts)[-1].response
    restored = Message.model_validate_json(response.message.model_dump_json())
    answers = [Message.tool_result(call.id, "ok") for call in response.tool_calls]
    wire = build_request(Request(model="gemini-3.1-pro-preview", messages=[Message.user("go"), restored, *answers]))
    assert wire.body["contents"][1] == {"role": "model", "parts": sent}
    assert [part["functionResponse"].get("id") for part in wire.body["contents"][2]["parts"]] == ["x7", None]
    assert wire.warnings == ()


# The adapter, with recordings of our own


def recording(replay, content, *, stream, status=200):
    return replay.Recording("own", "gemini", stream, status, {}, content, {"model": "gemini-2.5-flash"})


def sse(chunks):
    return "".join(f"data: {json.dumps(payload)}\r\n\r\n" for payload in chunks).encode()


def make_adapter(client):
    return GeminiAdapter(api_key="key", base_url="http://recorded", http_client=client)


@pytest.mark.parametrize("form", ["events", "array"])
async def test_the_adapter_streams(replay, form):
    chunks = streamed(THOUGHT, TEXT, EMPTY, CALL, BARE_CALL, CODE, IMAGE)
    content = sse(chunks) if form == "events" else json.dumps(chunks, indent=1).encode()
    observed = await replay.replay(make_adapter, recording(replay, content, stream=True))
    assert replay.check_discipline(observed) == []


async def test_an_array_that_is_cut_short_is_an_error(replay):
    content = json.dumps(streamed(TEXT)).encode()
    for cut in range(1, len(content), 20):
        observed = await replay.replay(make_adapter, recording(replay, content[:cut], stream=True))
        assert isinstance(observed.error, StreamError)


@pytest.mark.parametrize("content", [b'{"object": "list"}', b'{"candidates": "text"}', b'{"candidates": [1]}'])
async def test_json_that_is_no_answer_is_a_server_error(replay, content):
    observed = await replay.replay(make_adapter, recording(replay, content, stream=False))
    assert isinstance(observed.error, ServerError)
    assert observed.error.raw == json.loads(content)


async def test_a_failure_of_a_stream_is_yielded_and_raised(replay):
    observed = await replay.replay(make_adapter, recording(replay, sse([*streamed(TEXT)[:2], ERRORS[0]]), stream=True))
    assert isinstance(observed.error, RateLimitError)
    assert kinds(observed.events) == ["stream_start", "text_start", "text_delta", "text_delta", "error"]
    assert observed.events[-1].error is observed.error
    assert observed.error.status_code is None


async def test_text_survives_whatever_the_bytes_are_cut_at(replay):
    content = sse([chunk({"text": "é你🙂"}), chunk(finishReason="STOP")]).replace(b"\\u00e9", "é".encode())
    for size in (1, 2, 3):
        whole = recording(replay, content, stream=True)
        observed = await replay.replay(make_adapter, whole, chunks=replay.pieces(content, size))
        assert observed.response.text == "é你🙂"


async def test_warnings_reach_the_response_and_the_stream(replay):
    request = Request(model="m", messages=[Message.user("x")], metadata={"team": "blue"})
    whole = recording(replay, json.dumps(body(TEXT)).encode(), stream=False)
    stream = recording(replay, sse(streamed(TEXT)), stream=True)
    first = await replay.replay(make_adapter, whole, request=request)
    second = await replay.replay(make_adapter, stream, request=request)
    assert [warning.code for warning in first.response.warnings] == ["metadata_dropped"]
    assert [warning.code for warning in second.events[0].warnings] == ["metadata_dropped"]
    assert second.response.warnings == first.response.warnings
