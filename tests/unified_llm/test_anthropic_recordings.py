"""Every recorded exchange of the Messages API, replayed through the adapter."""

import pytest
from unified_llm.providers.anthropic.adapter import AnthropicAdapter
from unified_llm.spec.errors import StreamError


def make_adapter(client):
    return AnthropicAdapter(api_key="key", base_url="http://recorded", http_client=client)


@pytest.mark.recordings("anthropic-messages")
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
async def test_the_answer_is_understood(replay, recording, library):
    observed = await replay.replay(make_adapter, recording, library=library)
    assert replay.check(observed, recording.expected) == []


@pytest.mark.recordings("anthropic-messages", where="ends_well")
async def test_a_stream_keeps_its_order_and_accumulates(replay, recording):
    observed = await replay.replay(make_adapter, recording)
    assert replay.check_discipline(observed) == []


@pytest.mark.recordings("anthropic-messages", where="stream")
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_how_the_bytes_are_cut_makes_no_difference(replay, recording, size):
    whole = await replay.replay(make_adapter, recording)
    cut = await replay.replay(make_adapter, recording, chunks=replay.pieces(recording.content, size))
    assert cut.response == whole.response
    assert str(cut.error) == str(whole.error)
    assert [event.type for event in cut.events] == [event.type for event in whole.events]


@pytest.mark.recordings("anthropic-messages", where="ends_well")
async def test_a_stream_cut_short_is_an_error(replay, recording):
    end = recording.content.index(b'"message_stop"')
    for position in {*range(0, end, max(1, end // 40)), end}:
        observed = await replay.replay(make_adapter, recording, chunks=[recording.content[:position]])
        assert isinstance(observed.error, StreamError), f"cut at {position}: {observed.error!r}"
        assert observed.events[-1].error is observed.error
        assert observed.response is None
