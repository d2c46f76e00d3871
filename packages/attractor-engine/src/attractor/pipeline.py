"""The whole life of a run: parse, transform, validate, initialize, execute, finalize (section 3.1)."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attractor.diagnostics import Diagnostic
from attractor.events import Event
from attractor.graph import Graph
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.interviewers.base import Interviewer
from attractor.outcome import Outcome, StageStatus
from attractor.transforms import Transform
from attractor.validation import LintRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. `status` is SUCCESS or FAIL; `duration` is in seconds."""

    status: StageStatus
    completed_nodes: tuple[str, ...]
    node_outcomes: Mapping[str, Outcome]
    context: Mapping[str, Any]
    failure_reason: str
    logs_root: Path
    run_id: str
    duration: float
    notes: str = ""
    cancelled: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


class PipelineRunner:
    """Runs pipelines. `backend` of None simulates (section 4.5). One run at a time per runner.

    `logs_root` is the run directory (default: a new one under `$XDG_STATE_HOME/attractor/runs`). `context` holds
    values to start with. `options` is recorded in manifest.json and given back by `read_manifest()`, for whoever
    resumes. `dry_run` runs no tool command. `working_dir` is where tool commands run (default: the current directory).
    """

    on_event: Callable[[Event], object] | None

    def __init__(
        self,
        *,
        backend: Any = None,
        interviewer: Interviewer | None = None,
        logs_root: str | Path | None = None,
        handlers: HandlerRegistry | Mapping[str, Handler] | None = None,
        transforms: Sequence[Transform] = (),
        lint_rules: Iterable[LintRule] = (),
        context: Mapping[str, Any] | None = None,
        working_dir: str | Path | None = None,
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        raise NotImplementedError

    def register_transform(self, transform: Transform) -> None:
        """Run `transform` after the built-in ones and those registered before."""
        raise NotImplementedError

    async def run(self, graph: Graph | str) -> RunResult:
        """Run a pipeline from its graph or its DOT source; raises DotSyntaxError, ValidationError, RunDirectoryError."""
        raise NotImplementedError

    async def resume(self, logs_root: str | Path, *, graph: Graph | None = None, from_node: str = "") -> RunResult:
        """Go on with a run; needs no source file. Raises CheckpointError, RunDirectoryError."""
        raise NotImplementedError

    def events(self) -> AsyncIterator[Event]:
        """All events of the current or next run, from the first to the last."""
        raise NotImplementedError

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the current run: its checkpoint stays, and `run()` returns a failed, cancelled result."""
        raise NotImplementedError


async def run_pipeline(graph: Graph | str, context: Mapping[str, Any] | None = None, **options: Any) -> RunResult:
    """`PipelineRunner(context=context, **options).run(graph)`."""
    return await PipelineRunner(context=context, **options).run(graph)


async def resume_pipeline(logs_root: str | Path, **options: Any) -> RunResult:
    """`PipelineRunner(**options).resume(logs_root)`."""
    return await PipelineRunner(**options).resume(logs_root)
