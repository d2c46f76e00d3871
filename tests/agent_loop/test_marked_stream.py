"""Marks are taken out of a stream however it is cut into pieces, and nothing else is."""

from agent_loop.environments.remote.command import MarkedStream
from hypothesis import given
from hypothesis import strategies as st

TOKEN = "0123456789abcdef"
PIECES = st.one_of(st.binary(), st.sampled_from([b"\x1e", b"\x1e0123", b"\x1e\x1e", f"\x1e{TOKEN}".encode()]))


@given(st.lists(st.tuples(PIECES, st.sampled_from(["start 12", "start", "exit 0", "missing"]))), PIECES, st.data())
def test_any_cuts(parts: list[tuple[bytes, str]], rest: bytes, data: st.DataObject) -> None:
    # What looks like a mark's beginning up to the colon is one: no command knows the token.
    marks = [mark for _, mark in parts]
    written = b"".join(piece + f"\x1e{TOKEN}:{mark}\x1e".encode() for piece, mark in parts) + rest
    plain = b"".join(piece for piece, _ in parts) + rest
    stream = MarkedStream(TOKEN)
    found: list[bytes | str] = []
    while written:
        size = data.draw(st.integers(1, len(written)))
        found += stream.feed(written[:size])
        written = written[size:]
    found += stream.feed(b"the end")
    assert [part for part in found if isinstance(part, str)] == marks
    assert b"".join(part for part in found if isinstance(part, bytes)) == plain + b"the end"


def test_nothing_but_a_mark_that_may_come_is_held_back() -> None:
    stream = MarkedStream(TOKEN)
    assert stream.feed(b"line\n") == [b"line\n"]
    assert stream.feed(b"more\x1e01") == [b"more"]
    assert stream.feed(b"99") == [b"\x1e0199"]
