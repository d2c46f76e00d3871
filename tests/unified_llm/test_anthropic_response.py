"""Answers of the Messages API, whole and streamed, hand-written: what the recordings show and what they don't."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.anthropic.adapter import AnthropicAdapter
from unified_llm.providers.anthropic.response import StreamDecoder, parse_response
from unified_llm.spec.errors import RateLimitError, ServerError, StreamError
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import ContentKind, Message
from unified_llm.spec.request import Request, ResponseFormat

USAGE = {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10, "output_tokens": 16}


def body(*content, stop_reason="end_turn", usage=USAGE):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def streamed(*content, stop_reason="end_turn", size=3):
    """The events of a stream that brings this content in deltas of `size` characters."""
    start = body(usage={"input_tokens": 9, "cache_read_input_tokens": 100, "output_tokens": 1}, stop_reason=None)
    events = [{"type": "message_start", "message": start}, {"type": "ping"}]
    fields = {"text": ("text", "text_delta", "text"), "thinking": ("thinking", "thinking_delta", "thinking")}
    for index, block in enumerate(content):
        kind = block["type"]
        deltas = []
        if kind in fields:
            field, delta, key = fields[kind]
            first, value = {**block, field: ""}, block[field]
            deltas = [{"type": delta, key: value[at : at + size]} for at in range(0, len(value), size)]
            if "signature" in block:
                first["signature"] = ""
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif "input" in block:
            first, value = {**block, "input": {}}, json.dumps(block["input"]) if block["input"] else ""
            pieces = [value[at : at + size] for at in range(0, len(value), size)] or [""]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        else:
            first = block
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": USAGE})
    events.append({"type": "message_stop"})
    return events


def decode(events, **options):
    decoder = StreamDecoder(**options)
    decoded = [event for payload in events for event in decoder.feed(ServerSentEvent("", json.dumps(payload)))]
    return decoded + decoder.finish()


TEXT = {"type": "text", "text": "Hello there"}
CALL = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}
EMPTY_CALL = {"type": "tool_use", "id": "t2", "name": "clock", "input": {}, "caller": {"type": "direct"}}
THOUGHT = {"type": "thinking", "thinking": "Let me see ...", "signature": "sig"}
SEALED = {"type": "thinking", "thinking": "", "signature": "only a signature"}
REDACTED = {"type": "redacted_thinking", "data": "opaque"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "E"}]}
BLOCKS = [TEXT, CALL, EMPTY_CALL, THOUGHT, SEALED, REDACTED, SEARCH, FOUND]


def test_a_whole_answer():
    response = parse_response(body(THOUGHT, TEXT, CALL, stop_reason="tool_use"), headers={"request-id": "r"})
    assert (response.id, response.model, response.provider) == ("msg_1", "claude-x", "anthropic")
    assert response.text == "Hello there"
    assert response.reasoning == "Let me see ..."
    assert [(call.id, call.name, call.arguments) for call in response.tool_calls] == [
        ("t1", "weather", {"city": "Rome"})
    ]
    assert (response.finish_reason.reason, response.finish_reason.raw) == ("tool_calls", "tool_use")
    assert response.message.content[0].thinking.signature == "sig"
    assert response.raw["content"][1] == TEXT
    assert response.rate_limit is None


def test_usage_counts_the_cached_prompt_as_input():
    usage = parse_response(body(TEXT)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (119, 16, 135)
    assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (100, 10, None)
    assert usage.raw == USAGE


@pytest.mark.parametrize(
    ("content", "details", "tokens"),
    [
        ([THOUGHT], {"thinking_tokens": 7}, 7),
        ([THOUGHT], None, 4),
        ([{"type": "thinking", "thinking": "x" * 1000, "signature": ""}], None, 16),
        ([REDACTED, TEXT], None, None),
    ],
)
def test_reasoning_tokens_are_counted_or_estimated(content, details, tokens):
    usage = {**USAGE, "output_tokens_details": details}
    assert parse_response(body(*content, usage=usage)).usage.reasoning_tokens == tokens


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
def test_finish_reasons(raw, reason):
    finish = parse_response(body(TEXT, stop_reason=raw)).finish_reason
    assert (finish.reason, finish.raw) == (reason, raw)


def test_a_stop_with_calls_is_a_call():
    assert parse_response(body(CALL, stop_reason="end_turn")).finish_reason.reason == "tool_calls"


def test_rate_limits_come_from_the_headers():
    headers = {"anthropic-ratelimit-requests-remaining": "3", "anthropic-ratelimit-requests-limit": "5"}
    limit = parse_response(body(TEXT), headers=headers).rate_limit
    assert (limit.requests_remaining, limit.requests_limit) == (3, 5)


def test_blocks_that_are_not_modelled_are_kept_whole():
    odd = {"type": "text", "text": None}
    content = parse_response(body(SEARCH, FOUND, odd)).message.content
    assert [str(part.kind) for part in content] == ["server_tool_use", "web_search_tool_result", "anthropic.text"]
    assert [part.provider_metadata["anthropic"] for part in content] == [SEARCH, FOUND, odd]


@given(st.lists(st.sampled_from(BLOCKS), max_size=6), st.integers(1, 20))
def test_a_stream_accumulates_to_the_whole_answer(blocks, size):
    content = [{**block, **({"id": f"{block['id']}_{n}"} if "id" in block else {})} for n, block in enumerate(blocks)]
    finish = decode(streamed(*content, size=size))[-1]
    assert finish.type == StreamEventType.FINISH
    assert finish.response == parse_response(body(*content))


def test_the_events_of_a_stream():
    types = [str(event.type) for event in decode(streamed(THOUGHT, TEXT, EMPTY_CALL, REDACTED, SEARCH, size=100))]
    assert types == [
        "stream_start",
        *("reasoning_start", "reasoning_delta", "reasoning_end"),
        *("text_start", "text_delta", "text_end"),
        *("tool_call_start", "tool_call_end"),
        *("reasoning_start", "reasoning_end"),
        *("provider_event", "provider_event", "provider_event"),
        "finish",
    ]


def test_what_the_end_events_carry():
    events = decode(streamed(TEXT, CALL, stop_reason="tool_use"))
    ends = {str(event.type): event for event in events}
    assert ends["text_end"].part.text == "Hello there"
    assert ends["tool_call_start"].tool_call.name == "weather"
    assert ends["tool_call_end"].tool_call.arguments == {"city": "Rome"}
    assert ends["finish"].finish_reason.reason == "tool_calls"
    assert ends["finish"].usage.input_tokens == 119


def test_blocks_may_interleave_and_stay_open():
    events = streamed(TEXT, CALL, stop_reason="max_tokens")
    of_block = {n: [event for event in events if event.get("index") == n] for n in (0, 1)}
    start, ping, *_, delta, stop = events
    mixed = [event for pair in zip(*of_block.values(), strict=False) for event in pair]
    mixed = [event for event in mixed if event["type"] != "content_block_stop"]
    finish = decode([start, ping, *mixed, delta, stop])[-1]
    first, second = finish.response.message.content
    assert first.text == "Hello there"
    assert second.tool_call.name == "weather"


def test_arguments_that_are_cut_off_stay_text():
    events = streamed({**CALL, "input": {"city": "Rome, the eternal"}})
    cut = [event for event in events if (event.get("delta") or {}).get("partial_json") != '"}']
    cut = [event for event in cut if not str((event.get("delta") or {}).get("partial_json", "")).endswith("}")]
    (call,) = decode(cut)[-1].response.tool_calls
    assert call.arguments == {}
    assert call.raw_arguments.startswith('{"city": "Rome')
    assert "JSON" in call.parse_error


def test_what_is_unknown_passes_through():
    unknown = {"type": "brand_new_event", "n": 1}
    events = streamed(TEXT)
    decoded = decode([events[0], unknown, *events[1:]])
    assert [event.raw for event in decoded if event.type == StreamEventType.PROVIDER_EVENT] == [unknown]


def test_unknown_deltas_build_their_block():
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": text}}
        for text in ("so ", "far")
    ]
    first, *_, delta, stop = streamed()
    (part,) = decode([first, start, *deltas, {"type": "content_block_stop", "index": 0}, delta, stop])[
        -1
    ].response.message.content
    assert part.provider_metadata == {"anthropic": {"type": "compaction", "content": "so far"}}


ERROR = {"type": "error", "error": {"type": "rate_limit_error", "message": "retry later"}}


@pytest.mark.parametrize("before", [0, 1, 2, 4])
def test_an_error_in_a_stream_is_raised(before):
    with pytest.raises(RateLimitError, match="retry later"):
        decode([*streamed(TEXT)[:before], ERROR])


@pytest.mark.parametrize("length", range(len(streamed(TEXT, CALL)) - 1))
def test_a_stream_without_its_end_is_an_error(length):
    with pytest.raises(StreamError, match="ended before"):
        decode(streamed(TEXT, CALL)[:length])


@pytest.mark.parametrize(
    "data",
    [
        "not json",
        "[]",
        "{}",
        '{"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}',
        '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}',
        '{"type": "message_start"}',
        '{"type": "message_stop"}',
        "[" * 100_000,
    ],
)
def test_an_event_that_cannot_be_understood_is_a_stream_error(data):
    decoder = StreamDecoder()
    with pytest.raises(StreamError, match="can't be understood") as caught:
        decoder.feed(ServerSentEvent("x", data))
    assert caught.value.raw["data"] == data[:4096]


# The structured answer through a forced tool

ANSWER = {"type": "tool_use", "id": "t1", "name": "structured_output", "input": {"name": "Zoë"}}


def test_the_input_of_the_answer_tool_is_the_text():
    response = parse_response(body(ANSWER, stop_reason="tool_use"), answer_tool="structured_output")
    assert json.loads(response.text) == {"name": "Zoë"}
    assert response.tool_calls == []
    assert response.finish_reason.reason == "stop"


def test_the_answer_tool_streams_text():
    events = decode(streamed(ANSWER, stop_reason="tool_use"), answer_tool="structured_output")
    text = "".join(event.delta for event in events if event.type == StreamEventType.TEXT_DELTA)
    response = events[-1].response
    assert json.loads(text) == {"name": "Zoë"}
    assert response.text == text
    assert response.message.content[0].kind == ContentKind.TEXT
    assert response.finish_reason.reason == "stop"
    assert "tool_call_start" not in [str(event.type) for event in events]


# The adapter, with recordings of our own


def recording(replay, content, *, stream, status=200):
    return replay.Recording("own", "anthropic-messages", stream, status, {}, content, {"model": "claude-3-5-haiku"})


def sse(events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def make_adapter(client):
    return AnthropicAdapter(api_key="key", base_url="http://recorded", http_client=client)


async def test_the_adapter_streams(replay):
    content = sse(streamed(THOUGHT, SEALED, TEXT, CALL, SEARCH, FOUND, stop_reason="tool_use"))
    observed = await replay.replay(make_adapter, recording(replay, content, stream=True))
    assert replay.check_discipline(observed) == []
    assert json.loads(observed.requests[0].content)["stream"] is True


async def test_the_adapter_shapes_structured_answers(replay):
    request = Request(
        model="claude-3-5-haiku",
        messages=[Message.user("who?")],
        response_format=ResponseFormat(type="json_schema", json_schema={"type": "object", "properties": {"name": {}}}),
    )
    whole = json.dumps(body(ANSWER, stop_reason="tool_use")).encode()
    for content, stream in ((whole, False), (sse(streamed(ANSWER, stop_reason="tool_use")), True)):
        observed = await replay.replay(make_adapter, recording(replay, content, stream=stream), request=request)
        assert json.loads(observed.response.text) == {"name": "Zoë"}


@pytest.mark.parametrize("content", [b'{"object": "list"}', b'{"content": "text"}', b'{"content": [1], "id": 5}'])
async def test_json_that_is_no_message_is_a_server_error(replay, content):
    observed = await replay.replay(make_adapter, recording(replay, content, stream=False))
    assert isinstance(observed.error, ServerError)
    assert observed.error.raw == json.loads(content)


async def test_a_failure_of_a_stream_is_yielded_and_raised(replay):
    observed = await replay.replay(make_adapter, recording(replay, sse([*streamed(TEXT)[:5], ERROR]), stream=True))
    assert isinstance(observed.error, RateLimitError)
    assert [str(event.type) for event in observed.events] == [
        "stream_start",
        "text_start",
        "text_delta",
        "text_delta",
        "error",
    ]
    assert observed.events[-1].error is observed.error
    assert observed.error.status_code is None


async def test_warnings_reach_the_response_and_the_stream(replay):
    request = Request(model="m", messages=[Message.user("x")], metadata={"team": "blue"})
    whole = recording(replay, json.dumps(body(TEXT)).encode(), stream=False)
    stream = recording(replay, sse(streamed(TEXT)), stream=True)
    first = await replay.replay(make_adapter, whole, request=request)
    second = await replay.replay(make_adapter, stream, request=request)
    assert [warning.code for warning in first.response.warnings] == ["metadata_dropped"]
    assert [warning.code for warning in second.events[0].warnings] == ["metadata_dropped"]
    assert second.response.warnings == first.response.warnings


def test_the_comparison_with_an_expectation_notices_differences(replay):
    observed = replay.Observed(response=parse_response(body(TEXT)))
    right = {**observed.facts(), "model": "claude-x"}
    assert replay.check(observed, right) == []
    assert replay.check(observed, {**right, "text": "x", "also": {"text": ["Hello there"]}}) == []
    assert replay.check(observed, {**right, "text": "x", "unsure": ["text"]}) == []
    for wrong in ({"text": "x"}, {"tool_calls": [{"name": "x", "arguments": None}]}, {"usage": {"input_tokens": 1}}):
        assert len(replay.check(observed, {**right, **wrong})) == 1
    assert replay.check(observed, {"error": {"class": "ServerError"}}) != []
