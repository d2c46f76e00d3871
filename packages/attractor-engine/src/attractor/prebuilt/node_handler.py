"""How the engine executes nodes written in Python, and merges what parallel branches of them report.

This is the one place where updates are folded into the state. The journal records what came of it, so that a resumed
run has the same state without folding anything again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from pathlib import Path
from typing import Any, Protocol

from attractor.calls import describe_error
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler
from attractor.handlers.child_run import ChildPipelines
from attractor.handlers.parallel import RESULTS_KEY, ParallelHandler
from attractor.outcome import Outcome, StageStatus
from attractor.prebuilt.channels import Schema
from attractor.prebuilt.errors import ChannelError, RouteError, StepLimitError
from attractor.prebuilt.node_context import NodeCall, NodeContext, Stage
from attractor.state.context import Context

PREFIX = "state."
"""The context keys that hold the channels."""
_REPORTED = "reported."
"""The context keys in which a branch keeps what its nodes reported, for the merge: one for each depth of branches."""
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Router:
    """Chooses the edge behind a node. `labels` has the edge's label for each key that it may give."""

    function: Callable[[Any], Any]
    labels: Mapping[Any, str]

    async def choose(self, state: Mapping[str, Any], node: str) -> str:
        """The label; raises RouteError."""
        try:
            key = self.function(state)
            if isawaitable(key):
                key = await key
        except Exception as error:
            raise RouteError(f"the router of node {node!r} raised {describe_error(error)}") from error
        try:
            return self.labels[key]
        except (KeyError, TypeError):
            known = ", ".join(repr(each) for each in self.labels)
            raise RouteError(f"the router of node {node!r} gave the key {key!r}; its edges have: {known}") from None


@dataclass(frozen=True, slots=True)
class Program:
    """What a graph written in Python executes: functions and routers by the name of their node."""

    schema: Schema
    functions: Mapping[str, NodeCall]
    routers: Mapping[str, Router]
    step_limit: int


class OnUpdate(Protocol):
    """Told what a node reported, and the state that came of it."""

    def __call__(self, node: str, update: Mapping[str, Any], state: Mapping[str, Any]) -> None: ...


@dataclass(slots=True)
class NodeHandler:
    """Executes the nodes of one run of a program. `errors` has what each node's last attempt raised."""

    program: Program
    children: ChildPipelines
    on_update: OnUpdate | None = None
    errors: dict[str, Exception] = field(default_factory=dict)

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        self.errors.pop(node.id, None)
        try:
            return await self._execute(Stage(node, context, graph, logs_root))
        except Exception as error:
            self.errors[node.id] = error
            raise

    async def _execute(self, stage: Stage) -> Outcome:
        node, context = stage.node.id, stage.context
        self._refuse_step(context)
        program, schema = self.program, self.program.schema
        source = f"the update of node {node!r}"
        reported: Any = None
        if function := program.functions.get(node):
            reported = await self._call(function, stage)
        update = {} if reported is None else schema.check(reported, source)
        changed = schema.fold(read_state(context, update), update, source)
        label = ""
        if (router := program.routers.get(node)) is not None:
            label = await router.choose({**read_state(context, schema.channels), **deepcopy(changed)}, node)
        if self.on_update is not None and function:
            self.on_update(node, update, {**read_state(context, schema.channels), **changed})
        updates = {f"{PREFIX}{name}": value for name, value in changed.items()}
        if context.run.branch and update:
            updates |= _report(context, [[node, update]])
        return Outcome.success(preferred_label=label, context_updates=updates)

    async def _call(self, function: NodeCall, stage: Stage) -> Any:
        """What the node reports; raises what it asked for and was not given, even if it caught that."""
        visit = self._describe_visit(stage)
        try:
            reported = await function(read_state(stage.context, self.program.schema.channels), visit)
        except Exception:
            if visit.open_interrupt is None:
                raise
        if visit.open_interrupt is not None:
            raise visit.open_interrupt
        return reported

    def _describe_visit(self, stage: Stage) -> NodeContext:
        facts = stage.context.run
        assert facts.run_root is not None
        assert facts.stage_dir is not None
        return NodeContext(
            node=stage.node.id,
            attempt=facts.attempt,
            run_id=facts.run_id,
            run_dir=facts.run_root,
            directory=facts.stage_dir,
            channels=self.program.schema.channels.keys(),
            run=facts,
            stage=stage,
            children=self.children,
        )

    def _refuse_step(self, context: Context) -> None:
        counts = (context.run.executions, *context.run.outer_executions)
        taken = sum(count for each in counts for name, count in each.items() if name in self.program.functions)
        if taken >= self.program.step_limit:
            raise StepLimitError(
                f"the run took {taken} steps, and its graph's step_limit is {self.program.step_limit}; "
                "if that many are meant, compile it with a higher one"
            )


@dataclass(frozen=True, slots=True)
class BranchHandler:
    """Runs the branches behind a node as every fan-out does, then folds what they reported into the state.

    Updates are folded branch by branch, in the order of the edges, and within a branch in the order of its steps,
    whichever was done first. A branch that fails fails the graph, when the others have ended.
    """

    schema: Schema
    errors: dict[str, Exception]
    owns_timeout = True

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        outcome = await ParallelHandler(context.run.emit).execute(node, context, graph, logs_root)
        results: Sequence[Mapping[str, Any]] = outcome.context_updates.get(RESULTS_KEY, ())
        failed = [result for result in results if result["outcome"] == StageStatus.FAIL]
        slim = {**outcome.context_updates, RESULTS_KEY: [_without_updates(result) for result in results]}
        if failed or outcome.status is StageStatus.FAIL:
            reason = failed[0]["failure_reason"] if failed else outcome.failure_reason
            return Outcome.fail(reason, context_updates=slim, terminal=True)
        key = f"{_REPORTED}{len(context.run.branch) + 1}"
        reported = [entry for result in results for entry in result["context_updates"].get(key, ())]
        self.errors.pop(node.id, None)
        try:
            changed = self._merge(reported, read_state(context, self.schema.channels))
        except ChannelError as error:
            self.errors[node.id] = error
            raise
        updates = slim | {f"{PREFIX}{name}": value for name, value in changed.items()}
        if context.run.branch and reported:
            updates |= _report(context, reported)
        return replace(outcome, context_updates=updates)

    def _merge(self, reported: Iterable[tuple[str, Any]], state: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, update in reported:
            changes = self.schema.fold(state, update, f"merging the update of node {name!r}")
            state.update(changes)
            changed.update(changes)
        return changed


def build_handlers(handler: NodeHandler) -> dict[str, Handler]:
    """The handlers of a run of a program, by type."""
    return {"python": handler, "parallel": BranchHandler(handler.program.schema, handler.errors)}


def read_state(context: Context, channels: Iterable[str]) -> dict[str, Any]:
    """A copy of these channels, as far as something was reported for them."""
    values = {name: context.get(f"{PREFIX}{name}", _MISSING) for name in channels}
    return {name: value for name, value in values.items() if value is not _MISSING}


def _report(context: Context, entries: list[Any]) -> dict[str, Any]:
    key = f"{_REPORTED}{len(context.run.branch)}"
    return {key: [*(context.get(key) or ()), *entries]}


def _without_updates(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "context_updates"}
