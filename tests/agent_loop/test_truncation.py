"""Tool output as a model gets it (sections 5 and 9.5)."""

import re

import pytest
from agent_loop import SessionConfig, truncate_tool_output
from agent_loop.truncation import DEFAULT_TOOL_LIMITS, TruncationMode, truncate_lines, truncate_output
from hypothesis import given
from hypothesis import strategies as st

MODES: list[TruncationMode] = ["head_tail", "tail", "head"]
TEXTS = st.text(alphabet="ab\n", max_size=200)


@given(TEXTS, st.integers(0, 250), st.sampled_from(MODES))
def test_characters_kept_and_removed_add_up(output: str, limit: int, mode: TruncationMode) -> None:
    result = truncate_output(output, limit, mode)
    if len(output) <= limit:
        assert result == output
        return
    head, count, tail = re.fullmatch(
        r"(.*?)(?:\n\n)?\[WARNING: Tool output was truncated\..*?(\d+) characters were removed.*?\](?:\n\n)?(.*)",
        result,
        re.DOTALL,
    ).groups()  # type: ignore[union-attr]
    assert len(head) + len(tail) == limit
    assert int(count) == len(output) - limit
    assert output.startswith(head)
    assert output.endswith(tail)


@given(TEXTS, st.integers(0, 60))
def test_lines_kept_and_omitted_add_up(output: str, limit: int) -> None:
    result = truncate_lines(output, limit)
    lines = output.split("\n")
    if not output or len(lines) <= limit:
        assert result == output
        return
    kept = result.split("\n")
    marker = f"[... {len(lines) - limit} lines omitted ...]"
    place = limit // 2
    assert kept[place] == marker
    assert kept[:place] == lines[:place]
    assert kept[place + 1 :] == lines[len(lines) - (limit - place) :]


@given(
    st.text(alphabet="ab\n", max_size=300),
    st.integers(0, 120),
    st.integers(0, 40),
    st.sampled_from(["shell", "grep", "glob"]),
)
def test_both_passes_bound_the_result_and_lose_no_notice(output: str, chars: int, lines: int, tool: str) -> None:
    config = SessionConfig(tool_output_limits={tool: chars}, tool_line_limits={tool: lines})
    result = truncate_tool_output(output, tool, config)
    assert ("Tool output was truncated" in result) == (len(output) > chars)
    without_notices = re.sub(r"\n*\[(?:WARNING|\.\.\.)[^\]]*\]\n*", "", result)
    assert len(without_notices) <= chars


@pytest.mark.parametrize(
    ("tool", "limit"),
    [
        ("read_file", 50_000),
        ("shell", 30_000),
        ("grep", 20_000),
        ("glob", 20_000),
        ("edit_file", 10_000),
        ("apply_patch", 10_000),
        ("write_file", 1_000),
        ("spawn_agent", 20_000),
    ],
)
def test_default_limits_are_the_tables(tool: str, limit: int) -> None:
    assert DEFAULT_TOOL_LIMITS[tool] == limit
    assert truncate_tool_output("x" * limit, tool) == "x" * limit
    assert "WARNING: Tool output was truncated" in truncate_tool_output("x" * (limit + 1), tool)


def test_two_huge_lines_are_cut_although_they_are_only_two() -> None:
    result = truncate_tool_output("a" * 10_000_000 + "\n" + "b" * 10_000_000, "shell")
    assert len(result) < 31_000
    assert result.startswith("a" * 15_000)
    assert result.endswith("b" * 15_000)
    assert "19970001 characters were removed" in result


def test_line_cut_keeps_the_warning_of_the_character_cut() -> None:
    output = "\n".join(f"line {number}" for number in range(10_000))
    result = truncate_tool_output(output, "shell")
    assert "WARNING: Tool output was truncated" in result
    assert "lines omitted" in result
    assert result.startswith("line 0\n")
    assert result.endswith("line 9999")
    assert len(re.findall(r"(?m)^line \d+$", result)) == 256


def test_glob_keeps_the_newest_which_come_first() -> None:
    result = truncate_tool_output("\n".join(f"file{number}" for number in range(1_000)), "glob")
    assert result.startswith("file0\n")
    assert result.split("\n")[499] == "file499"
    assert "file999" not in result


def test_grep_keeps_its_end() -> None:
    result = truncate_tool_output("first" + "x" * 30_000 + "last", "grep")
    assert "first" not in result
    assert result.endswith("last")


def test_tools_of_a_host_are_cut_too() -> None:
    assert len(truncate_tool_output("x" * 100_000, "anything")) < 31_000
    config = SessionConfig(tool_output_limits={"anything": 10}, tool_line_limits={"anything": 3})
    assert truncate_tool_output("1\n2\n3\n4\n5", "anything", config) == "1\n[... 2 lines omitted ...]\n4\n5"


@pytest.mark.parametrize(
    ("tool", "limit"), [("shell", 256), ("grep", 200), ("glob", 500), ("read_file", None), ("edit_file", None)]
)
def test_default_line_limits_are_the_tables(tool: str, limit: int | None) -> None:
    lines = ["x"] * (limit or 4_000)
    assert truncate_tool_output("\n".join(lines), tool) == "\n".join(lines)
    assert ("lines omitted" in truncate_tool_output("\n".join([*lines, "x"]), tool)) is (limit is not None)
