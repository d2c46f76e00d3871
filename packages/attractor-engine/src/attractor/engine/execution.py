"""One run, from where its checkpoint stands to its end, through as many restarts as its edges ask for."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from attractor.engine.branches import start_traversal
from attractor.engine.joins import Joins
from attractor.engine.limits import Budget, Limits
from attractor.engine.stage import StageExecutor
from attractor.engine.traversal import Traversal, Walk
from attractor.errors import CheckpointError
from attractor.events import Emit
from attractor.graph import Graph, to_text
from attractor.handlers.base import HandlerRegistry
from attractor.interviewers.questions import QuestionStore
from attractor.outcome import Outcome
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.journal import CheckpointStore, has_checkpoint, restore_run
from attractor.state.run_directory import note_elapsed, read_elapsed
from attractor.state.step import RunStatus
from attractor.state.usage import TokenUsage

TICK_SECONDS = 0.05
_NOTE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """What binds a run to those around it, `depth` many: their budgets, where its stages work if that was said, and the
    directory of the outermost run, which has the questions of all.
    """

    depth: int = 0
    refuse_usage: Callable[[TokenUsage | None], str] | None = None
    working_dir: Path | None = None
    questions_root: Path | None = None


class Execution:
    """Executes a run in `root`, and after an edge with loop_restart in `root/restart-N`.

    A restart begins with fresh context and outcomes, but takes the visits with it, so that it comes to an end.
    `checkpoint` is the state of the last one. `cancel_reason` is recorded if the run is cancelled. `on_tick` is called
    every few moments while stages are under way.
    """

    def __init__(
        self,
        root: Path,
        graph: Graph,
        handlers: HandlerRegistry,
        emit: Emit,
        values: Mapping[str, Any],
        *,
        limits: Limits,
        ties: Ties = Ties(),
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._root = root
        self._graph = graph
        self._handlers = handlers
        self._emit = emit
        self._values = values
        self._limits = limits
        self._ties = ties
        self._clock = clock
        self._sleep = sleep
        self._on_tick = on_tick
        self._questions = QuestionStore(ties.questions_root or root, clock)
        self._begun: tuple[float, float] | None = None
        self._folder = root
        self._statuses: Mapping[str, Outcome] = {}
        self.checkpoint = Checkpoint()
        self.cancel_reason = "cancelled"

    def begin(self, run_id: str, graph_hash: str) -> None:
        """Take a new run's first state."""
        self.checkpoint = Checkpoint(run_id=run_id, graph_hash=graph_hash, next_node=self._graph.start_nodes[0].id)
        self._fill(self.checkpoint)

    def load(self) -> None:
        """Take the state that lies on disk, that of the last restart; raises CheckpointError."""
        self.checkpoint, self._statuses = restore_run(self._root)
        while self.checkpoint.status is RunStatus.RESTARTED and has_checkpoint(self._restart_folder()):
            self.write_files()
            self._folder = self._restart_folder()
            self.checkpoint, self._statuses = restore_run(self._folder)
        if self.checkpoint.next_node and self.checkpoint.next_node not in self._graph.nodes:
            raise CheckpointError(
                f"{self._folder} would go on at node {self.checkpoint.next_node!r}, which the pipeline doesn't have; "
                "start a new run"
            )
        self.checkpoint.elapsed = max(self.checkpoint.elapsed, read_elapsed(self._root))

    async def run(self, store_changes: Callable[[CheckpointStore], None] = lambda store: None) -> None:
        """Go on until the run ends, or waits. `store_changes` may record something before the first step."""
        self._begun = time.monotonic(), self.checkpoint.elapsed
        if self.checkpoint.status is RunStatus.RESTARTED:
            self.write_files()
            self._restart()
        await self._traverse(store_changes)
        while self.checkpoint.status is RunStatus.RESTARTED:
            self._restart()
            await self._traverse(lambda store: None)

    def _count_elapsed(self) -> float:
        """For how many seconds the run has been executed, in all processes."""
        begun, before = self._begun or (time.monotonic(), self.checkpoint.elapsed)
        return before + time.monotonic() - begun

    def write_files(self) -> None:
        """Write what a kill kept a run that has ended from writing for readers: checkpoint.json, status.json."""
        CheckpointStore(self._folder, self.checkpoint, statuses=self._statuses).close()

    async def _traverse(self, store_changes: Callable[[CheckpointStore], None]) -> None:
        context = Context(self.checkpoint.context_values, self.checkpoint.logs)
        store = CheckpointStore(self._folder, self.checkpoint, statuses=self._statuses)
        try:
            store_changes(store)
            store.sync()
            await self._run_ticking(self._make_traversal(context, store), store)
        finally:
            store.close()

    def _make_traversal(self, context: Context, store: CheckpointStore) -> Traversal:
        checkpoint = self.checkpoint
        stages = StageExecutor(
            self._graph,
            self._handlers,
            self._folder,
            self._emit,
            prepare=store.prepare,
            sleep=self._sleep,
            first_index=_count_completed(self.checkpoint),
        )
        budget = Budget(self._limits, lambda: checkpoint.usage, self._ties.refuse_usage)
        walk = Walk(
            graph=self._graph,
            store=store,
            stages=stages,
            emit=self._emit,
            budget=budget,
            joins=Joins(self._graph),
            root=self._root,
            questions=self._questions,
            clock=self._clock,
            elapsed=self._count_elapsed,
        )
        context.run.working_dir, context.run.depth = self._ties.working_dir, self._ties.depth
        return start_traversal(walk, checkpoint, context, resumed=checkpoint.current_node != "")

    async def _run_ticking(self, traversal: Traversal, store: CheckpointStore) -> None:
        """Run, and keep the files for readers up to date while a stage takes its time."""
        failure: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tick, store)
            try:
                with anyio.move_on_after(self._find_remaining()) as scope:
                    await traversal.run()
                if scope.cancelled_caught:
                    limit = f"{self._limits.max_duration:g} s"
                    reason = f"the run took longer than max_duration ({limit}); raise it to go on"
                    traversal.end(RunStatus.FAILED, reason)
                elif traversal.checkpoint.status is RunStatus.COMPLETED:
                    traversal.walk.withdraw_questions()
            except anyio.get_cancelled_exc_class():
                traversal.end(RunStatus.CANCELLED, self.cancel_reason)
                raise
            except BaseException as error:
                # Kept from the task group, which would wrap it, a KeyboardInterrupt or SystemExit too.
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _find_remaining(self) -> float | None:
        limit = self._limits.max_duration
        return None if limit is None else max(limit - self._count_elapsed(), 0)

    async def _tick(self, store: CheckpointStore) -> None:
        noted = self._count_elapsed()
        while True:
            await anyio.sleep(TICK_SECONDS)
            try:
                self._on_tick()
                store.keep_up()
                if (elapsed := self._count_elapsed()) - noted >= _NOTE_SECONDS:
                    noted = elapsed
                    note_elapsed(self._root, elapsed)
            except OSError:
                return  # The next step, or the end, meets the same error, and ends the run with it.

    def _restart(self) -> None:
        before, self._folder = self.checkpoint, self._restart_folder()
        self._statuses = {}
        self._folder.mkdir(exist_ok=True)
        self.checkpoint = before.restarted()
        self._fill(self.checkpoint)

    def _restart_folder(self) -> Path:
        return self._root / f"restart-{self.checkpoint.restarts + 1}"

    def _fill(self, checkpoint: Checkpoint) -> None:
        checkpoint.timestamp = self._clock()
        checkpoint.context_values = Context({**mirror_graph(self._graph), **self._values}).snapshot()


def _count_completed(checkpoint: Checkpoint) -> int:
    return len(checkpoint.completed_nodes) + sum(map(_count_completed, checkpoint.branches.values()))


def mirror_graph(graph: Graph) -> dict[str, Any]:
    """The graph's attributes as the context has them, under `graph.` (section 5.1)."""
    plain = {
        key: value if isinstance(value, bool | int | float) else to_text(value) for key, value in graph.attrs.items()
    }
    return {"graph.goal": graph.goal, **{f"graph.{key}": value for key, value in plain.items()}}
