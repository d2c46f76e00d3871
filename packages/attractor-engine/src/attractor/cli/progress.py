"""A run's events as lines on a screen."""

from collections.abc import Mapping
from typing import Any

from attractor.cli.screen import Screen
from attractor.events import (
    ChildCompleted,
    ChildProgressed,
    ChildStarted,
    ChildSteered,
    Event,
    GateEvaluated,
    InterviewCompleted,
    InterviewTimeout,
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
        self._begun: set[str] = set()
        self._done = 0
        self._used: TokenUsage | None = None

    def has_begun(self, node_id: str) -> bool:
        """Whether a stage is under way, as far as events tell."""
        return node_id in self._begun

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case PipelineStarted(name=name):
                goal = f": {self._graph.goal}" if self._graph.goal else ""
                self._screen.line(f"{self._graph.label or name}{goal}", "bold")
            case StageStarted(name=name):
                self._begun.add(name)
                if self._is_work(name, "wait.human"):
                    self._screen.begin(name, self._title(name))
            case StageActivity(name=name, activity="tool_start" | "text", text=text):
                self._screen.detail(name, text)
            case StageSuspended(name=name):
                self._end(name)
            case StageRetrying(name=name, attempt=attempt, delay=delay):
                self._screen.line(
                    f"  retry {self._title(name)}  attempt {attempt} in {format_seconds(delay)}", "yellow"
                )
                self._screen.begin(name, f"{self._title(name)}, attempt {attempt}")
            case StageCompleted() | StageFailed():
                self._show_end(event)
            case InterviewCompleted(question=question, answer=answer):
                self._screen.line(f"  {question} {answer}", "cyan")
            case InterviewTimeout(question=question, duration=duration):
                self._screen.line(f"  {question} nobody answered within {format_seconds(duration)}", "yellow")
            case _:
                self._show_branches(event)

    def _show_end(self, event: StageCompleted | StageFailed) -> None:
        title, used = self._title(event.name), _append_usage(event.usage)
        if isinstance(event, StageFailed) and event.will_retry:
            self._screen.line(f"  FAIL  {title}  {_shorten(event.error)}", "red")
            return
        self._end(event.name, event.usage)
        if isinstance(event, StageFailed):
            self._screen.line(f"  FAIL  {title}  {_shorten(event.error)}{used}", "red")
        elif self._is_work(event.name):
            self._done += 1
            self._screen.line(f"  ok    {title}  {format_seconds(event.duration)}{used}", "green")
        if self._done or self._used:
            self._screen.summarize(f"{self._done} done" + (f"  {format_usage(self._used)}" if self._used else ""))

    def _show_branches(self, event: Event) -> None:
        """What runs beside others or within others."""
        match event:
            case ParallelStarted(branch_count=count):
                self._screen.line(f"  ... {count} branches")
            case ParallelBranchCompleted(branch=branch, duration=duration, success=success):
                mark, style = ("ok  ", "green") if success else ("FAIL", "red")
                self._screen.line(f"  {mark}  branch {branch}  {format_seconds(duration)}", style)
            case ChildStarted(name=name, run_dir=run_dir):
                self._screen.detail(name, run_dir)
            case ChildProgressed(name=name, active_stage=active, completed=completed):
                self._screen.detail(name, f"{completed} done  {active}".rstrip())
            case ChildSteered(name=name, text=text):
                self._screen.line(f"  steer {self._title(name)}  {_shorten(text)}", "yellow")
            case GateEvaluated(gate=name, route=route, attempt=attempt):
                self._screen.detail(name, f"{route}, attempt {attempt}")
            case ChildCompleted(name=name, status=status):
                self._screen.detail(name, status)

    def _end(self, node_id: str, usage: Mapping[str, Any] | None = None) -> None:
        self._begun.discard(node_id)
        self._screen.end(node_id)
        if usage:
            self._used = TokenUsage.from_record(usage) + (self._used or TokenUsage())

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


def format_seconds(seconds: float, *, whole: bool = False) -> str:
    """A duration for people: `0.3 s` (or `0 s` if only `whole` seconds count), `42 s`, `3 min 5 s`, `2 h 4 min`."""
    if seconds < 10 and not whole:
        return f"{seconds:.1f} s"
    rounded = int(seconds) if whole else round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"
