"""Answers that are odd in a detail: the detail may be lost, the answer not, and no short one is taken for whole."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from unified_llm import Response, StreamEvent, StreamEventType
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.anthropic import response as anthropic
from unified_llm.providers.gemini import response as gemini
from unified_llm.providers.openai import response as openai
from unified_llm.providers.openai_compatible import response as chat
from unified_llm.spec.errors import ProviderError, RateLimitError, SDKError, ServerError, StreamError

_Json = dict[str, Any]

ODD_COUNTS = [None, "7", "many", 7.5, -1, [], {}, True]
ODD_NAMES = [None, 7, 7.5, [], {}, True, ""]


def whole_bodies() -> dict[str, _Json]:
    """A text answer in each protocol, with usage."""
    message = {"type": "message", "id": "i", "content": [{"type": "output_text", "text": "Hello"}]}
    return {
        "openai": {
            "id": "r",
            "model": "m",
            "status": "completed",
            "output": [message],
            "usage": {
                "input_tokens": 3,
                "output_tokens": 2,
                "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
        },
        "anthropic": {
            "id": "r",
            "model": "m",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Hello"}],
            "usage": {
                "input_tokens": 3,
                "output_tokens": 2,
                "cache_read_input_tokens": 1,
                "cache_creation_input_tokens": 1,
                "output_tokens_details": {"thinking_tokens": 1},
            },
        },
        "gemini": {
            "responseId": "r",
            "modelVersion": "m",
            "candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 3,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 1,
                "toolUsePromptTokenCount": 1,
                "cachedContentTokenCount": 1,
            },
        },
        "chat": {
            "id": "r",
            "model": "m",
            "choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "total_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        },
    }


PARSE: dict[str, Callable[[_Json], Response]] = {
    "openai": openai.parse_response,
    "anthropic": anthropic.parse_response,
    "gemini": gemini.parse_response,
    "chat": lambda body: chat.parse_response(body, provider="chat", model="m"),
}


def places(value: Any, below: str) -> Iterable[tuple[_Json, str]]:
    """Every object of a body and a key in it, under keys that begin with `below`."""
    for key, child in value.items():
        if key.startswith(below):
            yield value, key
            if isinstance(child, dict):
                yield from places(child, "")


@pytest.mark.parametrize("odd", ODD_COUNTS)
@pytest.mark.parametrize("name", PARSE)
def test_an_odd_count_costs_only_itself(name, odd):
    count = len(list(places(whole_bodies()[name], "usage")))
    assert count >= 6
    for number in range(count):
        body = whole_bodies()[name]
        holder, key = list(places(body, "usage"))[number]
        holder[key] = odd
        response = PARSE[name](body)
        assert response.text == "Hello"
        assert Response.model_validate_json(response.model_dump_json()).usage == response.usage


@pytest.mark.parametrize("name", PARSE)
def test_a_count_that_is_written_as_text_counts(name):
    written = json.loads(json.dumps(whole_bodies()[name]), parse_int=lambda digits: digits)
    plain = PARSE[name](whole_bodies()[name]).usage
    assert PARSE[name](written).usage.model_copy(update={"raw": None}) == plain.model_copy(update={"raw": None})


@pytest.mark.parametrize("odd", ODD_NAMES)
@pytest.mark.parametrize("name", PARSE)
def test_an_odd_id_or_model_costs_only_itself(name, odd):
    for key in ("id", "model", "responseId", "modelVersion"):
        body = whole_bodies()[name]
        if key in body:
            body[key] = odd
            assert PARSE[name](body).text == "Hello"


@pytest.mark.parametrize("name", PARSE)
def test_the_raw_body_of_an_answer_with_half_a_character_can_be_written(name):
    body = json.dumps(whole_bodies()[name]).replace('"m"', r'"m\ud83d"').replace("Hello", r"Hello\udc4b")
    response = PARSE[name](json.loads(body))
    assert "\ufffd" in response.model_dump_json()


# Streams


def feed(decoder: Any, payloads: Iterable[Any]) -> list[StreamEvent]:
    events = []
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        events += decoder.feed(ServerSentEvent("", data))
    return events + decoder.finish()


def streamed(decoder: Any, payloads: Iterable[Any]) -> Response:
    """The response, once it is sure that the events alone add up to it."""
    events = feed(decoder, payloads)
    assert [event.type for event in events].count(StreamEventType.STREAM_START) == 1
    assert events[0].type == StreamEventType.STREAM_START
    response = events[-1].response
    assert response is not None
    accumulator = StreamAccumulator()
    for event in events[:-1]:
        accumulator.process(event)
    partial = accumulator.partial_response
    assert partial is not None
    assert partial.message == response.message
    return response


def block(index: int | None, started: _Json, *deltas: _Json, stops: int = 1) -> list[_Json]:
    """A content block of the Messages API as it is streamed."""
    where = {} if index is None else {"index": index}
    return [
        {"type": "content_block_start", **where, "content_block": started},
        *({"type": "content_block_delta", **where, "delta": delta} for delta in deltas),
        *({"type": "content_block_stop", **where} for _ in range(stops)),
    ]


def text_block(index: int | None, text: str, **options: Any) -> list[_Json]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, **options)


BEGIN = {"type": "message_start", "message": {"id": "r", "model": "m", "usage": {"input_tokens": 3}}}
END: list[_Json] = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    "payloads",
    [
        [BEGIN, *text_block(0, "Hello "), *text_block(0, "world"), *END],
        [BEGIN, *text_block(0, "Hello ", stops=0), *text_block(0, "world"), *END],
        [BEGIN, *text_block(None, "Hello "), *text_block(None, "world"), *END],
        [BEGIN, *text_block(0, "Hello ", stops=2), *text_block(1, "world"), *END],
        [BEGIN, BEGIN, *text_block(0, "Hello "), *text_block(1, "world"), *END],
        [BEGIN, text_block(0, "")[0], *text_block(0, "Hello "), *text_block(1, "world"), *END],
        [*text_block(0, "Hello "), *text_block(1, "world"), *END],
        [{"type": "new_kind"}, BEGIN, *text_block(0, "Hello "), *text_block(1, "world"), *END],
        ["", BEGIN, *text_block(0, "Hello "), "", *text_block(1, "world"), *END],
    ],
    ids=["same index", "no stop", "no index", "two stops", "two starts", "block twice", "no start", "early", "empty"],
)
def test_blocks_are_kept_however_they_are_framed(payloads):
    assert streamed(anthropic.StreamDecoder(), payloads).text == "Hello world"


def test_a_delta_without_content_says_nothing():
    deltas = [{"type": "text_delta", "text": None}, {"type": "text_delta", "text": "Hello"}]
    call = block(1, {"type": "tool_use", "id": None, "name": "f"}, {"type": "input_json_delta", "partial_json": None})
    ending = [{"type": "message_delta", "usage": {"output_tokens": 2}}, *END]
    response = streamed(anthropic.StreamDecoder(), [BEGIN, *block(0, {"type": "text"}, *deltas), *call, *ending])
    assert response.text == "Hello"
    assert [(found.name, found.arguments, found.parse_error) for found in response.tool_calls] == [("f", {}, None)]
    assert response.tool_calls[0].id
    assert response.usage.output_tokens == 2


def test_a_delta_of_a_block_that_has_ended_is_not_lost_in_silence():
    late = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "!"}}
    with pytest.raises(StreamError):
        feed(anthropic.StreamDecoder(), [BEGIN, *text_block(0, "Hello"), late, *END])


def test_a_whole_message_where_a_stream_was_asked_for():
    body = {
        **whole_bodies()["anthropic"],
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
        ],
    }
    response = streamed(anthropic.StreamDecoder(), [body])
    assert response.message == anthropic.parse_response(body).message
    assert (response.finish_reason, response.usage) == (
        anthropic.parse_response(body).finish_reason,
        anthropic.parse_response(body).usage,
    )


@pytest.mark.parametrize("error", ["boom", {"message": "slow down", "code": 429}])
def test_an_error_without_a_type_keeps_its_class(error):
    with pytest.raises(ProviderError) as caught:
        feed(anthropic.StreamDecoder(), [{"error": error}])
    assert isinstance(caught.value, RateLimitError) == isinstance(error, dict)


def test_an_item_that_is_announced_twice_is_one_call():
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": '{"x": 1}'}}
    end = {"type": "response.completed", "response": {"id": "r", "model": "m", "output": []}}
    response = streamed(openai.StreamDecoder(), [added, added, done, end])
    assert [(call.id, call.arguments) for call in response.tool_calls] == [("c", {"x": 1})]


@pytest.mark.parametrize("odd", [{"name": None}, {"call_id": None}, {"arguments": None}, {"name": 5}])
def test_what_the_start_of_a_call_said_stands(odd):
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": ""}
    payloads = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"x": 1}'},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": '{"x": 1}', **odd}},
        {"type": "response.completed", "response": {"id": "r", "model": "m", "output": []}},
    ]
    (call,) = streamed(openai.StreamDecoder(), payloads).tool_calls
    assert (call.id, call.name, call.arguments) == ("c", "f", {"x": 1})


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [{"choices": []}],
        [{"choices": None}],
        [{"choices": None, "usage": {"prompt_tokens": 3}}],
        [{"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]}],
    ],
)
def test_done_without_any_choice_is_no_answer(chunks):
    with pytest.raises(StreamError):
        feed(chat.StreamDecoder(provider="chat", model="m"), [*chunks, "[DONE]"])


@pytest.mark.parametrize("index", ["0", None, False, 0.0])
def test_the_first_choice_is_found_however_its_number_is_written(index):
    choice = {"index": index, "message": {"content": "Hello"}, "finish_reason": "stop"}
    assert PARSE["chat"]({"choices": [choice]}).text == "Hello"
    candidate = {"index": index, "content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}
    assert PARSE["gemini"]({"candidates": [candidate]}).text == "Hello"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", {"choices": [{"index": 2, "message": {"content": "Hello"}, "finish_reason": "stop"}]}),
        ("gemini", {"candidates": [{"index": 2, "content": {"parts": [{"text": "Hello"}]}}]}),
    ],
)
def test_an_answer_without_its_first_choice_is_no_empty_one(name, body):
    with pytest.raises(ServerError):
        PARSE[name](body)


@pytest.mark.parametrize("odd", [{"finishReason": ["STOP"]}, {"finishReason": 5}, {"finishReason": {"name": "STOP"}}])
def test_an_odd_end_of_a_stream_is_ours(odd):
    answer = {"content": {"parts": [{"text": "Hello"}]}, **odd}
    try:
        response = streamed(gemini.StreamDecoder(), [{"candidates": [answer]}])
    except SDKError:
        return
    assert (response.text, response.finish_reason.reason) == ("Hello", "other")


# Tool calls

WRITTEN = [
    ('{"x": 1}', {"x": 1}),
    ({"x": 1}, {"x": 1}),
    ("", {}),
    (None, {}),
    ("[1]", None),
    ([1], None),
    ("no json", None),
    ('{"x": NaN}', None),
    ('{"x": [-Infinity]}', None),
    ('{"x": 1e999}', None),
    ('{"x": -1.5e2}', {"x": -150.0}),
    (5, None),
]


def call_bodies(arguments: Any, **own: Any) -> dict[str, _Json]:
    return {
        "openai": {"output": [{"type": "function_call", "name": "f", "arguments": arguments, **own}]},
        "anthropic": {
            "content": [{"type": "tool_use", "name": "f", "input": arguments, **own}],
            "stop_reason": "tool_use",
        },
        "gemini": {
            "candidates": [
                {
                    "content": {"parts": [{"functionCall": {"name": "f", "args": arguments, **own}}]},
                    "finishReason": "STOP",
                }
            ]
        },
        "chat": {
            "choices": [
                {
                    "message": {"tool_calls": [{"function": {"name": "f", "arguments": arguments}, **own}]},
                    "finish_reason": "tool_calls",
                }
            ]
        },
    }


@pytest.mark.parametrize("name", PARSE)
@pytest.mark.parametrize(("written", "meant"), WRITTEN)
def test_a_call_is_kept_whatever_shape_its_arguments_have(name, written, meant):
    response = PARSE[name](call_bodies(written)[name])
    (call,) = response.tool_calls
    assert (call.name, response.finish_reason.reason) == ("f", "tool_calls")
    assert call.id
    assert call.arguments == (meant or {})
    assert (call.parse_error is None) == (meant is not None)
    assert Response.model_validate_json(response.model_dump_json()).tool_calls == [call]


@pytest.mark.parametrize("odd", [None, "", 7])
@pytest.mark.parametrize("name", PARSE)
def test_a_call_without_a_proper_id_gets_one(name, odd):
    (call,) = PARSE[name](call_bodies({"x": 1}, id=odd)[name]).tool_calls
    assert call.id
    assert isinstance(call.id, str)


def test_half_a_character_in_arguments_is_replaced():
    (call,) = PARSE["chat"](call_bodies(r'{"x": "\ud83d\ude00 \ud83d"}')["chat"]).tool_calls
    assert call.arguments == {"x": "\U0001f600 \ufffd"}
