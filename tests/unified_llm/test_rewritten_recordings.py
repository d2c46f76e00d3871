"""Recorded streams, written down in other ways that mean the same: every server has its own."""

import re

import pytest
from unified_llm.providers.anthropic.adapter import AnthropicAdapter
from unified_llm.providers.gemini.adapter import GeminiAdapter
from unified_llm.providers.openai.adapter import OpenAIAdapter
from unified_llm.providers.openai_compatible.adapter import OpenAICompatibleAdapter

ADAPTERS = {
    "openai-responses": lambda client: OpenAIAdapter("key", http_client=client),
    "anthropic-messages": lambda client: AnthropicAdapter("key", http_client=client),
    "gemini": lambda client: GeminiAdapter("key", http_client=client),
    "openai-chat": lambda client: OpenAICompatibleAdapter("key", "http://recorded/v1", http_client=client),
}
# What a server may send one day.
UNKNOWN = {
    "openai-responses": b'{"type": "response.telepathy.delta", "output_index": 0, "delta": "hm"}',
    "anthropic-messages": b'{"type": "telepathy", "index": 0, "delta": {"type": "telepathy_delta"}}',
    "gemini": b'{"telepathy": {"strength": 1}}',
    "openai-chat": b'{"object": "telepathy.chunk", "choices": []}',
}
LINE_ENDS = re.compile(rb"\r\n|\r|\n")


def lines_of(content):
    return LINE_ENDS.split(content)


def without_spaces(content):
    return b"\n".join(re.sub(rb"^(data|event): ", rb"\1:", line) for line in lines_of(content))


def without_names(content):
    return b"\n".join(line for line in lines_of(content) if not line.startswith(b"event:") or b"error" in line)


def with_comments(content):
    return b": hello\n\n" + content.replace(b"\ndata:", b"\n: still here\ndata:")


def with_other_fields(content):
    return b"retry: 3000\nid: 7\n\n" + content.replace(b"\ndata:", b"\nid: 8\ndata:")


WAYS = {
    "no space": without_spaces,
    "no names": without_names,
    "CRLF": lambda content: b"\r\n".join(lines_of(content)),
    "CR": lambda content: b"\r".join(lines_of(content)),
    "comments": with_comments,
    "other fields": with_other_fields,
    "byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "blank lines": lambda content: b"\n\n" + content.replace(b"\n\n", b"\n\n\n\n"),
}


@pytest.mark.recordings(*ADAPTERS, where="stream")
async def test_other_ways_of_writing_mean_the_same(replay, recording):
    if recording.content.lstrip()[:1] in (b"[", b"{"):
        pytest.skip("whole JSON, no event stream")
    make = ADAPTERS[recording.api]
    whole = await replay.replay(make, recording)
    for name, rewrite in WAYS.items():
        other = await replay.replay(make, recording, chunks=[rewrite(recording.content)])
        assert [event.type for event in other.events] == [event.type for event in whole.events], name
        assert without_times(other.response) == without_times(whole.response), name
        assert str(other.error) == str(whole.error), name


@pytest.mark.recordings(*ADAPTERS, where="ends_well")
async def test_what_is_unknown_does_no_harm(replay, recording):
    """An event that nobody knows, anywhere in a stream, changes nothing of the answer."""
    make = ADAPTERS[recording.api]
    whole = await replay.replay(make, recording)
    if recording.content.lstrip()[:1] in (b"[", b"{") or whole.response is None:
        pytest.skip("no event stream that ends well")
    events = re.split(rb"(?:\r?\n){2,}", recording.content.strip())
    for place in {0, 1, len(events) // 2, len(events) - 1}:
        written = [*events[:place], b"data: " + UNKNOWN[recording.api], *events[place:], b""]
        other = await replay.replay(make, recording, chunks=[b"\n\n".join(written)])
        assert without_times(other.response) == without_times(whole.response), place
        assert replay.check_discipline(other) == replay.check_discipline(whole), place


def without_times(response):
    """The response without when rate limits reset, which counts from now, and without ids that are made up."""
    if response is None:
        return None
    message = response.message.model_dump(exclude={"content": {"__all__": {"tool_call": {"id"}}}})
    return message, response.usage, response.finish_reason, response.id, response.model
