"""Answers of the Responses API, whole and streamed, hand-written: what the recordings show and what they don't."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.openai.adapter import OpenAIAdapter
from unified_llm.providers.openai.request import build_request
from unified_llm.providers.openai.response import StreamDecoder, parse_response
from unified_llm.spec.errors import (
    ContextLengthError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    StreamError,
)
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 12},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}


def body(*output, status="completed", **fields):
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "model": "gpt-x-2026",
        "output": list(output),
        "error": None,
        "incomplete_details": None,
        "usage": USAGE,
        **fields,
    }


def message(*texts, **fields):
    content = [{"type": "output_text", "annotations": [], "text": text} for text in texts]
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **fields,
    }


TEXT = message("Hello there", phase="final_answer")
TEXTS = message("One", "Two", id="msg_2")
REFUSAL = {**message(id="msg_3"), "content": [{"type": "refusal", "refusal": "I won't"}]}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
SUMMARY = {
    "type": "reasoning",
    "id": "rs_2",
    "summary": [{"type": "summary_text", "text": text} for text in ("First ...", "Then ...")],
    "encrypted_content": "F",
}
OPEN = {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me see"}]}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city":"Rome"}',
    "status": "completed",
}
EMPTY_CALL = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "clock", "arguments": ""}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "patch", "input": "*** Begin"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
ITEMS = [TEXT, TEXTS, REFUSAL, SEALED, SUMMARY, OPEN, CALL, EMPTY_CALL, CUSTOM, SEARCH]


def cut(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


def streamed(*output, size=3, places=True, end="response.completed", **fields):
    """The events of a stream that brings these items in deltas of `size` characters.

    `places` says whether the events carry `output_index` and `content_index`.
    """
    start = {"id": "resp_1", "object": "response", "status": "in_progress"}
    events = [{"type": f"response.{step}", "response": start} for step in ("created", "in_progress")]
    for index, item in enumerate(output):
        begun = {**item, "content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
        begun = {name: value for name, value in begun.items() if name in item and name != "encrypted_content"}
        told = [{"type": "response.output_item.added", "item": begun}, *pieces_of(item, size)]
        told.append({"type": "response.output_item.done", "item": item})
        events += [{**event, "output_index": index} for event in told] if places else map(without_places, told)
    return [*events, {"type": "keepalive"}, {"type": end, "response": body(*output, **fields)}]


def pieces_of(item, size):
    at = {"item_id": item["id"]}
    match item["type"]:
        case "message":
            for place, block in enumerate(item["content"]):
                name = "output_text" if "text" in block else "refusal"
                text = block.get("text", block.get("refusal"))
                where = {**at, "content_index": place}
                yield {"type": "response.content_part.added", **where, "part": {"type": name}}
                for piece in cut(text, size):
                    yield {"type": f"response.{name}.delta", **where, "delta": piece}
                yield {"type": f"response.{name}.done", **where}
                yield {"type": "response.content_part.done", **where}
        case "reasoning":
            for kind, key, place in (
                ("reasoning_summary_text", "summary", "summary_index"),
                ("reasoning_text", "content", "content_index"),
            ):
                for number, piece in enumerate(item.get(key, ())):
                    for text in cut(piece["text"], size):
                        yield {"type": f"response.{kind}.delta", **at, place: number, "delta": text}
        case "function_call":
            for piece in cut(item["arguments"], size):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
        case "custom_tool_call":
            for piece in cut(item["input"], size):
                yield {"type": "response.custom_tool_call_input.delta", **at, "delta": piece}
        case "web_search_call":
            yield {"type": "response.web_search_call.searching", **at}


def without_places(event):
    return {name: value for name, value in event.items() if name not in ("output_index", "content_index")}


def decode(events, **options):
    decoder = StreamDecoder(**options)
    decoded = [event for payload in events for event in decoder.feed(ServerSentEvent("", json.dumps(payload)))]
    return decoded + decoder.finish()


def kinds(events):
    return [str(event.type) for event in events]


# Whole answers


def test_a_whole_answer():
    response = parse_response(body(SUMMARY, TEXT, CALL), headers={"x-ratelimit-remaining-requests": "3"})
    assert (response.id, response.model, response.provider) == ("resp_1", "gpt-x-2026", "openai")
    assert response.text == "Hello there"
    assert response.reasoning == "First ...Then ..."
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("call_1", "weather", {"city": "Rome"})
    ]
    assert (response.finish_reason.reason, response.finish_reason.raw) == ("tool_calls", "completed")
    assert response.raw == body(SUMMARY, TEXT, CALL)
    assert response.rate_limit.requests_remaining == 3


def test_usage():
    usage = parse_response(body(TEXT)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 30, 130)
    assert (usage.reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (20, 80, 12)
    assert usage.raw == USAGE


def test_usage_that_is_not_there():
    usage = parse_response(body(TEXT, usage=None)).usage
    assert (usage.total_tokens, usage.reasoning_tokens, usage.raw) == (0, None, None)


@pytest.mark.parametrize(
    ("item", "fields", "reason", "raw"),
    [
        (TEXT, {}, "stop", "completed"),
        (CALL, {}, "tool_calls", "completed"),
        (CUSTOM, {}, "tool_calls", "completed"),
        (REFUSAL, {}, "content_filter", "completed"),
        (
            CALL,
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            TEXT,
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            "content_filter",
        ),
        (TEXT, {"status": "incomplete", "incomplete_details": {"reason": "new"}}, "other", "new"),
        (TEXT, {"status": "incomplete"}, "other", "incomplete"),
        (TEXT, {"status": "queued"}, "other", "queued"),
        (TEXT, {"status": None}, "stop", None),
    ],
)
def test_finish_reasons(item, fields, reason, raw):
    finish = parse_response(body(item, **fields)).finish_reason
    assert (finish.reason, finish.raw) == (reason, raw)


def test_reasoning_that_cannot_be_read_is_a_part_without_text():
    first, _ = parse_response(body(SEALED, CALL)).message.content
    assert (first.kind, first.thinking.text) == ("thinking", "")
    assert first.provider_metadata == {"openai": SEALED}
    assert parse_response(body(SEALED, CALL)).reasoning is None


def test_items_that_are_not_modelled_are_kept_whole():
    odd = {"type": "image", "id": "x"}
    content = parse_response(body(SEARCH, odd)).message.content
    assert [str(part.kind) for part in content] == ["web_search_call", "openai.image"]
    assert [part.provider_metadata["openai"] for part in content] == [SEARCH, odd]


def test_a_generated_image():
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "output_format": "webp"}
    (part,) = parse_response(body({**item, "result": base64.b64encode(b"RIFF").decode()})).message.content
    assert (part.image.data, part.image.media_type) == (b"RIFF", "image/webp")
    broken = {**item, "result": "not base64!"}
    (part,) = parse_response(body(broken)).message.content
    assert part.provider_metadata == {"openai": broken}


def test_citations_are_kept_with_their_text():
    cited = {"type": "url_citation", "url": "https://x.example", "title": "x", "start_index": 0, "end_index": 2}
    block = {"type": "output_text", "text": "so", "annotations": [cited], "logprobs": [{"token": "so"}]}
    (part,) = parse_response(body({**message(), "content": [block]})).message.content
    assert part.provider_metadata["openai"]["content"] == {"type": "output_text", "annotations": [cited]}


def test_half_a_surrogate_pair_is_replaced():
    broken = json.loads('"a \\udcb0 b"')
    response = parse_response(
        body(message(broken), {**SUMMARY, "summary": [{"text": broken}]}, {**CUSTOM, "input": broken})
    )
    assert response.text == response.reasoning == response.tool_calls[0].raw_arguments == "a � b"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "oops"}, ServerError),
        ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimitError),
        ({"code": "insufficient_quota", "message": "pay"}, QuotaExceededError),
        ({"code": "context_length_exceeded", "message": "long"}, ContextLengthError),
        (None, ProviderError),
    ],
)
def test_a_failed_response_is_raised(error, kind):
    failed = body(status="failed", error=error)
    with pytest.raises(kind):
        parse_response(failed)
    for events in ([{"type": "response.failed", "response": failed}], [{"type": "response.done", "response": failed}]):
        with pytest.raises(kind):
            decode(events)


# Streams


@given(st.lists(st.sampled_from(ITEMS), max_size=6), st.integers(1, 20), st.booleans())
def test_a_stream_accumulates_to_the_whole_answer(items, size, places):
    output = [
        {**item, "id": f"{item['id']}_{n}", **({"call_id": f"call_{n}"} if "call_id" in item else {})}
        for n, item in enumerate(items)
    ]
    finish = decode(streamed(*output, size=size, places=places))[-1]
    assert finish.type == StreamEventType.FINISH
    assert finish.response == parse_response(body(*output))


def test_the_events_of_a_stream():
    assert kinds(decode(streamed(SUMMARY, SEALED, TEXTS, EMPTY_CALL, SEARCH, size=100))) == [
        "stream_start",
        *("reasoning_start", "reasoning_delta", "reasoning_start", "reasoning_delta"),
        *("reasoning_end", "reasoning_end"),
        *("reasoning_start", "reasoning_end"),
        *("text_start", "text_delta", "text_start", "text_delta", "text_end", "text_end"),
        *("tool_call_start", "tool_call_end"),
        *("provider_event", "provider_event", "provider_event"),
        "finish",
    ]


def test_what_the_end_events_carry():
    ends = {str(event.type): event for event in decode(streamed(TEXT, CALL))}
    assert ends["text_end"].part.text == "Hello there"
    assert ends["tool_call_start"].tool_call.name == "weather"
    assert ends["tool_call_end"].tool_call.arguments == {"city": "Rome"}
    assert ends["finish"].finish_reason.reason == "tool_calls"
    assert ends["finish"].usage.cache_read_tokens == 80


def test_an_end_without_output_keeps_what_was_streamed():
    *events, end = streamed(SEALED, CALL)
    for output in ([], None):
        finish = decode([*events, {**end, "response": {**end["response"], "output": output}}])[-1]
        assert finish.response.message == parse_response(body(SEALED, CALL)).message
        assert finish.response.raw["output"] == [SEALED, CALL]


def test_an_end_that_is_all_there_is_tells_everything():
    events = decode([streamed(SUMMARY, TEXT, CALL, SEARCH)[-1]])
    assert events[-1].response == parse_response(body(SUMMARY, TEXT, CALL, SEARCH))
    assert "".join(event.delta or "" for event in events if event.type == StreamEventType.TEXT_DELTA) == "Hello there"


def test_deltas_alone_are_enough():
    *events, end = [event for event in streamed(TEXT, CALL) if event["type"] != "response.output_item.done"]
    finish = decode([*events, {**end, "response": {**end["response"], "output": []}}])[-1]
    assert finish.response.text == "Hello there"
    assert finish.response.tool_calls == parse_response(body(CALL)).tool_calls


def test_text_that_was_not_streamed_is_made_up_for():
    events = [event for event in streamed(TEXT, CALL, size=4) if event.get("delta") not in ("ere", 'Rome"}', '"}')]
    decoded = decode(events)
    texts = [event.delta for event in decoded if event.type == StreamEventType.TEXT_DELTA]
    assert texts == ["Hell", "o th", "ere"]
    assert decoded[-1].response == parse_response(body(TEXT, CALL))


def test_what_was_streamed_stands():
    events = [
        {**event, "delta": "Hallo"} if event.get("delta") == "Hello there" else event
        for event in streamed(TEXT, size=99)
    ]
    assert decode(events)[-1].response.text == "Hallo"


def test_ids_that_change_from_event_to_event_do_not_matter():
    events = [
        {**event, **({"item_id": f"x{n}"} if "item_id" in event else {})}
        for n, event in enumerate(streamed(TEXT, CALL))
    ]
    assert decode(events)[-1].response == parse_response(body(TEXT, CALL))


def test_nothing_says_which_item_is_meant():
    events = [
        {name: value for name, value in event.items() if name not in ("output_index", "item_id")}
        for event in streamed(TEXT)
    ]
    assert decode(events)[-1].response == parse_response(body(TEXT))


def test_a_call_without_a_call_id_gets_one():
    nameless = {name: value for name, value in CALL.items() if name != "call_id"}
    (call,) = decode(streamed(nameless))[-1].response.tool_calls
    assert call.id == "fc_1"


def test_arguments_that_are_cut_off_stay_text():
    cut_off = {**CALL, "arguments": '{"city":"Ro', "status": "incomplete"}
    details = {"reason": "max_output_tokens"}
    finish = decode(streamed(cut_off, end="response.incomplete", status="incomplete", incomplete_details=details))[-1]
    (call,) = finish.response.tool_calls
    assert (call.arguments, call.raw_arguments) == ({}, '{"city":"Ro')
    assert "JSON" in call.parse_error
    assert finish.finish_reason.reason == "length"


def test_the_name_of_the_last_event_is_a_status():
    end = {"type": "response.incomplete", "response": {"id": "r", "output": []}}
    assert decode([end])[-1].finish_reason.raw == "incomplete"


def test_a_server_that_does_not_stream_is_understood():
    assert decode([body(TEXT, CALL)])[-1].response == parse_response(body(TEXT, CALL))


def test_what_is_unknown_passes_through():
    unknown = {"type": "response.brand_new", "n": 1}
    start, *rest = streamed(TEXT)
    decoded = decode([start, unknown, *rest])
    assert [event.raw for event in decoded if event.type == StreamEventType.PROVIDER_EVENT] == [unknown]


ERRORS = [
    {"type": "error", "error": {"type": "too_many_requests", "code": "rate_limit_exceeded", "message": "later"}},
    {"type": "error", "code": "rate_limit_exceeded", "message": "later", "param": None},
    {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "later"}}},
    {"error": {"code": 429, "message": "later"}},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("before", [0, 1, 4, 6])
def test_an_error_in_a_stream_is_raised(error, before):
    with pytest.raises(RateLimitError, match="later"):
        decode([*streamed(TEXT)[:before], error])


@pytest.mark.parametrize("length", range(len(streamed(TEXT, CALL)) - 1))
def test_a_stream_without_its_end_is_an_error(length):
    with pytest.raises(StreamError, match="ended before"):
        decode(streamed(TEXT, CALL)[:length])


def test_done_is_no_end():
    decoder = StreamDecoder()
    decoder.feed(ServerSentEvent("", json.dumps(streamed(TEXT)[0])))
    assert decoder.feed(ServerSentEvent("", "[DONE]")) == []
    with pytest.raises(StreamError, match="ended before"):
        decoder.finish()


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        '"text"',
        '{"type": "response.completed"}',
        '{"type": "response.completed", "response": 5}',
        '{"type": "response.completed", "response": {"output": [5]}}',
        '{"type": "response.output_item.added", "item": {"type": "function_call"}}',
        '{"type": "response.output_item.done"}',
        '{"type": "response.output_text.delta", "delta": 5}',
        '{"type": "response.output_text.delta"}',
        "[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_understood_is_a_stream_error(data):
    decoder = StreamDecoder()
    with pytest.raises(StreamError, match="can't be understood") as caught:
        decoder.feed(ServerSentEvent("x", data))
    assert caught.value.raw["data"] == data[:4096]


# Round trips


@pytest.mark.parametrize("events", [None, streamed(SEALED, SUMMARY, TEXTS, REFUSAL, CALL, CUSTOM, SEARCH)])
def test_what_came_goes_back_as_it_came(events):
    output = [SEALED, SUMMARY, TEXTS, REFUSAL, CALL, CUSTOM, SEARCH]
    response = parse_response(body(*output)) if events is None else decode(events)[-1].response
    restored = Message.model_validate_json(response.message.model_dump_json())
    answers = [Message.tool_result("call_1", "a"), Message.tool_result("call_3", "b")]
    wire = build_request(Request(model="gpt-5.2", messages=[Message.user("go"), restored, *answers]))
    assert wire.body["input"][1:-2] == output
    assert [item["type"] for item in wire.body["input"][-2:]] == ["function_call_output", "custom_tool_call_output"]
    assert wire.warnings == ()


# The adapter, with recordings of our own


def recording(replay, content, *, stream, status=200):
    return replay.Recording("own", "openai-responses", stream, status, {}, content, {"model": "gpt-5.2"})


def sse(events, *, named=True):
    return "".join(f"event: {event['type']}\n" * named + f"data: {json.dumps(event)}\n\n" for event in events).encode()


def make_adapter(client):
    return OpenAIAdapter(api_key="key", base_url="http://recorded/v1", http_client=client)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("places", [True, False])
async def test_the_adapter_streams(replay, named, places):
    content = sse(streamed(SEALED, SUMMARY, TEXTS, CALL, SEARCH, places=places), named=named) + b"data: [DONE]\n\n"
    observed = await replay.replay(make_adapter, recording(replay, content, stream=True))
    assert replay.check_discipline(observed) == []
    assert json.loads(observed.requests[0].content)["stream"] is True


@pytest.mark.parametrize("content", [b'{"object": "list"}', b'{"output": "text"}', b'{"output": [1], "id": 5}'])
async def test_json_that_is_no_response_is_a_server_error(replay, content):
    observed = await replay.replay(make_adapter, recording(replay, content, stream=False))
    assert isinstance(observed.error, ServerError)
    assert observed.error.raw == json.loads(content)


async def test_a_failure_of_a_stream_is_yielded_and_raised(replay):
    observed = await replay.replay(make_adapter, recording(replay, sse([*streamed(TEXT)[:6], ERRORS[0]]), stream=True))
    assert isinstance(observed.error, RateLimitError)
    assert kinds(observed.events) == ["stream_start", "text_start", "text_delta", "text_delta", "error"]
    assert observed.events[-1].error is observed.error
    assert observed.error.status_code is None


async def test_warnings_reach_the_response_and_the_stream(replay):
    request = Request(model="m", messages=[Message.user("x")], stop_sequences=["END"])
    whole = recording(replay, json.dumps(body(TEXT)).encode(), stream=False)
    stream = recording(replay, sse(streamed(TEXT)), stream=True)
    first = await replay.replay(make_adapter, whole, request=request)
    second = await replay.replay(make_adapter, stream, request=request)
    assert [warning.code for warning in first.response.warnings] == ["stop_dropped"]
    assert [warning.code for warning in second.events[0].warnings] == ["stop_dropped"]
    assert second.response.warnings == first.response.warnings
