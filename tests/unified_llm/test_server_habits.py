"""Habits of servers that speak a protocol in their own way: names in pieces, words of their own, bare failures."""

import json

import pytest
from unified_llm import Response, StreamEvent, StreamEventType
from unified_llm.provider_utils.error_mapping import error_from_response
from unified_llm.provider_utils.rate_limits import parse_rate_limit
from unified_llm.provider_utils.sse import ServerSentEvent, SSEDecoder
from unified_llm.providers.anthropic import response as anthropic
from unified_llm.providers.gemini import response as gemini
from unified_llm.providers.openai import response as openai
from unified_llm.providers.openai_compatible import response as chat
from unified_llm.spec.errors import RateLimitError, ServerError


def stream(*deltas: dict, reason: str | None = "tool_calls") -> tuple[Response, list[StreamEvent]]:
    decoder = chat.StreamDecoder(provider="acme", model="m")
    events = []
    for delta in deltas:
        events += decoder.read({"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    events += decoder.read({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    events += decoder.finish()
    assert events[-1].response is not None
    return events[-1].response, events


def fragment(**fields: object) -> dict:
    index = {"index": 0} if "index" not in fields else {}
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return {"tool_calls": [{**index, **fields, "function": function}]}


@pytest.mark.parametrize(
    "fragments",
    [
        [{"id": "1", "name": "get_"}, {"name": "weather"}, {"arguments": '{"a":1}'}],
        [{"id": "1", "name": "get_"}, {"name": "get_weather", "arguments": '{"a":1}'}],
        [{"id": "1", "name": "get_weather"}, {"name": "get_weather", "arguments": '{"a"'}, {"arguments": ":1}"}],
        [{"id": "1", "name": "get_weather", "arguments": ""}, {"name": "", "arguments": '{"a":1}'}],
    ],
    ids=["pieces", "growing", "repeated", "blank"],
)
def test_a_name_is_whole_before_its_call_begins(fragments):
    response, events = stream(*(fragment(**fields) for fields in fragments))
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("get_weather", {"a": 1})]
    starts = [event.tool_call for event in events if event.type == StreamEventType.TOOL_CALL_START]
    assert [(call.id, call.name) for call in starts if call] == [("1", "get_weather")]


def test_calls_without_arguments_begin_in_their_order():
    response, events = stream(
        fragment(id="1", name="first"), fragment(index=1, id="2", name="second", arguments="{}"), {"content": "Hi"}
    )
    assert [call.name for call in response.tool_calls] == ["first", "second"]
    starts = [event.tool_call for event in events if event.type == StreamEventType.TOOL_CALL_START]
    assert [call.name for call in starts if call] == ["first", "second"]


def test_a_call_begins_before_the_text_that_follows_it():
    response, _ = stream(fragment(id="1", name="first"), {"content": "Hi"})
    assert [str(part.kind) for part in response.message.content] == ["tool_call", "text"]


def test_calls_that_share_an_index_and_have_no_id_are_told_apart_by_name():
    response, _ = stream(fragment(name="first", arguments='{"a":1}'), fragment(name="second", arguments='{"b":2}'))
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("first", {"a": 1}), ("second", {"b": 2})]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("eos_token", "stop"),
        ("completed", "stop"),
        ("max_output_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("context_length", "length"),
        ("sensitive", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("network_error", "error"),
        ("malformed_function_call", "error"),
        ("insufficient_system_resource", "error"),
        ("abort", "other"),
    ],
)
def test_words_of_servers_for_the_end_of_an_answer(raw, reason):
    response, _ = stream({"content": "x"}, reason=raw)
    assert (response.finish_reason.reason, response.finish_reason.raw) == (reason, raw)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"code": "1113", "message": "Insufficient balance or no resource package."}, "QuotaExceededError"),
        (429, {"type": "exceeded_current_quota_error", "message": "Suspended."}, "QuotaExceededError"),
        (429, {"message": "Your team has used all available credits."}, "QuotaExceededError"),
        (429, {"message": "Slow down, please."}, "RateLimitError"),
        (429, {"status": "RESOURCE_EXHAUSTED", "message": "Check your plan; spending limit."}, "RateLimitError"),
        (403, {"message": "Your team doesn't have any credits yet."}, "QuotaExceededError"),
        (403, {"message": "Your input was flagged."}, "ContentFilterError"),
        (403, {"message": "Not for this key."}, "AccessDeniedError"),
        (400, {"message": "You have reached your specified API usage limits."}, "QuotaExceededError"),
        (400, {"type": "budget_exceeded", "message": "Current cost: 10"}, "QuotaExceededError"),
        (400, {"code": "Arrearage", "message": "Access denied."}, "QuotaExceededError"),
        (400, {"code": "data_inspection_failed", "message": "Inappropriate."}, "ContentFilterError"),
        (400, {"message": "The prompt is longer than the maximum model length of 4096."}, "ContextLengthError"),
        (400, {"message": "gateway.ContextWindowExceededError: too much"}, "ContextLengthError"),
    ],
)
def test_a_spent_budget_a_filter_and_a_full_context_are_known_by_what_is_said(status, error, kind):
    found = error_from_response(provider="acme", status=status, headers={}, body={"error": error}, text="")
    assert type(found).__name__ == kind


@pytest.mark.parametrize(
    ("headers", "counts"),
    [
        ({"ratelimit-limit": "100", "ratelimit-remaining": "7", "ratelimit-reset": "5"}, (7, 100, None, None)),
        (
            {"x-ratelimit-limit-requests-day": "1000", "x-ratelimit-remaining-requests-day": "999"}
            | {"x-ratelimit-limit-tokens-minute": "60", "x-ratelimit-remaining-tokens-minute": "59"},
            (999, 1000, 59, 60),
        ),
        (
            {"x-ratelimit-remaining-tokens-minute": "1", "x-ratelimit-remaining-tokens-day": "2"}
            | {"x-ratelimit-remaining-requests": "3", "x-ratelimit-remaining": "4"},
            (3, None, 1, None),
        ),
    ],
    ids=["standard", "spans", "shortest"],
)
def test_rate_limits_by_other_names(headers, counts):
    info = parse_rate_limit(headers)
    assert info is not None
    found = (info.requests_remaining, info.requests_limit, info.tokens_remaining, info.tokens_limit)
    assert found == counts


def test_a_reset_by_another_name():
    info = parse_rate_limit({"x-ratelimit-reset-tokens-minute": "2026-01-02T00:00:00+00:00"})
    assert info is not None
    assert info.reset_at is not None
    assert info.reset_at.isoformat() == "2026-01-02T00:00:00+00:00"


BARE = {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("written", "payload"),
    [
        (json.dumps({"error": BARE}), {"error": BARE}),
        (json.dumps({"error": BARE}, indent=2), {"error": BARE}),
        (json.dumps({"error": BARE}, indent=2) + "\r\n\r\n", {"error": BARE}),
        (f"error: {json.dumps(BARE)}\n\n", BARE),
    ],
    ids=["line", "lines", "ended", "field"],
)
def test_a_failure_written_bare_into_a_stream_is_an_error_event(written, payload, size):
    content = f'data: {{"a":1}}\r\n\r\n{written}'.encode()
    decoder = SSEDecoder()
    events = [event for start in range(0, len(content), size) for event in decoder.feed(content[start : start + size])]
    events += decoder.flush()
    assert events[0] == ServerSentEvent("", '{"a":1}')
    assert [(event.event, json.loads(event.data)) for event in events[1:]] == [("error", payload)]


def test_bare_json_that_is_no_failure_says_nothing():
    decoder = SSEDecoder()
    assert [*decoder.feed(b'{"note": 1}\n\ndata: x\n\n'), *decoder.flush()] == [ServerSentEvent("", "x")]


@pytest.mark.parametrize(
    "make_decoder",
    [
        lambda: openai.StreamDecoder(),
        lambda: anthropic.StreamDecoder(),
        lambda: gemini.StreamDecoder(),
        lambda: chat.StreamDecoder(provider="acme", model="m"),
    ],
    ids=["openai", "anthropic", "gemini", "chat"],
)
@pytest.mark.parametrize(
    ("error", "kind"), [(BARE, ServerError), ({"code": "rate_limit_exceeded", "message": "Slow."}, RateLimitError)]
)
def test_every_protocol_raises_a_bare_failure_as_what_it_is(make_decoder, error, kind):
    (event,) = SSEDecoder().feed(json.dumps({"error": error}).encode() + b"\n\n")
    with pytest.raises(kind):
        make_decoder().feed(event)


def test_a_call_without_the_level_of_its_function_is_a_call():
    flat = {"index": 0, "id": "1", "name": "get_weather", "arguments": {"a": 1}}
    response, _ = stream({"tool_calls": [flat]})
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("get_weather", {"a": 1})]


def test_usage_may_stand_in_the_choice():
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop", "usage": usage}
    found = chat.parse_response({"choices": [choice]}, provider="acme", model="m").usage
    assert (found.input_tokens, found.output_tokens) == (7, 2)


def test_usage_by_the_names_of_other_protocols():
    found = chat.parse_usage(
        {"input_tokens": 30, "output_tokens": 2, "prompt_tokens_details": {"cache_creation_tokens": 5}}
    )
    assert (found.input_tokens, found.output_tokens, found.cache_write_tokens) == (30, 2, 5)
