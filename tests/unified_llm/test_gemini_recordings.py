"""Every recorded exchange of the Gemini API, replayed through the adapter."""

import json
import re

import pytest
from unified_llm.provider_utils.sse import SSEDecoder
from unified_llm.providers.gemini.adapter import GeminiAdapter
from unified_llm.providers.gemini.request import build_request
from unified_llm.providers.gemini.response import parse_response
from unified_llm.spec.errors import StreamError
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

FINISH_REASON = re.compile(rb'"finishReason": ?"')


def make_adapter(client):
    return GeminiAdapter(api_key="key", base_url="http://recorded", http_client=client)


def normal(response):
    """A response as JSON, with the ids that we gave to calls in the order of the calls."""
    if response is None:
        return None
    text = response.model_dump_json(exclude={"rate_limit"})
    for number, call in enumerate(response.tool_calls):
        text = text.replace(call.id, f"call {number}")
    return json.loads(text)


def chunks_of(recording):
    if recording.content.startswith(b"["):
        return json.loads(recording.content)
    return [json.loads(event.data) for event in SSEDecoder().feed(recording.content)]


@pytest.mark.recordings("gemini")
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_answer_is_understood(replay, recording, library):
    observed = await replay.replay(make_adapter, recording, library=library)
    assert replay.check(observed, recording.expected) == []


@pytest.mark.recordings("gemini", where="ends_well")
async def test_a_stream_keeps_its_order_and_accumulates(replay, recording):
    observed = await replay.replay(make_adapter, recording)
    assert replay.check_discipline(observed) == []


@pytest.mark.recordings("gemini", where="stream")
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_how_the_bytes_are_cut_makes_no_difference(replay, recording, size):
    whole = await replay.replay(make_adapter, recording)
    cut = await replay.replay(make_adapter, recording, chunks=replay.pieces(recording.content, size))
    assert normal(cut.response) == normal(whole.response)
    assert str(cut.error) == str(whole.error)
    assert [event.type for event in cut.events] == [event.type for event in whole.events]


@pytest.mark.recordings("gemini", where="ends_well")
async def test_a_stream_cut_short_is_an_error(replay, recording):
    match = FINISH_REASON.search(recording.content)
    assert match is not None
    for position in {*range(0, match.start(), max(1, match.start() // 40)), match.start()}:
        observed = await replay.replay(make_adapter, recording, chunks=[recording.content[:position]])
        assert isinstance(observed.error, StreamError), f"cut at {position}: {observed.error!r}"
        assert observed.events[-1].error is observed.error
        assert observed.response is None


@pytest.mark.recordings("gemini", where="ends_well")
async def test_a_stream_gives_what_the_same_content_unstreamed_would(replay, recording):
    streamed = (await replay.replay(make_adapter, recording)).response
    whole = parse_response(put_together(chunks_of(recording)), model=streamed.model)
    assert normal(streamed)["message"] == normal(whole)["message"]
    assert (streamed.id, streamed.model, streamed.usage) == (whole.id, whole.model, whole.usage)
    assert streamed.finish_reason == whole.finish_reason
    again = parse_response(streamed.raw, model=streamed.model)
    assert normal(again)["message"] == normal(streamed)["message"]


def put_together(chunks):
    """The answer that the chunks are pieces of, written without the code under test."""
    parts, body, candidate, usage = [], {}, {}, {}
    for chunk in chunks:
        body = {**body, **chunk}
        usage = {**usage, **chunk.get("usageMetadata", {})}
        for found in chunk.get("candidates", ()):
            candidate = {**candidate, **found}
            for part in found.get("content", {}).get("parts", ()):
                if part.keys() <= {"text", "thought"} and parts and parts[-1].keys() == part.keys():
                    parts[-1] = {**part, "text": parts[-1]["text"] + part["text"]}
                else:
                    parts.append(part)
    return {**body, "usageMetadata": usage, "candidates": [{**candidate, "content": {"parts": parts}}]}


@pytest.mark.recordings("gemini")
async def test_what_came_goes_back_as_it_came(replay, recording):
    response = (await replay.replay(make_adapter, recording)).response
    if response is None or not response.message.content:
        return
    restored = Message.model_validate_json(response.message.model_dump_json())
    answers = [Message.tool_result(call.id, "done") for call in response.tool_calls]
    wire = build_request(Request(model="gemini-2.5-pro", messages=[Message.user("Hello"), restored, *answers]))
    _, turn, *results = wire.body["contents"]
    sent = [part for part in response.raw["candidates"][0]["content"]["parts"] if part != {"text": ""}]
    assert turn == {"role": "model", "parts": [with_arguments(part) for part in sent]}
    assert wire.warnings == ()
    given = [part["functionCall"].get("id") for part in sent if "functionCall" in part]
    assert [part["functionResponse"].get("id") for content in results for part in content["parts"]] == given


def with_arguments(part):
    """A part with what goes without saying on the way here, but not on the way back."""
    if "functionCall" in part:
        return {**part, "functionCall": {"args": {}, **part["functionCall"]}}
    return part
