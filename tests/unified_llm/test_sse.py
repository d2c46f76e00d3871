"""The event stream parser: what the standard says, and that it doesn't matter how the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.sse import ServerSentEvent, SSEDecoder
from unified_llm.spec.errors import StreamError


def decode(*chunks: bytes, limit: int = 1_000_000) -> list[ServerSentEvent]:
    decoder = SSEDecoder(limit)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.flush()


def event(data: str, name: str = "") -> ServerSentEvent:
    return ServerSentEvent(name, data)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: one\n\n", [event("one")]),
        (b"event: ping\ndata: {}\n\n", [event("{}", "ping")]),
        (b"data:no space\n\ndata:  two spaces\n\n", [event("no space"), event(" two spaces")]),
        (b"data: a\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n", [event("a\nb"), event("c"), event("d")]),
        (b": a comment\n\ndata: x\n: another\n\n", [event("x")]),
        (b"id: 7\nretry: 100\ndata: x\nunknown: y\nnonsense\n\n", [event("x")]),
        (b"event: only a name\n\ndata: x\n\n", [event("x")]),
        (b"data\n\ndata:\n\n", [event(""), event("")]),
        (b"data\ndata\n\n", [event("\n")]),
        (b"\xef\xbb\xbfdata: x\n\n", [event("x")]),
        ("data: a\u2028b\u0085c\x0bd\x0ce\n\n".encode(), [event("a\u2028b\u0085c\x0bd\x0ce")]),
        (b"data: \xff\n\n", [event("\ufffd")]),
        (b"\n\n\r\n\r", []),
        (b"", []),
        (b"data: no blank line at the end", [event("no blank line at the end")]),
        (b"data: x\n", [event("x")]),
        (b"event: x", []),
    ],
)
def test_streams(stream, events):
    assert decode(stream) == events
    assert decode(*(bytes([byte]) for byte in stream)) == events


def test_an_event_is_returned_as_soon_as_it_is_complete():
    decoder = SSEDecoder()
    assert decoder.feed(b"data: x\r\n\r") == [event("x")]
    assert decoder.feed(b"\ndata: y\n") == []
    assert decoder.feed(b"\n") == [event("y")]


def test_a_character_may_be_cut():
    assert decode("data: é你".encode()[:8], "data: é你🙂\n\n".encode()[8:]) == [event("é你🙂")]


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 50, b"x" * 50, b"data: 123456\n"])
def test_a_line_or_an_event_without_end_is_an_error(chunk):
    with pytest.raises(StreamError, match="more than 100 bytes"):
        decode(*[chunk] * 20, limit=100)


def test_the_limit_is_for_one_event_not_for_the_stream():
    assert len(decode(*[b"data: " + b"x" * 50 + b"\n\n"] * 20, limit=100)) == 20


lines = st.sampled_from(
    [
        b"data: ",
        b"data",
        "dataé你🙂\u2028".encode(),
        "data: é你🙂".encode(),
        b"event: e",
        b":",
        b"",
        b"data:x",
        b"id: 1",
    ]
)
streams = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


@given(streams, st.lists(st.integers(0, 200)))
def test_how_the_bytes_are_cut_makes_no_difference(stream, cuts):
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert decode(*chunks) == decode(stream)


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_what_is_written_is_read(texts):
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()
    assert decode(stream) == [event(text) for text in texts]


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(content):
    decode(content)
