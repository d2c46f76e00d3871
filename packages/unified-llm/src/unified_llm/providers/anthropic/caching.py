"""Prompt caching: where `cache_control` breakpoints go (section 2.10). Pure.

The heuristic: the last user turn, the last system block and the last tool are marked, in this order of importance.
In a conversation that grows at its end each call then finds the prefix that the call before it wrote. The API allows
four breakpoints; the caller's own come first.
"""

from collections.abc import Iterator
from typing import Any

_Json = dict[str, Any]

MAX_BREAKPOINTS = 4
_BREAKPOINT = {"type": "ephemeral"}


def mark_breakpoints(body: _Json) -> int:
    """Add breakpoints to a request body, as far as the caller's own leave room, and return how many it has then.

    Blocks are replaced, not changed.
    """
    count = count_breakpoints(body)
    for owner, key in _candidates(body):
        *before, last = owner[key]
        if count < MAX_BREAKPOINTS and "cache_control" not in last:
            owner[key] = [*before, {**last, "cache_control": dict(_BREAKPOINT)}]
            count += 1
    return count


def count_breakpoints(body: _Json) -> int:
    """How many breakpoints a request body has."""
    return sum("cache_control" in block for block in _blocks(body)) + ("cache_control" in body)


def _candidates(body: _Json) -> Iterator[tuple[_Json, str]]:
    """Where lists of blocks are whose last block may be marked, the most important first."""
    last_turn: _Json = next((turn for turn in reversed(body["messages"]) if turn["role"] == "user"), {})
    for owner, key in ((last_turn, "content"), (body, "system"), (body, "tools")):
        if isinstance(blocks := owner.get(key), list) and blocks and isinstance(blocks[-1], dict):
            yield owner, key


def _blocks(body: _Json) -> Iterator[_Json]:
    for key in ("tools", "system"):
        if isinstance(blocks := body.get(key), list):
            yield from (block for block in blocks if isinstance(block, dict))
    for turn in body["messages"]:
        if not isinstance(turn["content"], list):
            continue
        for block in turn["content"]:
            yield block
            if isinstance(inner := block.get("content"), list):
                yield from (item for item in inner if isinstance(item, dict))
