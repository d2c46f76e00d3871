"""A run's events as lines on a screen."""

from collections.abc import Mapping
from typing import Any

from attractor.cli.screen import Screen
from attractor.events import (
    Event,
    InterviewCompleted,
    InterviewStarted,
    ParallelBranchCompleted,
    ParallelStarted,
    PipelineStarted,
    StageActivity,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
    StageSuspended,
)
from attractor.graph import Graph
from attractor.state.usage import TokenUsage

_LONGEST_ID = 24
_LONGEST_ERROR = 400


class Progress:
    """Shows stage by stage what happens, as `runner.on_event`."""

    def __init__(self, screen: Screen, graph: Graph) -> None:
        self._screen = screen
        self._graph = graph
        self._width = min(_LONGEST_ID, max((len(node_id) for node_id in graph.nodes), default=0))

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case PipelineStarted(name=name):
                goal = f": {self._graph.goal}" if self._graph.goal else ""
                self._screen.line(f"{self._graph.label or name}{goal}", "bold")
            case StageStarted(name=name) if self._is_work(name, "wait.human"):
                self._screen.busy(self._title(name))
            case StageActivity(activity="tool_start" | "text", text=text):
                self._screen.detail(text)
            case StageSuspended():
                self._screen.busy("")
            case StageCompleted(name=name, duration=duration, usage=usage):
                self._screen.busy("")
                if self._is_work(name):
                    self._screen.line(
                        f"  ok    {self._title(name)}  {format_seconds(duration)}{_append_usage(usage)}", "green"
                    )
            case StageFailed(name=name, error=error):
                self._screen.busy("")
                self._screen.line(f"  FAIL  {self._title(name)}  {_shorten(error)}", "red")
            case StageRetrying(name=name, attempt=attempt, delay=delay):
                self._screen.line(
                    f"  retry {self._title(name)}  attempt {attempt} in {format_seconds(delay)}", "yellow"
                )
                self._screen.busy(f"{self._title(name)}, attempt {attempt}")
            case ParallelStarted(branch_count=count):
                self._screen.busy(f"{count} branches")
            case ParallelBranchCompleted(branch=branch, duration=duration, success=success):
                mark = "ok  " if success else "FAIL"
                self._screen.line(
                    f"  {mark}  branch {branch}  {format_seconds(duration)}", "green" if success else "red"
                )
            case InterviewStarted():
                self._screen.busy("")
            case InterviewCompleted(question=question, answer=answer):
                self._screen.line(f"  {question} {answer}", "cyan")

    def _is_work(self, node_id: str, *more: str) -> bool:
        """Start, exit and diamonds take no time worth a line; nor do the other types that are named."""
        node = self._graph.nodes.get(node_id)
        return node is None or self._graph.handler_type(node) not in ("start", "exit", "conditional", *more)

    def _title(self, node_id: str) -> str:
        node = self._graph.nodes.get(node_id)
        label = node.label.replace("\n", " ") if node and node.label != node_id else ""
        return f"{node_id:<{self._width}}  {label}".rstrip()


def format_usage(usage: TokenUsage) -> str:
    """What was used, for people: `1200 tokens`, `1200 tokens, $0.0031`."""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{usage.total_tokens} tokens{cost}"


def _append_usage(record: Mapping[str, Any] | None) -> str:
    return f"  {format_usage(TokenUsage.from_record(record))}" if record else ""


def format_seconds(seconds: float) -> str:
    """A duration for people: `0.3 s`, `42 s`, `3 min 5 s`, `2 h 4 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"
