"""A compiled graph: what runs it, goes on with it, and tells how it stands."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, cast

from attractor.backends.base import CodergenBackend
from attractor.dot import format_graph, render_svg
from attractor.engine.limits import Limits
from attractor.errors import QuestionError, RunDirectoryError
from attractor.events import Event
from attractor.graph import Graph
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.interviewers.base import Interviewer
from attractor.pipeline import PipelineRunner
from attractor.prebuilt.errors import InterruptError, NodeError, StepLimitError
from attractor.prebuilt.node_context import S
from attractor.prebuilt.node_handler import PREFIX, NodeHandler, Program, build_handlers
from attractor.prebuilt.run_record import (
    Snapshot,
    extract_state,
    find_failed,
    find_interrupts,
    read_history,
    read_last_state,
)
from attractor.prebuilt.run_store import RunStore
from attractor.result import RunResult
from attractor.state.run_directory import new_run_id
from attractor.state.suspensions import give_value

NOTHING: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """What the pipelines within a graph run with; see PipelineRunner."""

    backend: CodergenBackend | None = None
    interviewer: Interviewer | None = None
    handlers: HandlerRegistry | Mapping[str, Handler] | None = None
    working_dir: str | Path | None = None


@dataclass(frozen=True, slots=True)
class _Temporary:
    """The directory of a run that isn't kept."""

    path: Path
    remove: Callable[[], object]


class CompiledGraph(Generic[S]):
    """A graph that runs, any number of times and at the same time; made by `Graph.compile()`.

    A run's id names its directory in the store. Where a method takes one, None means the last run that was begun here,
    or else in the store. Without a store a run's directory is a temporary one, which is removed when the run ends; that
    of an interrupted run stays until it is resumed, or this object is gone.
    """

    def __init__(self, graph: Graph, program: Program, store: RunStore | None, options: RunnerOptions) -> None:
        self.graph = graph
        self.program = program
        self._store = store
        self._options = options
        self._last_id = ""
        self._temporary: dict[str, _Temporary] = {}

    async def invoke(
        self, input: Mapping[str, Any], *, run_id: str | None = None, on_event: Callable[[Event], object] | None = None
    ) -> S:
        """Run the graph to its end, and return its final state.

        `input` is what the channels begin with, as it is: no reducer folds it. Raises ChannelError for an input that
        doesn't fit the state, NodeError if a node fails, StepLimitError, InterruptError if a node waits for a value,
        RunDirectoryError if there is a run of that id.
        """
        values = self.program.schema.check(input, "the input")
        run_id = run_id or new_run_id(self.graph.name, time.time())
        path = self._make_place(run_id)
        handler = NodeHandler(self.program)
        runner = self._make_runner(handler, path, values, on_event)
        return self._conclude(await runner.run(self.graph), handler, run_id, path)

    async def resume(
        self,
        value: Any = NOTHING,
        *,
        run_id: str | None = None,
        interrupt: str = "",
        on_event: Callable[[Event], object] | None = None,
    ) -> S:
        """Go on with a run that was interrupted, killed, cancelled, or that failed; no completed node runs again.

        `value` is what the interrupted node gets; `interrupt` is the id of the interrupt that it is for, where there
        are several. A run that has ended gives its final state. Raises QuestionError where there is nothing, or more
        than one thing, that the value could be for; else as `invoke()`.
        """
        run_id, path = self._find_run(run_id)
        if value is not NOTHING:
            _give(path, value, interrupt)
        handler = NodeHandler(self.program)
        runner = self._make_runner(handler, path, {}, on_event)
        return self._conclude(await runner.resume(path, graph=self.graph), handler, run_id, path)

    def state(self, run_id: str | None = None) -> S:
        """The state of a run as its directory has it now, whichever process executes it."""
        return cast("S", read_last_state(self._find_run(run_id)[1]))

    def history(self, run_id: str | None = None) -> list[Snapshot]:
        """What each step of a run reported, and the state behind it, in the order in which they were recorded."""
        return list(read_history(self._find_run(run_id)[1], self.program))

    def to_dot(self) -> str:
        """The graph as DOT source."""
        return format_graph(self.graph)

    async def to_svg(self) -> bytes | None:
        """The graph as a picture; see `render_svg()` in attractor.dot."""
        return await render_svg(self.graph)

    def _make_place(self, run_id: str) -> Path:
        if self._store is not None:
            path = self._store.path(run_id)
        else:
            folder = tempfile.mkdtemp(prefix="attractor-")
            remove = weakref.finalize(self, partial(shutil.rmtree, folder, ignore_errors=True))
            path = Path(folder) / run_id
            self._temporary[run_id] = _Temporary(path, remove)
        self._last_id = run_id
        return path

    def _find_run(self, run_id: str | None) -> tuple[str, Path]:
        """Raises RunDirectoryError if there is none."""
        if self._store is None:
            wanted = run_id or self._last_id
            if wanted not in self._temporary:
                raise RunDirectoryError(
                    "nothing is kept of this run; compile the graph with a checkpointer, a folder for its runs"
                )
            return wanted, self._temporary[wanted].path
        wanted = run_id or self._last_id or next(reversed(self._store.run_ids()), "")
        if not wanted:
            raise RunDirectoryError(f"{self._store.folder} holds no run yet; begin one with invoke()")
        return wanted, self._store.path(wanted)

    def _make_runner(
        self, handler: NodeHandler, path: Path, values: Mapping[str, Any], on_event: Callable[[Event], object] | None
    ) -> PipelineRunner:
        options = self._options
        runner = PipelineRunner(
            backend=options.backend,
            interviewer=options.interviewer,
            logs_root=path,
            handlers=HandlerRegistry(build_handlers(handler)).merged_with(options.handlers),
            context={f"{PREFIX}{name}": value for name, value in values.items()},
            working_dir=options.working_dir,
            limits=Limits(max_node_visits=self.program.step_limit + 1),
        )
        runner.on_event = on_event
        return runner

    def _conclude(self, result: RunResult, handler: NodeHandler, run_id: str, path: Path) -> S:
        """The final state, or the error that says why there is none."""
        if result.waiting:
            interrupts = find_interrupts(path)
            payload = interrupts[0].payload if interrupts else None
            raise InterruptError(payload, run_id=run_id, run_dir=path, interrupts=interrupts)
        try:
            if result.status.is_success:
                return cast("S", extract_state(result.context))
            node = find_failed(path)
        finally:
            if (temporary := self._temporary.pop(run_id, None)) is not None:
                temporary.remove()
        cause = handler.errors.get(node)
        if isinstance(cause, StepLimitError):
            raise cause
        reason = result.failure_reason if cause is None else f"{type(cause).__name__}: {cause}"
        raise NodeError(node, reason, run_id=run_id, run_dir=path if self._store else None) from cause


def _give(path: Path, value: Any, interrupt: str) -> None:
    found = find_interrupts(path)
    wanted = [each for each in found if not interrupt or each.id == interrupt]
    if len(wanted) != 1:
        ids = ", ".join(f"{each.id} (node {each.node!r})" for each in found) or "nothing"
        raise QuestionError(
            f"run {path.name}: a value is for one interrupt, but {ids} waits; say which: resume(value, interrupt=id)"
        )
    give_value(wanted[0].run_dir, wanted[0].id, value)
