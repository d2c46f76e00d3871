"""Every recorded exchange of Chat Completions servers, replayed through the adapter."""

import json
import re

import pytest
from unified_llm.provider_utils.sse import SSEDecoder
from unified_llm.providers.openai_compatible import OpenAICompatibleAdapter
from unified_llm.providers.openai_compatible.response import parse_response
from unified_llm.spec.errors import StreamError

FINISH_REASON = re.compile(rb'"finish_reason": ?"|\[DONE\]')


def make_adapter(client):
    return OpenAICompatibleAdapter("key", base_url="http://recorded/v1", http_client=client, name="recorded")


@pytest.mark.recordings("openai-chat")
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_answer_is_understood(replay, recording, library):
    observed = await replay.replay(make_adapter, recording, library=library)
    assert replay.check(observed, recording.expected) == []


@pytest.mark.recordings("openai-chat", where="ends_well")
async def test_a_stream_keeps_its_order_and_accumulates(replay, recording):
    observed = await replay.replay(make_adapter, recording)
    assert replay.check_discipline(observed) == []


@pytest.mark.recordings("openai-chat", where="stream")
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_how_the_bytes_are_cut_makes_no_difference(replay, recording, size):
    whole = await replay.replay(make_adapter, recording)
    cut = await replay.replay(make_adapter, recording, chunks=replay.pieces(recording.content, size))
    assert timeless(cut.response) == timeless(whole.response)
    assert str(cut.error) == str(whole.error)
    assert [event.type for event in cut.events] == [event.type for event in whole.events]


def timeless(response):
    """Without the times at which rate limits reset, which count from now."""
    return response and response.model_copy(update={"rate_limit": None})


@pytest.mark.recordings("openai-chat", where="ends_well")
async def test_a_stream_cut_short_is_an_error(replay, recording):
    match = FINISH_REASON.search(recording.content)
    assert match is not None
    first, end = recording.content.index(b"data:") + 1, match.start()
    for position in {*range(first, end, max(1, (end - first) // 40)), end}:
        observed = await replay.replay(make_adapter, recording, chunks=[recording.content[:position]])
        assert isinstance(observed.error, StreamError), f"cut at {position}: {observed.error!r}"
        assert observed.events[-1].error is observed.error
        assert observed.response is None


@pytest.mark.recordings("openai-chat", where="ends_well")
async def test_a_stream_gives_what_the_same_content_unstreamed_would(replay, recording):
    streamed = (await replay.replay(make_adapter, recording)).response
    chunks = [json.loads(event.data) for event in SSEDecoder().feed(recording.content) if event.data != "[DONE]"]
    whole = parse_response(put_together(chunks), provider="recorded", model=streamed.model)
    assert streamed.message == whole.message
    assert streamed.finish_reason.reason == whole.finish_reason.reason
    assert (streamed.id, streamed.model, streamed.usage) == (whole.id, whole.model, whole.usage)


def put_together(chunks):
    """The `chat.completion` that the chunks are pieces of, written without the code under test."""
    message, calls, body, reason = {}, {}, {}, None
    for chunk in chunks:
        usage = chunk.get("usage") or chunk.get("x_groq", {}).get("usage") or body.get("usage")
        body = {"id": body.get("id") or chunk["id"], "model": body.get("model") or chunk["model"], "usage": usage}
        for choice in chunk.get("choices", []):
            if choice["index"] != 0:
                continue
            reason = reason or choice.get("finish_reason")
            for name, value in choice.get("delta", {}).items():
                if name == "tool_calls":
                    for fragment in value:
                        add_call(calls, fragment)
                elif name == "reasoning_details":
                    message[name] = add_details(message.get(name, []), value)
                elif isinstance(value, list):
                    message[name] = [*message.get(name, []), *value]
                elif isinstance(value, str) and isinstance(message.get(name), list):
                    message[name].append({"type": "text", "text": value})
                elif value and name != "role":
                    message[name] = message.get(name, "") + value
    if isinstance(message.get("content"), list):
        message["content"] = [block for block in message["content"] if block]
    if calls:
        message["tool_calls"] = list(calls.values())
    return {**body, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def add_call(calls, fragment):
    call = calls.setdefault(fragment.get("index", 0), {"function": {"name": "", "arguments": ""}})
    call["id"] = call.get("id") or fragment.get("id")
    call["function"]["name"] = call["function"]["name"] or fragment["function"].get("name")
    call["function"]["arguments"] += fragment["function"].get("arguments") or ""


def add_details(known, fragments):
    for fragment in fragments:
        if known and known[-1]["type"] == fragment["type"] != "reasoning.encrypted":
            field = "summary" if "summary" in fragment else "text"
            known[-1][field] += fragment[field]
        else:
            known.append(dict(fragment))
    return known
