"""Everything that the providers' own SDKs have a type for is understood, or passed on: nothing crashes or gets lost.

Values of all those types go through the decoders, whole and streamed, and back into the next request. One test covers
all kinds of one provider, since importing an SDK takes seconds.
"""

import json
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unified_llm import Message, Request, Response, StreamEvent, StreamEventType
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.sse import ServerSentEvent
from unified_llm.providers.anthropic import request as anthropic_request
from unified_llm.providers.anthropic import response as anthropic
from unified_llm.providers.gemini import request as gemini_request
from unified_llm.providers.gemini import response as gemini
from unified_llm.providers.openai import request as openai_request
from unified_llm.providers.openai import response as openai
from unified_llm.providers.openai_compatible import request as chat_request
from unified_llm.providers.openai_compatible import response as chat
from unified_llm.spec.errors import ContentFilterError, SDKError

_Json = dict[str, Any]


def feed(decoder: Any, payloads: Iterable[Any]) -> list[StreamEvent]:
    events = []
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload)
        events += decoder.feed(ServerSentEvent("", data))
    return events + decoder.finish()


def response_of(events: list[StreamEvent]) -> Response:
    """The response, once it is sure that the events before FINISH add up to it."""
    accumulator = StreamAccumulator()
    for event in events[:-1]:
        accumulator.process(event)
    response, partial = events[-1].response, accumulator.partial_response
    assert response is not None
    assert partial is not None
    assert partial.message == response.message
    return response


def copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def request_after(response: Response, model: str, **options: Any) -> Request:
    """The next turn of the conversation, as it would be after storing it."""
    answer = Message.model_validate_json(response.message.model_dump_json())
    return Request(model=model, messages=[Message.user("hi"), answer, Message.user("go on")], **options)


def told(events: Iterable[StreamEvent], payload: _Json) -> bool:
    """Whether a reader of the events learns what the payload says."""
    written = payload.get("delta")
    return any(
        event.raw == payload or (written and written in (event.delta, event.reasoning_delta)) for event in events
    )


# OpenAI's Responses API


def openai_body(*items: _Json, **fields: Any) -> _Json:
    return {"id": "r", "model": "m", "object": "response", "status": "completed", "output": list(items), **fields}


def without_probabilities(item: _Json) -> _Json:
    for block in item.get("content") or () if item["type"] == "message" else ():
        block.pop("logprobs", None)
    return item


@pytest.fixture(scope="module")
def items(official_samples: ModuleType) -> dict[str, _Json]:
    kinds = import_module("openai.types.responses").ResponseOutputItem
    found = {sample["type"]: sample for _, sample in official_samples.samples_of(kinds)}
    refusal = {"type": "refusal", "refusal": "I won't."}
    image = {"type": "image_generation_call", "id": "i", "result": "c2FtcGxl", "status": "completed"}
    return {**found, "refused message": {**found["message"], "content": [refusal]}, "an image": image}


def test_every_item_of_a_response_goes_back_as_it_came(items):
    assert len(items) >= 28
    for name, item in items.items():
        response = openai.parse_response(openai_body(copy(item)))
        sent = openai_request.build_request(request_after(response, "gpt-5.2")).body["input"][1:-1]
        assert sent[:1] == [without_probabilities(copy(item))], name
        assert all(result["type"].endswith("call_output") for result in sent[1:]), name


def test_every_item_of_a_response_streams_to_the_same(items):
    for name, item in items.items():
        body = openai_body(item)
        announced = {"type": "response.output_item.added", "output_index": 0, "item": item}
        whole = {"type": "response.output_item.done", "output_index": 0, "item": item}
        end = {"type": "response.completed", "response": body}
        for payloads in ([announced, whole, end], [whole, end], [end], [announced, whole, {**end, "response": {}}]):
            response = response_of(feed(openai.StreamDecoder(), payloads))
            assert response.message == openai.parse_response(body).message, name


# Events that repeat what others say.
REPEATED = {
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.done",
    "response.refusal.done",
    "response.reasoning_text.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.done",
}
ITEM_OF = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_text": "reasoning",
    "reasoning_summary_text": "reasoning",
    "reasoning_summary_part": "reasoning",
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
    "shell_call_command": "shell_call",
    "shell_call_output_content": "shell_call_output",
    "mcp_call_arguments": "mcp_call",
}


def test_every_event_of_a_response_stream_is_told(official_samples, items):
    kinds = import_module("openai.types.responses").ResponseStreamEvent
    samples = dict(official_samples.samples_of(kinds))
    assert len(samples) >= 59
    for name, payload in samples.items():
        subject = payload["type"].removeprefix("response.").split(".")[0]
        item = items.get(ITEM_OF.get(subject, subject), items["message"])
        payload = {**payload, "output_index": 0} if "output_index" in payload else payload
        begin = {"type": "response.output_item.added", "output_index": 0, "item": item}
        end = {"type": "response.completed", "response": openai_body(item)}
        if payload["type"] in ("error", "response.failed"):
            with pytest.raises(SDKError):
                feed(openai.StreamDecoder(), [begin, payload, end])
        elif payload["type"] in ("response.completed", "response.incomplete"):
            payload["response"].pop("error", None)
            assert response_of(feed(openai.StreamDecoder(), [begin, payload])).text, name
        else:
            events = feed(openai.StreamDecoder(), [begin, payload, end])
            response_of(events)
            item_events = payload["type"].startswith("response.output_item.")
            assert told(events, payload) or payload["type"] in REPEATED or item_events, name


def test_pieces_of_reasoning_are_told_apart_however_they_come():
    item = {
        "type": "reasoning",
        "id": "i",
        "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}],
        "content": [{"type": "reasoning_text", "text": "C"}],
    }
    begin = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "summary": [], "content": []}}
    end = {"type": "response.completed", "response": openai_body(item)}
    deltas = [
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "A"},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "B"},
        {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "C"},
    ]
    for told_before in range(4):
        response = response_of(feed(openai.StreamDecoder(), [begin, *deltas[:told_before], end]))
        assert response.message == openai.parse_response(openai_body(item)).message
        assert response.reasoning == "ABC"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("completed", "stop"),
        ("incomplete", "other"),
        ("queued", "other"),
        ("in_progress", "other"),
        ("cancelled", "other"),
    ],
)
def test_every_status_of_a_response_has_its_finish_reason(status, reason):
    message = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    assert openai.parse_response(openai_body(message, status=status)).finish_reason.reason == reason


# Anthropic's Messages API


def anthropic_body(*blocks: _Json, stop_reason: str = "end_turn", **fields: Any) -> _Json:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": "r",
        "model": "m",
        "type": "message",
        "role": "assistant",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": usage,
        **fields,
    }


def anthropic_stream(body: _Json, frames: list[list[_Json]]) -> list[_Json]:
    """The body as a stream whose blocks come as `frames`: each its start, and its deltas."""
    ending = {name: body[name] for name in body if name not in ("id", "model", "type", "role", "content", "usage")}
    payloads: list[_Json] = [
        {"type": "message_start", "message": {**body, "content": [], "stop_reason": None, "usage": {"input_tokens": 1}}}
    ]
    for index, (start, *deltas) in enumerate(frames):
        payloads.append({"type": "content_block_start", "index": index, "content_block": start})
        payloads += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        payloads.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 1}
    return [*payloads, {"type": "message_delta", "delta": ending, "usage": usage}, {"type": "message_stop"}]


@pytest.fixture(scope="module")
def blocks(official_samples: ModuleType) -> dict[str, _Json]:
    kinds = import_module("anthropic.types.beta").BetaContentBlock
    return {sample["type"]: sample for _, sample in official_samples.samples_of(kinds)}


def test_every_block_of_a_message_goes_back_as_it_came(blocks):
    assert len(blocks) >= 18
    for name, block in blocks.items():
        response = anthropic.parse_response(anthropic_body(copy(block)))
        options = {"provider_options": {"anthropic": {"auto_cache": False}}}
        request = request_after(response, "claude-sonnet-4-5", **options)
        turns = anthropic_request.build_request(request).body["messages"]
        assert turns[1] == {"role": "assistant", "content": [block]}, name


def test_every_block_of_a_message_streams_to_the_same(official_samples, blocks):
    citations = import_module("anthropic.types.beta").beta_text_citation.BetaTextCitation
    cited = [sample for _, sample in official_samples.samples_of(citations)]
    assert len(cited) >= 5
    in_pieces = {
        "text": [{"type": "text_delta", "text": "te"}, {"type": "text_delta", "text": "xt"}]
        + [{"type": "citations_delta", "citation": citation} for citation in cited],
        "thinking": [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s"}],
        "tool_use": [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"a"', ": 1}")],
        "compaction": [{"type": "compaction_delta", "content": "text", "encrypted_content": "s"}],
    }
    in_pieces |= dict.fromkeys(("server_tool_use", "mcp_tool_use"), in_pieces["tool_use"])
    begun = {
        "text": {"text": "", "citations": None},
        "thinking": {"thinking": "", "signature": ""},
        "compaction": {"content": None, "encrypted_content": None},
    }
    meant = {
        "text": {"text": "text", "citations": cited},
        "thinking": {"thinking": "hm", "signature": "s"},
        "compaction": {"content": "text", "encrypted_content": "s"},
    }
    for name, block in blocks.items():
        for start, whole, deltas in (
            (block, block, []),
            (
                {**block, **begun.get(name, {"input": {}})},
                {**block, **meant.get(name, {"input": {"a": 1}})},
                in_pieces.get(name),
            ),
        ):
            if deltas is None:
                continue
            body = anthropic_body(whole)
            events = feed(anthropic.StreamDecoder(), anthropic_stream(body, [[start, *deltas]]))
            expected = anthropic.parse_response(copy(body))
            raw_call = {"raw_arguments": None}
            message = response_of(events).message.model_dump()
            for part in message["content"]:
                if part["tool_call"] is not None:
                    part["tool_call"] |= raw_call
            assert message == expected.message.model_dump(), name
            passed_on = [event for event in events if event.type == StreamEventType.PROVIDER_EVENT]
            unmodelled = name not in ("text", "thinking", "redacted_thinking", "tool_use")
            assert bool(passed_on) == (unmodelled or (len(deltas) > 2 and name == "text")), name


def test_all_that_a_message_says_of_itself_survives_the_stream(official_samples):
    body = official_samples.sample_of(import_module("anthropic.types.beta").BetaMessage)
    body["content"] = [{"type": "text", "text": "hi"}]
    start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}
    payloads = anthropic_stream(body, [[start, delta]])
    payloads[-2]["usage"] = body["usage"]
    response = response_of(feed(anthropic.StreamDecoder(), payloads))
    assert response.raw == body
    assert response.usage == anthropic.parse_response(body).usage


def test_every_stop_reason_has_its_finish_reason():
    kinds = import_module("anthropic.types.beta").BetaStopReason
    found = {
        reason: anthropic.parse_response(anthropic_body({"type": "text", "text": "a"}, stop_reason=reason))
        for reason in get_args(kinds)
    }
    assert {reason: response.finish_reason.reason for reason, response in found.items()} == {
        "end_turn": "stop",
        "max_tokens": "length",
        "stop_sequence": "stop",
        "tool_use": "stop",  # without any call
        "pause_turn": "other",
        "compaction": "other",
        "refusal": "content_filter",
        "model_context_window_exceeded": "length",
    }
    assert all(response.finish_reason.raw == reason for reason, response in found.items())


def test_what_no_sdk_knows_yet_is_kept():
    block = {"type": "hologram", "beams": ["a"], "note": "first "}
    delta = {"type": "hologram_delta", "beams": ["b"], "note": "second"}
    events = feed(anthropic.StreamDecoder(), anthropic_stream(anthropic_body(), [[block, delta]]))
    assert response_of(events).message.content[0].provider_metadata == {
        "anthropic": {"type": "hologram", "beams": ["b"], "note": "first second"}
    }
    item = {"type": "hologram", "id": "i", "beams": ["a"]}
    response = openai.parse_response(openai_body(item))
    assert openai_request.build_request(request_after(response, "gpt-5.2")).body["input"][1] == item
    part = {"hologram": {"beams": ["a"]}}
    response = gemini.parse_response({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})
    contents = gemini_request.build_request(request_after(response, "gemini-2.5-pro")).body["contents"]
    assert contents[1]["parts"] == [part]
    unknown = {"type": "hologram", "object": "hologram.chunk", "choices": []}
    assert told(chat.StreamDecoder(provider="p", model="m").feed(ServerSentEvent("", json.dumps(unknown))), unknown)
    for decoder in (openai.StreamDecoder(), anthropic.StreamDecoder()):
        assert told(decoder.feed(ServerSentEvent("", json.dumps(unknown))), unknown)


# The Gemini API

DATA = (
    "text",
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "toolCall",
    "toolResponse",
    "audioTranscription",
)


def gemini_body(*parts: _Json, **fields: Any) -> _Json:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", "index": 0, **fields}
    return {"responseId": "r", "modelVersion": "m", "candidates": [candidate], "usageMetadata": {"promptTokenCount": 1}}


def test_every_part_of_an_answer_goes_back_as_it_came_and_streams_to_the_same(official_samples):
    sample = official_samples.sample_of(import_module("google.genai.types").Part)
    assert set(DATA) <= sample.keys()
    sample["functionCall"] = {name: sample["functionCall"][name] for name in ("id", "name", "args")}
    sample["inlineData"].pop("displayName")
    beside = tuple(name for name in sample if name not in (*DATA, "thought"))
    assert "thoughtSignature" in beside
    for kind in DATA:
        for names in ((kind,), (kind, "thought"), (kind, "thoughtSignature"), (kind, *beside)):
            part = {name: sample[name] for name in names}
            body = gemini_body(part)
            response = gemini.parse_response(copy(body))
            contents = gemini_request.build_request(request_after(response, "gemini-2.5-pro")).body["contents"]
            assert contents[1]["parts"] == [part], names
            assert response_of(feed(gemini.StreamDecoder(), [body])).message == response.message, names
            if kind == "inlineData":
                assert response.message.content[0].image is not None


def test_every_finish_reason_of_an_answer_is_known_or_other():
    reasons = [reason.value for reason in import_module("google.genai.types").FinishReason]
    assert len(reasons) >= 24
    for reason in reasons:
        body = gemini_body({"text": "a"}, finishReason=reason)
        response = gemini.parse_response(body)
        assert response.finish_reason.raw == reason
        expected = {"STOP": "stop", "MAX_TOKENS": "length"}.get(reason)
        assert response.finish_reason.reason == (expected or response.finish_reason.reason)
        assert expected or response.finish_reason.reason in ("content_filter", "error", "other")
        assert response_of(feed(gemini.StreamDecoder(), [body])).finish_reason == response.finish_reason
        # The same without any content, as after a malformed call.
        assert gemini.parse_response({"candidates": [{"finishReason": reason}]}).finish_reason.raw == reason


def test_every_reason_to_block_a_prompt_is_a_filter():
    for reason in import_module("google.genai.types").BlockedReason:
        body = {"promptFeedback": {"blockReason": reason.value, "blockReasonMessage": "no"}}
        with pytest.raises(ContentFilterError, match=reason.value):
            gemini.parse_response(body)
        with pytest.raises(ContentFilterError, match=reason.value):
            feed(gemini.StreamDecoder(), [body])


def test_what_stands_beside_the_content_is_told_and_kept(official_samples):
    sample = official_samples.sample_of(import_module("google.genai.types").Candidate)
    beside = {
        name: sample[name]
        for name in sample
        if name not in ("content", "finishReason", "finishMessage", "index", "tokenCount", "avgLogprobs")
    }
    assert {"groundingMetadata", "citationMetadata", "urlContextMetadata"} <= beside.keys()
    for name, value in beside.items():
        body = gemini_body({"text": "a"}, **{name: value})
        events = feed(gemini.StreamDecoder(), [body, gemini_body(finishReason="STOP")])
        raw = response_of(events).raw
        assert raw is not None
        assert raw["candidates"][0][name] == value
        assert name == "safetyRatings" or any(event.type == StreamEventType.PROVIDER_EVENT for event in events)


def test_arguments_of_a_call_come_in_pieces_of_every_kind():
    pieces = [
        {"name": "f", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.text", "stringValue": "a", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.text", "stringValue": "b", "willContinue": True}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.text"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.number", "numberValue": 0.5}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.deep[0].flag", "boolValue": False}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.nothing", "nullValue": "NULL_VALUE"}], "willContinue": True},
        {},
    ]
    bodies = [gemini_body({"functionCall": piece}, finishReason=None) for piece in pieces]
    response = response_of(feed(gemini.StreamDecoder(), [*bodies, gemini_body()]))
    (call,) = response.tool_calls
    assert call.arguments == {"text": "ab", "number": 0.5, "deep": [{"flag": False}], "nothing": None}
    assert response.finish_reason.reason == "tool_calls"


# Chat Completions


def chat_decoder() -> chat.StreamDecoder:
    return chat.StreamDecoder(provider="chat", model="m", new_id=lambda: "new")


def chat_parse(body: _Json) -> Response:
    return chat.parse_response(body, provider="chat", model="m", new_id=lambda: "new")


def test_every_field_of_a_chat_message_is_kept_and_streams_to_the_same(official_samples):
    sample = official_samples.sample_of(import_module("openai.types.chat").ChatCompletionMessage)
    assert {"content", "refusal", "annotations", "audio", "function_call", "tool_calls"} <= sample.keys()
    for name in sample:
        message = {"role": "assistant", "content": "hi", name: sample[name]}
        body = {"id": "r", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        response = chat_parse(copy(body))
        chunks = [
            {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {field: message[field]}}]} for field in message
        ]
        end = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        events = feed(chat_decoder(), [*chunks, end, "[DONE]"])
        assert response_of(events).message == response.message, name
        assert response_of(events).finish_reason == response.finish_reason, name
        if name in ("annotations", "audio"):
            kept = [part.provider_metadata for part in response.message.content]
            assert kept == [{"chat": {"fields": {name: sample[name]}}}]
            sent = chat_request.build_request(request_after(response, "m"), provider="chat").body["messages"][1]
            assert sent == {"role": "assistant", "content": "hi"}  # servers refuse what they don't know
            assert any(event.type == StreamEventType.PROVIDER_EVENT for event in events)


def test_fields_that_come_in_pieces_grow():
    pieces: list[_Json] = [
        {"content": "hi", "annotations": [{"type": "url_citation", "n": 1}]},
        {"annotations": [{"type": "url_citation", "n": 2}], "audio": {"id": "a", "transcript": "Hel"}},
        {"audio": {"transcript": "lo", "expires_at": 5}},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in pieces]
    (part,) = response_of(feed(chat_decoder(), [*chunks, "[DONE]"])).message.content
    assert (part.provider_metadata or {})["chat"]["fields"] == {
        "annotations": [{"type": "url_citation", "n": 1}, {"type": "url_citation", "n": 2}],
        "audio": {"id": "a", "transcript": "Hello", "expires_at": 5},
    }


# A call in fragments, as servers of several kinds send them.
FRAGMENTS: dict[str, list[_Json]] = {
    "as specified": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x": '}},
        {"index": 0, "function": {"arguments": "1}"}},
    ],
    "no index": [
        {"id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"function": {"arguments": "1}"}},
    ],
    "no index, id repeated": [
        {"id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"id": "a", "function": {"arguments": "1}"}},
    ],
    "name repeated": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"index": 0, "function": {"name": "f", "arguments": "1}"}},
    ],
    "id and name repeated": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "1}"}},
    ],
    "a new id with each": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"index": 0, "id": "b", "function": {"name": "f", "arguments": "1}"}},
    ],
    "only the name repeated": [
        {"id": "a", "function": {"name": "f", "arguments": '{"x": '}},
        {"function": {"name": "f", "arguments": "1}"}},
    ],
    "nulls": [
        {"index": 0, "id": "a", "type": None, "function": {"name": "f", "arguments": None}},
        {"index": 0, "id": None, "function": {"name": None, "arguments": '{"x": 1}'}},
    ],
    "empty texts": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": 1'}},
        {"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": "}"}},
    ],
}


@pytest.mark.parametrize("fragments", FRAGMENTS.values(), ids=FRAGMENTS)
def test_a_call_in_fragments_is_one_call(fragments):
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}}]} for fragment in fragments]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    (call,) = response_of(feed(chat_decoder(), [*chunks, end, "[DONE]"])).tool_calls
    assert (call.id, call.name, call.arguments) == ("a", "f", {"x": 1})


@pytest.mark.parametrize("arguments", ["", "{}", '{"x": 1}'])
@pytest.mark.parametrize("ids", [{"id": None}, {"id": "c1"}, {"index": 0, "id": "c1"}])
def test_two_whole_calls_of_one_tool_stay_two(ids, arguments):
    calls = [
        {**ids, **({"id": f"c{n}"} if ids["id"] else {}), "function": {"name": "f", "arguments": arguments}}
        for n in range(2)
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    response = response_of(feed(chat.StreamDecoder(provider="chat", model="m"), [*chunks, "[DONE]"]))
    assert [call.name for call in response.tool_calls] == ["f", "f"]
    assert len({call.id for call in response.tool_calls}) == 2


# Damage

ODD = st.sampled_from([None, "", "odd", 0, -1, 1.5, True, [], {}, [None], {"a": None}])


def nodes(value: Any) -> Iterable[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key or index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield value, key
        yield from nodes(child)


CALL = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
WHOLE: dict[str, _Json] = {
    "openai": openai_body(
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "id": "ms", "content": [{"type": "output_text", "text": "hi", "annotations": []}]},
        CALL,
    ),
    "anthropic": anthropic_body(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "hi", "citations": [{"cited_text": "a"}]},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ),
    "gemini": gemini_body(
        {"text": "hm", "thought": True},
        {"text": "hi", "thoughtSignature": "s"},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c"}},
        {"executableCode": {"code": "1"}},
    ),
    "chat": {
        "id": "r",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "content": "hi",
                    "reasoning_content": "hm",
                    "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
                    "tool_calls": [{"id": "c", "index": 0, "function": {"name": "f", "arguments": "{}"}}],
                    "annotations": [{"type": "url_citation"}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    },
}
STREAMS: dict[str, list[Any]] = {
    "openai": [
        {"type": "response.created", "response": openai_body(status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "i", "delta": '{"a": 1}'},
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "item_id": "ms", "delta": "hi"},
        {"type": "response.completed", "response": openai_body(CALL)},
    ],
    "anthropic": anthropic_stream(
        anthropic_body(),
        [
            [{"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"}],
            [{"type": "text", "text": ""}, {"type": "text_delta", "text": "hi"}],
            [{"type": "tool_use", "name": "f", "input": {}}, {"type": "input_json_delta", "partial_json": "{}"}],
        ],
    ),
    "gemini": [
        WHOLE["gemini"],
        gemini_body({"functionCall": {"name": "g", "willContinue": True}}, finishReason=None),
        gemini_body({"functionCall": {"partialArgs": [{"jsonPath": "$.a[0]", "stringValue": "x"}]}}),
    ],
    "chat": [
        {"id": "r", "choices": [{"index": 0, "delta": {"content": "hi", "reasoning": "hm"}}]},
        {"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": FRAGMENTS["as specified"][:1]}}]},
        {"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": FRAGMENTS["as specified"][1:]}}]},
        {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": {}},
        "[DONE]",
    ],
}
PARSERS: dict[str, Any] = {
    "openai": (openai.parse_response, openai.StreamDecoder),
    "anthropic": (anthropic.parse_response, anthropic.StreamDecoder),
    "gemini": (gemini.parse_response, gemini.StreamDecoder),
    "chat": (chat_parse, chat_decoder),
}
# What `complete()` of the adapters turns into ServerError.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, SDKError)


def damaged(data: st.DataObject, value: Any) -> Any:
    value = copy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(nodes(value))
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = copy(data.draw(ODD))
    return value


@pytest.mark.parametrize("name", PARSERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_a_damaged_answer_is_an_answer_or_an_error_of_ours(name, data):
    body = damaged(data, WHOLE[name])
    try:
        response = PARSERS[name][0](body)
    except UNREADABLE:
        return
    assert Response.model_validate_json(response.model_dump_json()).text == response.text


@pytest.mark.parametrize("name", PARSERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_a_damaged_stream_is_an_answer_or_an_error_of_ours(name, data):
    payloads = damaged(data, STREAMS[name])
    try:
        events = feed(PARSERS[name][1](), payloads)
    except SDKError:
        return
    response = events[-1].response
    assert response is not None
    assert Response.model_validate_json(response.model_dump_json()).text == response.text
