"""A pipeline that is a stage of another: one run in the directory of the other's stage (sections 4.11 and 9.4).

What a sub-pipeline node and a manager loop have in common: finding the child's file, starting or resuming it, counting
what it uses, and telling the parent how it ended.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from attractor.errors import PipelineConfigurationError
from attractor.events import ChildCompleted, ChildStarted, Emit
from attractor.graph import Graph, Node, to_text
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context
from attractor.state.journal import has_checkpoint, load_checkpoint
from attractor.state.run_directory import restart_path, stage_path
from attractor.state.usage import TokenUsage
from attractor.suspension import Suspend

DOTFILE = "stack.child_dotfile"
WORKDIR = "stack.child_workdir"
_BOOKKEEPING = ("graph.", "internal.", "parallel.", "stack.", "human.gate.")
_ENGINE_KEYS = frozenset({"outcome", "preferred_label", "current_node", "last_stage", "last_response"})


class ChildResult(Protocol):
    """How a child run ended; a RunResult is one."""

    @property
    def status(self) -> StageStatus: ...
    @property
    def failure_reason(self) -> str: ...
    @property
    def waiting(self) -> bool: ...
    @property
    def context(self) -> Mapping[str, Any]: ...
    @property
    def completed_nodes(self) -> tuple[str, ...]: ...


class ChildRunner(Protocol):
    """What runs a child; a PipelineRunner is one."""

    async def run(self, graph: Graph) -> ChildResult: ...
    async def resume(self, logs_root: Path, *, graph: Graph | None = None) -> ChildResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What a child run is given. `working_dir` of None means that of the parent, `context` is what it begins with.

    `refuse_usage` says, given what the child used so far, why the runs around it can't let it use more.
    `questions_root` is the run directory that keeps the questions of all.
    """

    logs_root: Path
    context: Mapping[str, Any]
    refuse_usage: Callable[[TokenUsage | None], str]
    working_dir: Path | None = None
    questions_root: Path | None = None


class ChildPipelines(Protocol):
    """The engine's part: it reads pipelines and makes the runners of children, which are as their parent's is."""

    def read(self, path: Path) -> Graph:
        """The pipeline in a file; raises PipelineConfigurationError or DotSyntaxError."""
        ...

    def restore(self, run_dir: Path) -> Graph:
        """The pipeline that a child's run directory holds; raises CheckpointError."""
        ...

    def find(self, path: str, graph: Graph) -> Path:
        """Where a file that the graph names lies; raises PipelineConfigurationError if nowhere."""
        ...

    def working_dir(self, path: str) -> Path | None:
        """The directory that a node names, from the parent's on; None for an empty name."""
        ...

    def resolve(self, path: str) -> Path:
        """A path from the parent's working directory on."""
        ...

    def open(self, plan: ChildPlan) -> ChildRunner:
        """Raises PipelineConfigurationError if runs lie within runs too deep."""
        ...


class ChildRun:
    """The child of one visit of a node. `run_dir` is its directory, within that of the node.

    `child` is its pipeline, and `values` what its context begins with, where these aren't a file that the node names
    and the parent's context.

    A visit that a kill, a cancellation or a failure interrupted goes on with the child that it has, and so does a
    resumption that tries a failed stage again; any other visit begins a new one.
    """

    def __init__(
        self,
        pipelines: ChildPipelines,
        node: Node,
        context: Context,
        graph: Graph,
        logs_root: Path,
        *,
        child: Graph | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self._pipelines = pipelines
        self._child = child
        self._node = node
        self._context = context
        self._graph = graph
        self.dotfile = get_setting(DOTFILE, node, graph)
        self.run_dir = _find_run_dir(stage_path(logs_root, node.id), node, context)
        self._given = share_context(node, context, graph) if values is None else values
        self._counter = f"internal.child_usage.{node.id}"

    async def run(self) -> ChildResult:
        """Start the child, or go on with it, to its end. What it used is counted however that comes about."""
        runner = self._pipelines.open(
            ChildPlan(
                logs_root=self.run_dir,
                context=self._given,
                refuse_usage=self._refuse_usage,
                working_dir=self._pipelines.working_dir(get_setting(WORKDIR, self._node, self._graph)),
                questions_root=self._context.run.questions_root,
            )
        )
        try:
            if has_checkpoint(self.run_dir):
                child = self._child or self._pipelines.restore(self.run_dir)
                return await runner.resume(self.run_dir, graph=self._with_goal(child))
            # A kill between the manifest and the first state: nothing was run yet.
            (self.run_dir / "manifest.json").unlink(missing_ok=True)
            return await runner.run(self._with_goal(self.read()))
        finally:
            self._count_usage()

    def read(self) -> Graph:
        """The child's pipeline; raises PipelineConfigurationError or DotSyntaxError."""
        if self._child is not None:
            return self._child
        if not self.dotfile:
            raise PipelineConfigurationError(
                f"node {self._node.id!r} has no child pipeline; name its DOT file in {DOTFILE} of the node or the graph"
            )
        return self._pipelines.read(self._pipelines.find(self.dotfile, self._graph))

    def judge(self, result: ChildResult) -> Outcome:
        """What the child's end means for the stage, with what it changed in the context under the node's id.

        Raises Suspend for a child that waits for something from outside: so does its parent, then.
        """
        if result.waiting:
            raise Suspend(nested=True)
        name = self.dotfile or self.run_dir.name
        changed = {
            f"{self._node.id}.{key}": value
            for key, value in result.context.items()
            if not _is_bookkeeping(key) and (key not in self._given or self._given[key] != value)
        }
        updates = {**changed, "last_stage": self._node.id, f"{self._node.id}.run_dir": str(self.run_dir)}
        if response := result.context.get("last_response"):
            updates["last_response"] = response
        if result.status.is_success:
            count = len(result.completed_nodes)
            return Outcome.success(f"Child completed: {name}, {count} nodes", context_updates=updates)
        return Outcome.fail(
            f"the child pipeline {name} of {self._node.id!r} failed: {result.failure_reason}", context_updates=updates
        )

    def _with_goal(self, graph: Graph) -> Graph:
        """A child that says no goal of its own works towards the parent's."""
        return graph if graph.goal else replace(graph, attrs={**graph.attrs, "goal": self._graph.goal})

    def _refuse_usage(self, usage: TokenUsage | None) -> str:
        new = None if usage is None else usage - self._counted()
        return self._context.run.refuse_child(str(self.run_dir), new)

    def _counted(self) -> TokenUsage:
        """What of this child's usage the parent's steps have recorded."""
        counted = self._context.get(self._counter)
        # A stage may have written anything there.
        with suppress(LookupError, TypeError, ValueError):
            if counted["run"] == self.run_dir.name:
                return TokenUsage.from_record(counted)
        return TokenUsage()

    def _count_usage(self) -> None:
        """Add to the stage's usage what is new. Its record goes into the same step, so nothing counts twice."""
        total = read_usage(self.run_dir)
        if total is not None:
            self._context.run.add_usage(total - self._counted())
            self._context.set(self._counter, {"run": self.run_dir.name, **total.to_record()})
        self._context.run.refuse_child(str(self.run_dir), None)


@contextmanager
def tell_of_child(
    emit: Emit, name: str, run_dir: Path, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Outcome], object]]:
    """Record that a stage's child begins, and that it ended: as the outcome says which the block hands in, else badly.

    One that is suspended has not ended; it begins again when the run goes on.
    """
    begun, outcomes = clock(), list[Outcome]()

    def tell_end(status: StageStatus) -> None:
        emit(ChildCompleted, name=name, status=status.value, duration=round(clock() - begun, 6))

    emit(ChildStarted, name=name, run_dir=str(run_dir))
    try:
        yield outcomes.append
    except Suspend:
        raise
    except BaseException:
        tell_end(StageStatus.FAIL)
        raise
    tell_end(outcomes[0].status)


def get_setting(name: str, node: Node, graph: Graph) -> str:
    """An attribute of the node, else of the graph."""
    return (node.text(name) or to_text(graph.attrs.get(name))).strip()


def share_context(node: Node, context: Context, graph: Graph) -> dict[str, Any]:
    """What a child's context begins with: the parent's values without the engine's own, and where it is called from."""
    values = {key: value for key, value in context.snapshot().items() if not _is_bookkeeping(key)}
    return values | {
        "stack.parent.run_id": context.run.run_id,
        "stack.parent.node": node.id,
        "stack.parent.goal": graph.goal,
    }


def read_usage(run_dir: Path) -> TokenUsage | None:
    """What a run used of models, as far as its steps have recorded it; None if nothing."""
    folder, number = run_dir, 0
    while has_checkpoint(restart_path(run_dir, number + 1)):
        number += 1
        folder = restart_path(run_dir, number)
    return load_checkpoint(folder).usage if has_checkpoint(folder) else None


def _find_run_dir(stage_dir: Path, node: Node, context: Context) -> Path:
    facts = context.run
    visit = sum(counts.get(node.id, 0) for counts in (facts.executions, *facts.outer_executions))
    own = stage_dir / f"child-{visit}"
    if own.exists() or not facts.resumed:
        return own
    earlier = sorted(stage_dir.glob("child-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    # The step before this one failed, or the run would not be resumed at this stage.
    return earlier[-1] if earlier and facts.previous_node == node.id else own


def _is_bookkeeping(key: str) -> bool:
    return key in _ENGINE_KEYS or key.startswith(_BOOKKEEPING)
