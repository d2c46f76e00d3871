"""A compiled graph: what runs it, goes on with it, and tells how it stands."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Generic, cast

from attractor.calls import describe_error
from attractor.dot import format_graph, render_svg
from attractor.engine.execution import Ties
from attractor.errors import CheckpointError, ContextValueError, QuestionError, RunDirectoryError
from attractor.events import Event
from attractor.graph import Graph
from attractor.handlers.base import Handler
from attractor.handlers.child_run import ChildPlan, ChildRunner
from attractor.prebuilt.background import BackgroundTask
from attractor.prebuilt.composition import GraphHandler, GraphNode, Mapper
from attractor.prebuilt.errors import InterruptError, LimitError, NodeError
from attractor.prebuilt.launch import Launch, RunnerOptions, prepare_launch
from attractor.prebuilt.node_context import S
from attractor.prebuilt.node_handler import Program
from attractor.prebuilt.run_record import (
    Snapshot,
    extract_state,
    find_interrupts,
    find_stop,
    read_history,
    read_last_state,
)
from attractor.prebuilt.run_store import RunPlaces, RunStore
from attractor.prebuilt.stream import RunStream, Updates, Watch, settle
from attractor.result import RunResult
from attractor.state.checkpoint import hash_graph
from attractor.state.journal import has_checkpoint
from attractor.state.json_values import to_json_value
from attractor.state.run_directory import is_in_use, new_run_id, read_manifest
from attractor.state.suspensions import give_value, load_last_checkpoint

NOTHING: Any = object()
Observer = Callable[[Event], object]


class CompiledGraph(Generic[S]):
    """A graph that runs, any number of times and at the same time; made by `Graph.compile()`.

    A run's id names its directory in the store. Where a method takes one, None means the last run that was begun here,
    or else in the store. Without a store a run's directory is a temporary one, which is removed when the run ends; that
    of an interrupted run stays until it is resumed, or this object is gone.
    """

    def __init__(self, graph: Graph, program: Program, store: RunStore | None, options: RunnerOptions) -> None:
        self.graph = graph
        self.program = program
        self._options = options
        self._places = RunPlaces(store)
        self._streamed: set[BackgroundTask] = set()

    async def invoke(
        self, input: Mapping[str, Any], *, run_id: str | None = None, on_event: Callable[[Event], object] | None = None
    ) -> S:
        """Run the graph to its end, and return its final state.

        `input` is what the channels begin with, as it is: no reducer folds it. Raises ChannelError for an input that
        doesn't fit the state, NodeError if a node fails, LimitError, InterruptError if a node waits for a value,
        RunDirectoryError if there is a run of that id.
        """
        launch = self._begin(input, run_id, on_event=on_event)
        return await self._run(launch)

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
        await settle(self._streamed)
        launch = self._go_on(value, run_id, interrupt, on_event=on_event)
        return await self._run(launch)

    def stream(self, input: Mapping[str, Any], *, run_id: str | None = None) -> RunStream[S]:
        """The same as `invoke()`, and what happens meanwhile; see RunStream."""
        return self._watch(partial(self._begin, input, run_id))

    def stream_resumed(self, value: Any = NOTHING, *, run_id: str | None = None, interrupt: str = "") -> RunStream[S]:
        """The same as `resume()`, and what happens from there on; see RunStream."""
        return self._watch(lambda updates: self._go_on(value, run_id, interrupt, updates=updates))

    def state(self, run_id: str | None = None) -> S:
        """The state of a run as its directory has it now, whichever process executes it."""
        return cast("S", read_last_state(self._places.find(run_id)))

    def history(self, run_id: str | None = None) -> list[Snapshot]:
        """What each step of a run reported, and the state behind it, in the order in which they were recorded."""
        return list(read_history(self._places.find(run_id), self.program))

    def to_dot(self) -> str:
        """The graph as DOT source."""
        return format_graph(self.graph)

    async def to_svg(self) -> bytes:
        """The graph as a picture; raises DrawingError where nothing draws it, see `render_svg()` in attractor.dot."""
        return await render_svg(self.graph)

    def as_node(self, *, input: Mapper | None = None, output: Mapper | None = None) -> GraphNode:
        """This graph as a node of another one, as a run within that one's.

        It begins with the channels that both states have, or with what `input` makes of the outer state. Behind it, the
        channels that both have and that it changed are the node's update, or what `output` makes of the final state.
        A channel that both have and whose outer reducer adds up needs an `output`, which tells what is new.
        """
        return GraphNode(self, input, output, self.graph.name)

    def as_handler(
        self,
        *,
        input: Mapper | None = None,
        output: Mapper | None = None,
        label: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> Handler:
        """This graph as a handler of pipelines, as a run within theirs.

        It begins with the context values that are named like channels, or with what `input` makes of them all. Its
        final state comes back as `<node id>.<channel>`, or as what `output` makes of it; `label` gives the preferred
        label, by which the pipeline's edges can route.
        """
        return GraphHandler(self, input, output, label)

    def open_child(self, plan: ChildPlan, ties: Ties) -> ChildRunner:
        """What runs this graph within another run."""
        values = extract_state(plan.context)
        run_dir, working_dir = plan.logs_root, plan.working_dir
        return prepare_launch(
            self.graph, self.program, self._options, run_dir, values=values, working_dir=working_dir, ties=ties
        ).runner

    def _watch(self, prepare: Callable[[Updates], Launch]) -> RunStream[S]:
        watch = Watch(prepare=prepare, execute=self._execute, release=self._release)
        return RunStream(watch, self._streamed)

    def _begin(
        self,
        input: Mapping[str, Any],
        run_id: str | None,
        updates: Updates | None = None,
        *,
        on_event: Observer | None = None,
    ) -> Launch:
        values = self.program.schema.check(input, "the input")
        run_dir = self._places.make(run_id or new_run_id(self.graph.name, time.time()))
        on_update = updates.add if updates else None
        return prepare_launch(
            self.graph,
            self.program,
            self._options,
            run_dir,
            is_new=True,
            values=values,
            on_event=on_event,
            on_update=on_update,
        )

    def _go_on(
        self,
        value: Any,
        run_id: str | None,
        interrupt: str,
        updates: Updates | None = None,
        *,
        on_event: Observer | None = None,
    ) -> Launch:
        run_dir = self._places.find(run_id)
        values = _take_back(run_dir)
        if value is not NOTHING:
            self._refuse_value(run_dir)
            _give(run_dir, value, interrupt)
        return prepare_launch(
            self.graph,
            self.program,
            self._options,
            run_dir,
            is_new=values is not None,
            values=values,
            on_event=on_event,
            on_update=updates.add if updates else None,
        )

    def _refuse_value(self, run_dir: Path) -> None:
        """A value is taken once: not for a run that couldn't go on with it."""
        if is_in_use(run_dir):
            raise RunDirectoryError(f"{run_dir} is in use by another process; wait for it, then give the value")
        begun_with = load_last_checkpoint(run_dir).graph_hash
        if begun_with and begun_with != hash_graph(self.graph):
            raise CheckpointError(
                f"{run_dir} belongs to another pipeline: nodes, edges or attributes of the graph were changed since "
                "the run began; the value was not taken, so put the original back and give it again, or start a new run"
            )

    async def _run(self, launch: Launch) -> S:
        try:
            result = await self._execute(launch)
        except BaseException as error:
            self._release(launch, error)
            raise
        self._release(launch, None)
        return result

    async def _execute(self, launch: Launch) -> S:
        return self._conclude(await launch.execute(), launch)

    def _release(self, launch: Launch, error: BaseException | None) -> None:
        """Remove what is not kept of a run, unless it waits, or another call works on it."""
        if not isinstance(error, InterruptError | RunDirectoryError | CheckpointError):
            self._places.release(launch.run_dir.name)

    def _conclude(self, result: RunResult, launch: Launch) -> S:
        """The final state, or the error that says why there is none."""
        run_dir = launch.run_dir
        if result.waiting:
            interrupts = find_interrupts(run_dir)
            payload = interrupts[0].payload if interrupts else None
            raise InterruptError(payload, run_id=run_dir.name, run_dir=run_dir, interrupts=interrupts)
        if result.status.is_success:
            return cast("S", extract_state(result.context))
        stop = find_stop(run_dir)
        node, cause = stop.node, launch.errors.get(stop.node)
        if isinstance(cause, LimitError):
            raise cause
        if stop.at_limit and cause is None:
            raise LimitError(f"run {run_dir.name} stopped at node {node!r}: {result.failure_reason}")
        reason = result.failure_reason if cause is None else describe_error(cause)
        raise NodeError(node, reason, run_id=run_dir.name, run_dir=run_dir if self._places.store else None) from cause


def _take_back(run_dir: Path) -> dict[str, Any] | None:
    """The input of a run that was killed before its first state was written: it begins anew. None for any other."""
    if has_checkpoint(run_dir) or is_in_use(run_dir):
        return None
    values = extract_state(read_manifest(run_dir).get("context", {}))
    (run_dir / "manifest.json").unlink()
    return values


def _give(run_dir: Path, value: Any, interrupt: str) -> None:
    found = find_interrupts(run_dir)
    wanted = [each for each in found if not interrupt or each.id == interrupt]
    if not found:
        raise QuestionError(
            f"run {run_dir.name}: a value is for one interrupt, but nothing waits for one; call resume() without it"
        )
    if len(wanted) != 1:
        ids = ", ".join(f"{each.id} (node {each.node!r})" for each in found)
        raise QuestionError(
            f"run {run_dir.name}: a value is for one interrupt, but {ids} waits; say which: resume(value, interrupt=id)"
        )
    try:
        given = to_json_value(value, "value")
    except ContextValueError as error:
        at = f"a value for the interrupt of node {wanted[0].node!r} must be JSON"
        raise ContextValueError(f"{at}: {str(error).removeprefix('context key ')}") from None
    give_value(wanted[0].run_dir, wanted[0].id, given)
