"""Loop detection, questions, context share: pure rules (sections 2.3, 2.10, 5.5)."""

from datetime import UTC, datetime

import pytest
from agent_loop.guards import asks_question, context_usage, detect_loop
from agent_loop.history import AssistantTurn, Turn
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import ToolCall, Usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def calling(*names: str, **arguments: object) -> list[Turn]:
    return [
        AssistantTurn("", (ToolCall(id="1", name=name, arguments=dict(arguments)),), None, Usage(), None, NOW, ())
        for name in names
    ]


@pytest.mark.parametrize("pattern", ["a", "ab", "abc"])
@pytest.mark.parametrize("window", [6, 9, 10, 12])
def test_patterns_of_one_two_and_three_are_found(pattern: str, window: int) -> None:
    calls = (pattern * window)[:window]
    assert detect_loop(calling(*"xyz", *calls), window)
    assert not detect_loop(calling(*calls[1:]), window)


@given(st.text("ab", min_size=10, max_size=14))
def test_only_what_repeats_throughout_the_window_is_a_loop(names: str) -> None:
    window = names[-10:]
    periodic = any(window[length:] == window[:-length] for length in (1, 2, 3))
    assert detect_loop(calling(*names), 10) == periodic


def test_other_arguments_are_other_calls() -> None:
    edits: list[Turn] = [turn for number in range(12) for turn in calling("edit_file", file_path=f"{number}.py")]
    assert not detect_loop(edits, 10)
    assert detect_loop([turn for _ in range(10) for turn in calling("edit_file", file_path="a", b=1)], 10)


def test_the_order_of_arguments_makes_no_difference() -> None:
    turn, other = calling("grep", pattern="x", path="."), calling("grep", path=".", pattern="x")
    assert detect_loop([*turn, *other] * 5, 10)
    assert detect_loop([*turn * 4, *other * 3, *turn * 3], 10)


def test_three_different_calls_are_no_loop_in_a_window_of_three() -> None:
    assert not detect_loop(calling(*"abc"), 3)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Shall I?", True),
        ("Done. Which one do you want?\n\n", True),
        ("Is it **this**?**", True),
        ("¿Cuál? (a o b?)", True),
        ("どうしますか？", True),
        ("Why? Because.", False),
        ("Done.", False),
        ("", False),
    ],
)
def test_question_is_what_ends_in_one(text: str, question: bool) -> None:
    assert asks_question(text) is question


def test_share_of_the_context_window() -> None:
    assert context_usage(4_000, 2_000) == 0.5
    assert context_usage(4_000, 0) == 0
