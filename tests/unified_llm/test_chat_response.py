"""Chat Completions answers, whole and streamed."""

import contextlib
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.openai_compatible.response import StreamDecoder, parse_response, parse_usage
from unified_llm.spec.errors import (
    InvalidRequestError,
    RateLimitError,
    SDKError,
    ServerError,
    StreamError,
)
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import ContentKind


def numbered():
    counter = itertools.count()
    return lambda: f"made_{next(counter)}"


def parse(body, **fields):
    return parse_response(body, provider="here", model="asked", new_id=numbered(), **fields)


def whole(message, finish_reason="stop", **fields):
    return parse({"id": "1", "model": "m", "choices": [{"message": message, "finish_reason": finish_reason}], **fields})


def chunk(delta=None, finish_reason=None, **fields):
    return {"id": "1", "model": "m", "choices": [{"delta": delta or {}, "finish_reason": finish_reason}], **fields}


def decode(*chunks, done=True):
    """All events of a stream, FINISH last."""
    decoder = StreamDecoder(provider="here", model="asked", new_id=numbered())
    events = []
    for payload in chunks:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        events += decoder.feed(ServerSentEvent("", data))
    if done:
        decoder.feed(ServerSentEvent("", "[DONE]"))
    return events + decoder.finish()


def streamed(*chunks, done=True):
    return decode(*chunks, done=done)[-1].response


def fragment(index=None, id=None, name=None, arguments=None):
    function = {"name": name, "arguments": arguments}
    fields = {
        "index": index,
        "id": id,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {"tool_calls": [{key: value for key, value in fields.items() if value is not None}]}


def calls(response):
    return [(call.id, call.name, call.arguments) for call in response.tool_calls]


def test_interleaved_fragments_belong_to_their_index():
    response = streamed(
        chunk(fragment(0, "a", "f", '{"x":')),
        chunk(fragment(1, "b", "g", '{"y":')),
        chunk(fragment(0, arguments="1}")),
        chunk(fragment(1, arguments="2}")),
        chunk(finish_reason="tool_calls"),
    )
    assert calls(response) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_fragments_without_index_belong_to_their_id_or_to_the_last_call():
    response = streamed(
        chunk(fragment(id="a", name="f", arguments='{"x":')),
        chunk(fragment(arguments="1}")),
        chunk(fragment(id="b", name="g", arguments='{"y":')),
        chunk(fragment(id="b", arguments="2}")),
    )
    assert calls(response) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_calls_that_share_an_index_are_told_apart_by_id():
    response = streamed(
        chunk(fragment(0, "a", "f", '{"x":')),
        chunk(fragment(0, arguments="1}")),
        chunk(fragment(0, "b", "g", "{}")),
    )
    assert calls(response) == [("a", "f", {"x": 1}), ("b", "g", {})]


def test_an_id_that_changes_with_each_fragment_is_no_new_call():
    response = streamed(chunk(fragment(0, "a", "f", '{"x":')), chunk(fragment(0, "b", arguments="1}")))
    assert calls(response) == [("a", "f", {"x": 1})]


def test_calls_without_an_id_or_with_the_same_one_get_ids_of_their_own():
    response = streamed(chunk(fragment(0, None, "f", "{}")), chunk(fragment(1, "", "g")), done=True)
    assert calls(response) == [("made_0", "f", {}), ("made_1", "g", {})]
    same = whole({"tool_calls": [fragment(0, "x", "f")["tool_calls"][0], fragment(1, "x", "g")["tool_calls"][0]]})
    assert [call.id for call in same.tool_calls] == ["x", "made_0"]


def test_a_name_that_comes_late_starts_the_call_late():
    events = decode(chunk(fragment(0, "a", arguments='{"x":')), chunk(fragment(0, name="f", arguments="1}")))
    kinds = [event.type for event in events if event.type.startswith("tool_call")]
    assert kinds == ["tool_call_start", "tool_call_delta", "tool_call_delta", "tool_call_end"]
    assert calls(events[-1].response) == [("a", "f", {"x": 1})]


def test_arguments_may_be_an_object_or_missing_or_broken():
    message = {
        "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
            {"id": "b", "function": {"name": "f", "arguments": None}},
            {"id": "c", "function": {"name": "f", "arguments": '{"x'}},
        ]
    }
    first, second, third = whole(message).tool_calls
    assert (first.arguments, second.arguments, third.arguments) == ({"x": 1}, {}, {})
    assert (first.parse_error, second.parse_error) == (None, None)
    assert third.parse_error
    assert third.raw_arguments == '{"x'


def test_the_older_function_call_is_a_tool_call():
    message = {"content": None, "function_call": {"name": "f", "arguments": '{"x": 1}'}}
    response = whole(message, "function_call")
    assert calls(response) == [("made_0", "f", {"x": 1})]
    assert response.finish_reason.reason == "tool_calls"
    assert whole({"content": "4", "function_call": {"name": "", "arguments": ""}}).tool_calls == []


def test_a_custom_call_keeps_its_text():
    message = {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "math", "input": "4 + 4"}}]}
    [part] = whole(message, "tool_calls").message.content
    assert (part.tool_call.type, part.tool_call.arguments) == ("custom", "4 + 4")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
        ("refusal", "content_filter"),
        ("SAFETY", "content_filter"),
        ("error", "error"),
        ("abort", "other"),
        (None, "stop"),
    ],
)
def test_finish_reasons(raw, reason):
    response = whole({"content": "x"}, raw)
    assert (response.finish_reason.reason, response.finish_reason.raw) == (reason, raw)


@pytest.mark.parametrize(("raw", "reason"), [("stop", "tool_calls"), (None, "tool_calls"), ("length", "length")])
def test_the_finish_reason_with_tool_calls(raw, reason):
    assert whole(fragment(0, "a", "f"), raw).finish_reason.reason == reason


def test_a_refusal_is_text_and_a_blocked_answer():
    response = whole({"content": None, "refusal": "I won't."})
    assert (response.text, response.finish_reason.reason, response.finish_reason.raw) == (
        "I won't.",
        "content_filter",
        "stop",
    )


def test_empty_choices_are_no_trouble_and_usage_comes_last():
    usage = {"prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 60}
    response = streamed({"choices": []}, chunk({"content": "hi"}, "stop"), {"choices": [], "usage": usage})
    assert response.text == "hi"
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 50)
    assert response.usage.raw == usage


def test_a_usage_chunk_that_repeats_the_finish_reason():
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    response = streamed(chunk({"content": "a"}, "length"), chunk({"content": ""}, "stop", usage=usage))
    assert response.finish_reason.reason == "length"
    assert response.usage.total_tokens == 3


def test_only_the_first_choice_counts():
    choices = [
        {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"},
        {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"},
    ]
    response = streamed({"id": "1", "choices": choices})
    assert (response.text, response.finish_reason.reason) == ("yes", "stop")


def test_the_model_is_the_one_asked_for_if_the_server_does_not_say():
    response = whole({"content": "x"}) and parse({"choices": [{"message": {"content": "x"}}]})
    assert (response.id, response.model) == ("", "asked")


def test_reasoning_ends_where_text_begins_and_text_at_the_end():
    events = decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning": "Hm"}),
        chunk({"reasoning": "."}),
        chunk({"content": "Yes"}),
        chunk({"content": "."}, "stop"),
    )
    assert [str(event.type) for event in events] == [
        "stream_start",
        "reasoning_start",
        "reasoning_delta",
        "reasoning_delta",
        "reasoning_end",
        "text_start",
        "text_delta",
        "text_delta",
        "text_end",
        "finish",
    ]
    assert (events[-1].response.reasoning, events[-1].response.text) == ("Hm.", "Yes.")


def test_an_empty_thought_is_none():
    response = whole({"reasoning_content": "\n\n", "content": "Yes."})
    assert [part.kind for part in response.message.content] == [ContentKind.TEXT]
    kept = streamed(chunk({"reasoning_content": "\n"}), chunk({"reasoning_content": "Hm"}), chunk({"content": "Yes."}))
    assert kept.reasoning == "\nHm"


def test_both_names_of_reasoning_are_one():
    assert whole({"reasoning_content": "Hm", "reasoning": "Hm", "content": "Yes."}).reasoning == "Hm"


def test_fragments_of_reasoning_details_are_joined():
    details = [
        {"type": "reasoning.text", "index": 0, "text": "H"},
        {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 0, "data": "d"},
    ]
    response = streamed(*(chunk({"reasoning_details": [detail]}) for detail in details), chunk({"content": "Yes."}))
    [thought, _] = response.message.content
    assert thought.thinking.text == "Hm"
    assert thought.provider_metadata["here"]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Hm", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 0, "data": "d"},
    ]


def test_content_may_be_a_list_or_an_object():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    response = streamed(chunk({"content": [thinking]}), chunk({"content": "Yes"}), chunk({"content": ["."]}))
    assert (response.reasoning, response.text) == ("Hm", "Yes.")
    assert json.loads(whole({"content": {"title": "T"}}).text) == {"title": "T"}


def test_what_the_unified_model_has_no_word_for_is_passed_through():
    block = {"type": "reference", "reference_ids": [1]}
    events = decode(chunk({"content": [block]}), chunk({"executed_tools": [{"name": "search"}]}, "stop"))
    passed = [event for event in events if event.type == StreamEventType.PROVIDER_EVENT]
    assert passed[0].part.provider_metadata == {"here": block}
    assert passed[1].raw["choices"][0]["delta"] == {"executed_tools": [{"name": "search"}]}
    assert events[-1].response.message.content == [passed[0].part]


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    data = '{"choices": [{"delta": {"content": "ok \\ud83d end \\ud83d\\ude00"}, "finish_reason": "stop"}]}'
    assert streamed(data).text == "ok \ufffd end \U0001f600"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"error": {"message": "x", "code": 429}}, RateLimitError),
        ({"error": "Server overloaded"}, SDKError),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "retry later"}}, RateLimitError),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, InvalidRequestError),
        ({"choices": [{"error": {"code": 502, "message": "upstream"}, "finish_reason": "error"}]}, ServerError),
    ],
)
def test_an_error_inside_a_200(payload, error):
    with pytest.raises(error):
        parse(payload)
    with pytest.raises(error):
        decode(chunk({"content": "Partial"}, "stop"), payload)


def test_a_named_error_event():
    decoder = StreamDecoder(provider="here", model="m")
    with pytest.raises(RateLimitError):
        decoder.feed(ServerSentEvent("error", '{"message": "slow down", "code": "rate_limit_exceeded"}'))


def test_either_mark_ends_a_stream_and_nothing_else_does():
    assert streamed(chunk({"content": "a"}, "stop"), done=False).text == "a"
    assert streamed(chunk({"content": "a"}), done=True).finish_reason.reason == "stop"
    with pytest.raises(StreamError, match="before the answer was complete"):
        streamed(chunk({"content": "a"}), done=False)


@pytest.mark.parametrize(
    "data", ["{", "[]", '"x"', '{"choices": [7]}', '{"choices": [{"delta": {"tool_calls": [1]}}]}']
)
def test_frames_that_make_no_sense(data):
    with pytest.raises(StreamError):
        streamed(data)


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"detail": "nope"}])
def test_a_body_without_an_answer(body):
    with pytest.raises(ServerError, match="without any choices"):
        parse(body)


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}, (5, 7, None, None, None)),
        # xAI: reasoning beside the completion
        (
            {
                "prompt_tokens": 466,
                "completion_tokens": 68,
                "total_tokens": 800,
                "completion_tokens_details": {"reasoning_tokens": 266},
                "prompt_tokens_details": {"cached_tokens": 192},
            },
            (466, 334, 266, 192, None),
        ),
        (
            {"prompt_tokens": 1, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 9}},
            (1, 11, 9, None, None),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, (9, 1, None, 4, None)),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cache_write_tokens": 3}},
            (9, 1, None, None, 3),
        ),
        ({"prompt_tokens": float("inf"), "completion_tokens": -1, "total_tokens": "three"}, (0, 0, None, None, None)),
        ({"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}, (0, 0, None, None, None)),
    ],
)
def test_usage(raw, counts):
    usage = parse_usage(raw)
    found = (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)
    assert (*found, usage.cache_read_tokens, usage.cache_write_tokens) == counts
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
arguments = st.dictionaries(words, st.integers() | words, max_size=3).map(json.dumps)


@st.composite
def messages(draw):
    """A message, and the deltas that it could be streamed in."""
    thoughts, says = draw(st.lists(words, max_size=3)), draw(st.lists(words, max_size=3))
    tools = draw(st.lists(st.tuples(words, arguments), max_size=3))
    deltas = [{"reasoning": piece} for piece in thoughts] + [{"content": piece} for piece in says]
    fragments = []
    for index, (name, raw) in enumerate(tools):
        cut = draw(st.integers(0, len(raw)))
        fragments.append([fragment(index, f"id{index}", name, raw[:cut]), fragment(index, arguments=raw[cut:])])
    deltas += [first for first, _ in fragments] + draw(st.permutations([second for _, second in fragments]))
    message = {
        "reasoning": "".join(thoughts),
        "content": "".join(says) or None,
        "tool_calls": [fragment(i, f"id{i}", name, raw)["tool_calls"][0] for i, (name, raw) in enumerate(tools)],
    }
    return message, deltas


@given(messages())
def test_a_stream_accumulates_to_what_the_whole_would_have_been(pair):
    message, deltas = pair
    response = streamed(*map(chunk, deltas), chunk(finish_reason="stop"))
    assert response.message == whole(message).message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "function_call",
    "refusal",
    "extra_content",
    "role",
)
deltas = st.dictionaries(st.sampled_from(FIELDS), json_values)
choices = st.dictionaries(
    st.sampled_from(("index", "delta", "message", "finish_reason", "error")), deltas | json_values
)
bodies = st.dictionaries(
    st.sampled_from(("id", "model", "choices", "usage", "x_groq", "error", "object", "type")),
    st.lists(choices, max_size=2) | deltas | json_values,
)


@given(bodies)
def test_whatever_a_server_sends_only_our_errors_come_out(body):
    for read in (lambda: parse(body), lambda: streamed(body)):
        with contextlib.suppress(SDKError):
            read()
