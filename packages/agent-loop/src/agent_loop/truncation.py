"""Tool output cut to what a model should read (section 5): by characters first, then by lines. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

TruncationMode = Literal["head_tail", "tail", "head"]

DEFAULT_TOOL_LIMITS: Mapping[str, int] = {
    "read_file": 50_000,
    "read_many_files": 50_000,
    "web_fetch": 50_000,
    "shell": 30_000,
    "grep": 20_000,
    "glob": 20_000,
    "list_dir": 20_000,
    "edit_file": 10_000,
    "apply_patch": 10_000,
    "write_file": 1_000,
    "spawn_agent": 20_000,
    "wait": 20_000,
}
# The newest files come first in what glob finds, so its head is what counts.
DEFAULT_TRUNCATION_MODES: Mapping[str, TruncationMode] = {
    "grep": "tail",
    "glob": "head",
    "edit_file": "tail",
    "apply_patch": "tail",
    "write_file": "tail",
}
DEFAULT_LINE_LIMITS: Mapping[str, int] = {"shell": 256, "grep": 200, "glob": 500}
FALLBACK_LIMIT = 30_000

_IN_EVENTS = "The full output is available in the event stream."


class OutputLimits(Protocol):
    """The part of a SessionConfig that matters here: limits by tool name, which override the defaults."""

    @property
    def tool_output_limits(self) -> Mapping[str, int]:
        """Characters."""
        ...

    @property
    def tool_line_limits(self) -> Mapping[str, int]:
        """Lines."""
        ...


@dataclass(frozen=True, slots=True)
class _Cut:
    """What is left of an output, and what is said between the two ends."""

    head: str
    notice: str
    tail: str

    @property
    def text(self) -> str:
        return "".join((self.head, self.notice, self.tail))


def truncate_output(output: str, max_chars: int, mode: TruncationMode = "head_tail") -> str:
    """Keep `max_chars` characters at most, and say where and how many were removed."""
    return output if len(output) <= max_chars else _cut_characters(output, max(max_chars, 0), mode).text


def truncate_lines(output: str, max_lines: int, mode: TruncationMode = "head_tail") -> str:
    """Keep `max_lines` lines at most, and say where and how many were left out."""
    return _cut_lines(_Cut(output, "", ""), max(max_lines, 0), mode).text


def truncate_tool_output(output: str, tool_name: str, limits: OutputLimits | None = None) -> str:
    """The whole pipeline of section 5.3. Tools outside the tables get 30,000 characters, head and tail."""
    character_limits = limits.tool_output_limits if limits is not None else {}
    line_limits = limits.tool_line_limits if limits is not None else {}
    max_chars = character_limits.get(tool_name, DEFAULT_TOOL_LIMITS.get(tool_name, FALLBACK_LIMIT))
    max_lines = line_limits.get(tool_name, DEFAULT_LINE_LIMITS.get(tool_name))
    mode = DEFAULT_TRUNCATION_MODES.get(tool_name, "head_tail")
    cut = _Cut(output, "", "")
    if len(output) > max_chars:
        cut = _cut_characters(output, max(max_chars, 0), mode)
    if max_lines is not None:
        cut = _cut_lines(cut, max(max_lines, 0), "head" if mode == "head" else "head_tail")
    return cut.text


def _cut_characters(output: str, max_chars: int, mode: TruncationMode) -> _Cut:
    removed = len(output) - max_chars
    match mode:
        case "head_tail":
            half = max_chars // 2
            notice = (
                f"\n\n[WARNING: Tool output was truncated. {removed} characters were removed from the middle. "
                f"{_IN_EVENTS} To see a certain part, call the tool again with narrower parameters.]\n\n"
            )
            return _Cut(output[:half], notice, output[half + removed :])
        case "tail":
            notice = f"[WARNING: Tool output was truncated. First {removed} characters were removed. {_IN_EVENTS}]\n\n"
            return _Cut("", notice, output[removed:])
        case "head":
            notice = f"\n\n[WARNING: Tool output was truncated. Last {removed} characters were removed. {_IN_EVENTS}]"
            return _Cut(output[:max_chars], notice, "")


def _cut_lines(cut: _Cut, max_lines: int, mode: TruncationMode) -> _Cut:
    """Take lines out of the middle (or the end), next to where characters were taken, whose notice stays."""
    if cut.head.count("\n") + cut.tail.count("\n") + 2 <= max_lines:
        return cut
    head = cut.head.split("\n") if cut.head else []
    tail = cut.tail.split("\n") if cut.tail else []
    omitted = len(head) + len(tail) - max_lines
    if omitted <= 0:
        return cut
    marker = f"[... {omitted} lines omitted ...]"
    keep_head = max_lines if mode == "head" else 0 if mode == "tail" else max_lines // 2
    if not cut.notice:
        kept_tail = head[len(head) - (max_lines - keep_head) :]
        return _Cut("\n".join([*head[:keep_head], marker, *kept_tail]), "", "")
    if not head:
        kept_tail = tail[len(tail) - (max_lines - keep_head) :]
        return _Cut("", cut.notice, "\n".join([*tail[:keep_head], marker, *kept_tail]))
    keep_head = min(len(head), max(keep_head, max_lines - len(tail)))
    kept_tail = tail[len(tail) - (max_lines - keep_head) :]
    return _Cut("\n".join([*head[:keep_head], marker]), cut.notice, "\n".join(kept_tail))
