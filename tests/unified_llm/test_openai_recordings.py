"""Every recorded exchange of the Responses API, replayed through the adapter."""

import json

import pytest
from unified_llm.provider_utils.sse import SSEDecoder
from unified_llm.providers.openai.adapter import OpenAIAdapter
from unified_llm.providers.openai.request import build_request
from unified_llm.providers.openai.response import parse_response
from unified_llm.spec.errors import StreamError
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

# Hand-edited by whoever published it: the deltas make another text than the end of the stream says.
CONTRADICTS_ITSELF = "oair-vercel-openai-shell-container-1-chunks-0-0c12a6"


def make_adapter(client):
    return OpenAIAdapter(api_key="key", base_url="http://recorded/v1", http_client=client)


def timeless(response):
    """Without the times at which rate limits reset, which count from now."""
    return response and response.model_copy(update={"rate_limit": None})


def last_frame(recording):
    return [event for event in SSEDecoder().feed(recording.content) if event.data != "[DONE]"][-1]


@pytest.mark.recordings("openai-responses")
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_answer_is_understood(replay, recording, library):
    observed = await replay.replay(make_adapter, recording, library=library)
    assert replay.check(observed, recording.expected) == []


@pytest.mark.recordings("openai-responses", where="ends_well")
async def test_a_stream_keeps_its_order_and_accumulates(replay, recording):
    observed = await replay.replay(make_adapter, recording)
    assert replay.check_discipline(observed) == []


@pytest.mark.recordings("openai-responses", where="stream")
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_how_the_bytes_are_cut_makes_no_difference(replay, recording, size):
    whole = await replay.replay(make_adapter, recording)
    cut = await replay.replay(make_adapter, recording, chunks=replay.pieces(recording.content, size))
    assert timeless(cut.response) == timeless(whole.response)
    assert str(cut.error) == str(whole.error)
    assert [event.type for event in cut.events] == [event.type for event in whole.events]


@pytest.mark.recordings("openai-responses", where="ends_well")
async def test_a_stream_cut_short_is_an_error(replay, recording):
    end = recording.content.rindex(last_frame(recording).data.encode())
    for position in {*range(0, end, max(1, end // 40)), end}:
        observed = await replay.replay(make_adapter, recording, chunks=[recording.content[:position]])
        assert isinstance(observed.error, StreamError), f"cut at {position}: {observed.error!r}"
        assert observed.events[-1].error is observed.error
        assert observed.response is None


@pytest.mark.recordings("openai-responses", where="ends_well")
async def test_a_stream_gives_what_the_same_answer_unstreamed_would(replay, recording):
    streamed = (await replay.replay(make_adapter, recording)).response
    body = json.loads(last_frame(recording).data)["response"]
    if not body["output"]:
        pytest.skip("this server leaves the output out of the last event")
    whole = parse_response(body)
    if recording.id == CONTRADICTS_ITSELF:
        assert whole.text.startswith(streamed.text.rstrip("."))
        return
    assert streamed.message == whole.message
    assert (streamed.id, streamed.model, streamed.usage) == (whole.id, whole.model, whole.usage)
    assert streamed.finish_reason == whole.finish_reason


@pytest.mark.recordings("openai-responses")
async def test_what_came_goes_back_as_it_came(replay, recording):
    response = (await replay.replay(make_adapter, recording)).response
    if response is None or not response.message.content or recording.id == CONTRADICTS_ITSELF:
        return
    answers = [Message.tool_result(call.id, "done") for call in response.tool_calls]
    wire = build_request(
        Request(model="gpt-5.2", messages=[Message.user("Hello"), response.message, *answers, Message.user("and?")])
    )
    _, *sent = wire.body["input"][: -1 - len(answers)]
    assert sent == [as_sent(item) for item in response.raw["output"]]
    assert wire.warnings == ()


def as_sent(item):
    """An item as it goes back: without probabilities, and without arguments that are no JSON."""
    if item["type"] == "message":
        blocks = [{name: value for name, value in block.items() if name != "logprobs"} for block in item["content"]]
        return {**item, "content": [{"annotations": [], **block} if "text" in block else block for block in blocks]}
    if item["type"] == "function_call":
        try:
            json.loads(item["arguments"])
        except ValueError:
            return {**item, "arguments": "{}"}
    return item
