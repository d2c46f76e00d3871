"""What watches over a run without touching it (sections 2.10 and 5.5). Pure."""

import json
from collections.abc import Sequence
from itertools import islice

from unified_llm import ToolCall

from agent_loop.history import Turn, latest_first

CHARACTERS_PER_TOKEN = 4
CONTEXT_WARNING_SHARE = 0.8
_LONGEST_PATTERN = 3
_CLOSING_MARKS = "*_`\"'”’»)] \t\r\n"
_QUESTION_MARKS = ("?", "？", "؟")


def detect_loop(history: Sequence[Turn], window_size: int) -> bool:
    """Whether the last `window_size` tool calls repeat a pattern of one, two or three calls.

    A pattern must come round at least twice within the window. Calls are the same only if name and arguments are.
    """
    calls = [_signature(call) for call in islice(latest_first(history), window_size)]
    if len(calls) < window_size:
        return False
    longest = min(_LONGEST_PATTERN, window_size // 2)
    return any(
        all(calls[index] == calls[index - length] for index in range(length, window_size))
        for length in range(1, longest + 1)
    )


def _signature(call: ToolCall) -> tuple[str, str]:
    if call.parse_error is not None:
        return call.name, call.raw_arguments or ""
    return call.name, json.dumps(call.arguments, sort_keys=True)


def context_usage(characters: int, context_window_size: int) -> float:
    """Roughly which share of the context window is used; 0 where the window's size, in tokens, is unknown (0)."""
    return characters / CHARACTERS_PER_TOKEN / context_window_size if context_window_size > 0 else 0.0


def asks_question(text: str) -> bool:
    """Whether the last sentence is a question, so that the session waits for the user's answer."""
    return text.rstrip(_CLOSING_MARKS).endswith(_QUESTION_MARKS)
