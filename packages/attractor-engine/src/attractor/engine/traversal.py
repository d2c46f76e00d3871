"""The loop of section 3.2, one step at a time.

A step takes the checkpoint as it stands and gives back a Step, the record of what changed. Nothing else changes state:
the step is applied and journaled in one place, and a resumed run folds the same steps.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio.lowlevel

from attractor.engine.joins import Joins, find_fan_out_route, is_fan_in, is_fan_out
from attractor.engine.limits import Budget
from attractor.engine.routing import Route, check_goal_gates, find_route, get_retry_target
from attractor.engine.stage import StageExecutor
from attractor.events import CheckpointSaved, Emit, InterviewWithdrawn
from attractor.graph import Edge, Graph, Node
from attractor.interviewers.questions import QuestionStore, is_asked_by, locate
from attractor.outcome import Outcome, StageStatus
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.json_values import to_json_value
from attractor.state.step import Entry, RunStatus, Step
from attractor.state.suspensions import read_value
from attractor.suspension import Suspend, Suspension


class Store(Protocol):
    """Where steps go: `append()` applies one to the run's checkpoint and writes it down, `sync()` makes it durable."""

    def append(self, entry: Entry) -> None: ...

    def sync(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What the traversals of one run share. `root` is the run directory; `elapsed` is how long the run was executed."""

    graph: Graph
    store: Store
    stages: StageExecutor
    emit: Emit
    budget: Budget
    joins: Joins
    root: Path
    questions: QuestionStore
    clock: Callable[[], float] = time.time
    elapsed: Callable[[], float] = lambda: 0.0

    def withdraw_questions(self, branch: tuple[tuple[str, str], ...] = ()) -> None:
        """Nobody needs the answers any more that the run, or a branch of it, is still asking for.

        What a run within this one asked is no event of this one.
        """
        folder = locate(self.stages.folder, self.questions.root)
        for asked in self.questions.withdraw(self.root, branch):
            question = asked.question
            if is_asked_by(asked, folder):
                self.emit(InterviewWithdrawn, question=question.text, stage=question.stage, qid=asked.id)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a traversal lies; the default is the run itself.

    `path` has the fan-out and the number of each branch that leads here. A branch ends before the nodes in `stops`, and
    must not come to those of `fan_outs`, in which it lies. `outer` are the states of the traversals around it.
    """

    path: tuple[tuple[str, str], ...] = ()
    stops: frozenset[str] = frozenset()
    fan_outs: frozenset[str] = frozenset()
    outer: tuple[Checkpoint, ...] = ()

    def inside(self, fan_out: str, join: str, graph: Graph, branches: int, checkpoint: Checkpoint) -> "list[Place]":
        """The places of the branches of a fan-out here. `checkpoint` is the state here."""
        stops = self.stops | {node.id for node in graph.exit_nodes} | ({join} if join else set())
        fan_outs, outer = self.fan_outs | {fan_out}, (*self.outer, checkpoint)
        return [Place((*self.path, (fan_out, str(number))), stops, fan_outs, outer) for number in range(branches)]

    def status_behind(self, route: Route) -> RunStatus:
        """Where a traversal here stands when it has taken a route."""
        if route.target in self.stops:
            return RunStatus.COMPLETED
        return RunStatus.RESTARTED if route.edge is not None and route.edge.loop_restart else RunStatus.RUNNING


@dataclass(slots=True)
class Traversal:
    """One walk through a graph, from `checkpoint.next_node` until the run, or the branch, ends."""

    walk: Walk
    context: Context
    checkpoint: Checkpoint
    place: Place = Place()
    _logged: int = field(init=False)

    def __post_init__(self) -> None:
        self._logged = len(self.context.logs)

    async def run(self) -> None:
        """Step until the checkpoint's status says that the run ended, or waits. One that waits goes on, if it can."""
        if self.checkpoint.status is RunStatus.WAITING:
            self.wake()
        while self.checkpoint.status is RunStatus.RUNNING:
            await self.advance()

    async def advance(self) -> None:
        """Execute the next node, and record what came of it."""
        step = await self._step(self.walk.graph.nodes[self.checkpoint.next_node])
        await self._record_stage(step)
        if step.outcome is not None and step.outcome.status is not StageStatus.SKIPPED:
            self.context.run.last_outcome = self.checkpoint.node_outcomes[step.node_id]

    def end(self, status: RunStatus, reason: str) -> None:
        """Record where it stands when something else than its own steps ends it."""
        if self.checkpoint.status in (RunStatus.RUNNING, RunStatus.WAITING):
            here = self.checkpoint
            self._record(Step(node_id="", status=status, next_node=here.next_node, edge=here.edge, reason=reason))

    def reopen(self) -> None:
        """Record that it goes on where it had ended."""
        self._record(Step(node_id="", next_node=self.checkpoint.next_node, edge=self.checkpoint.edge))

    def wake(self) -> None:
        """Go on where it was suspended, unless that needs a value which nobody has given yet."""
        here = self.checkpoint
        given: tuple[Any, ...] = ()
        if here.suspension is not None and not here.suspension.question:
            given = read_value(self.walk.root, here.suspension.id)
            if not given:
                return
        self._record(Step(node_id="", next_node=here.next_node, edge=here.edge, given=given))

    async def _step(self, node: Node) -> Step:
        if reason := self.walk.budget.limits.refuse_visit(node, _count_visits(node, self.checkpoint, self.place)):
            return self._fail(reason)
        at_exit = self.walk.graph.handler_type(node) == "exit"
        if not at_exit and (reason := self.walk.budget.refuse()):
            return self._fail(reason)
        if at_exit and (gate := check_goal_gates(self.walk.graph, self.checkpoint.node_outcomes)):
            return self._turn_away(node, gate)
        facts = self.context.run
        facts.previous_node = self.checkpoint.current_node
        facts.incoming_edge = _find_incoming_edge(self.walk.graph, self.checkpoint)
        facts.given = tuple(self.checkpoint.given)
        try:
            outcome, attempts = await self.walk.stages.execute(node, self.context)
        except Suspend as asked:
            return self._suspend(node, asked)
        facts.resumed = False
        return self._advance(node, outcome, attempts, at_exit)

    def _suspend(self, node: Node, asked: Suspend) -> Step:
        """The stage stands where it is, until it has what it asked for."""
        here, outermost = self.checkpoint, (*self.place.outer, self.checkpoint)[0]
        waits_for = None
        if not asked.nested:
            waits_for = Suspension(
                id=f"s{outermost.restarts}-{outermost.sequence + 1}",
                node_id=node.id,
                payload=to_json_value(asked.payload, node.id),
                question=asked.question,
                branch=self.place.path,
                time=round(self.walk.clock(), 3),
            )
        reason = f"stage {node.id!r} waits"
        status = RunStatus.WAITING
        return Step(
            node_id="", status=status, next_node=here.next_node, edge=here.edge, reason=reason, suspension=waits_for
        )

    def _advance(self, node: Node, outcome: Outcome, attempts: int, at_exit: bool) -> Step:
        """Where a node's outcome leads."""
        if outcome.status is StageStatus.FAIL and not _passes_on(self.walk.graph, node):
            reason = self.walk.budget.limits.refuse_failure(node, outcome.failure_reason, self.checkpoint)
            if reason:
                return self._fail(reason, node, outcome, attempts)
        route = self._find_route(node, outcome)
        if reason := route.failure_reason or self._refuse_route(route):
            return self._fail(reason, node, outcome, attempts)
        if route.target:
            return Step(
                node_id=node.id,
                outcome=outcome,
                attempts=attempts,
                next_node=route.target,
                edge=_index(route.edge, self.walk.graph),
                status=self.place.status_behind(route),
            )
        # A path that ends before the exit ends the run too; that is no way around a goal gate.
        gate = (
            None if at_exit or self.place.path else _find_unsatisfied(self.walk.graph, self.checkpoint, node, outcome)
        )
        if gate is not None:
            return self._end_at_gate(node, outcome, attempts, gate)
        return Step(node_id=node.id, outcome=outcome, attempts=attempts, status=RunStatus.COMPLETED)

    def _find_route(self, node: Node, outcome: Outcome) -> Route:
        graph = self.walk.graph
        if is_fan_out(graph, node.id):
            return find_fan_out_route(node, outcome, self.context, graph, self.walk.joins.find(node.id))
        return find_route(node, outcome, self.context, graph)

    def _refuse_route(self, route: Route) -> str:
        """Why a branch may not go there."""
        if route.target in self.place.fan_outs:
            return f"a branch of fan-out {route.target!r} leads back to it; lead it to where the branches meet"
        if self.place.path and route.edge is not None and route.edge.loop_restart:
            return f"the edge to {route.target!r} has loop_restart, but a branch can't restart the run"
        return ""

    def _turn_away(self, node: Node, gate: Node) -> Step:
        """What the exit does about an unsatisfied goal gate (section 3.4)."""
        target, reason = self._gate_target(gate)
        if reason:
            return Step(node_id=node.id, status=RunStatus.FAILED, next_node=gate.id, reason=reason)
        return Step(node_id=node.id, next_node=target)

    def _end_at_gate(self, node: Node, outcome: Outcome, attempts: int, gate: Node) -> Step:
        target, reason = self._gate_target(gate)
        return Step(
            node_id=node.id,
            outcome=outcome,
            attempts=attempts,
            next_node=target or gate.id,
            status=RunStatus.FAILED if reason else RunStatus.RUNNING,
            reason=reason,
        )

    def _gate_target(self, gate: Node) -> tuple[str, str]:
        """Where an unsatisfied gate sends the run, or why nowhere."""
        target = get_retry_target(gate, self.walk.graph)
        if not target:
            return "", f"goal gate {gate.id!r} is unsatisfied, and neither it nor the graph has a retry_target"
        return target, self.walk.budget.limits.refuse_gate_round(gate, self.checkpoint)

    def _fail(self, reason: str, node: Node | None = None, outcome: Outcome | None = None, attempts: int = 1) -> Step:
        """The run ends here. A resumption tries the stage again that failed."""
        again = node.id if node else self.checkpoint.next_node
        if node and _passes_on(self.walk.graph, node):
            behind = (
                id
                for id in reversed(self.checkpoint.completed_nodes)
                if not _passes_on(self.walk.graph, self.walk.graph.nodes[id])
            )
            again = next(behind, again)
        elif node and self.checkpoint.branches and is_fan_in(self.walk.graph, node.id):
            # It chooses among what the branches left: another attempt needs other branches.
            again = self.checkpoint.fan_out
        return Step(
            node_id=node.id if node else "",
            outcome=outcome,
            attempts=attempts,
            next_node=again,
            edge=None if outcome else self.checkpoint.edge,
            status=RunStatus.FAILED,
            reason=reason,
        )

    def _record(self, step: Step) -> None:
        """Make the step durable, then known."""
        self._tell(self._append(step))

    async def _record_stage(self, step: Step) -> None:
        """The same; branches whose stages end at one moment share one sync."""
        entry = self._append(step)
        try:
            if self.place.path:
                await anyio.lowlevel.checkpoint()  # The others append theirs.
        finally:
            self._tell(entry)

    def _append(self, step: Step) -> Entry:
        logs = tuple(self.context.logs_since(self._logged))
        self._logged += len(logs)
        changes, usage = self.context.take_changes(), self.context.run.take_usage()
        elapsed = round(self.walk.elapsed(), 3)
        entry = Entry(step, self.walk.clock(), changes, logs, self.place.path, usage, elapsed)
        self.walk.store.append(entry)
        return entry

    def _tell(self, entry: Entry) -> None:
        self.walk.store.sync()
        if entry.usage is not None:
            self.walk.budget.report()
        self.walk.emit(CheckpointSaved, node_id=entry.step.node_id or self.checkpoint.current_node)


def _index(edge: Edge | None, graph: Graph) -> int | None:
    """The edge's place among those of its source; None for a jump."""
    if edge is None:
        return None
    return next(index for index, other in enumerate(graph.outgoing_edges(edge.source)) if other is edge)


def _find_incoming_edge(graph: Graph, checkpoint: Checkpoint) -> Edge | None:
    """The edge by which a traversal came to the next node; None for a jump."""
    edges = graph.outgoing_edges(checkpoint.current_node)
    return edges[checkpoint.edge] if checkpoint.edge is not None and checkpoint.edge < len(edges) else None


def _find_unsatisfied(graph: Graph, checkpoint: Checkpoint, node: Node, outcome: Outcome) -> Node | None:
    """The first goal gate that did not succeed, once the node has this outcome."""
    if outcome.status is StageStatus.SKIPPED:
        return check_goal_gates(graph, checkpoint.node_outcomes)
    return check_goal_gates(graph, {**checkpoint.node_outcomes, node.id: outcome})


def _count_visits(node: Node, checkpoint: Checkpoint, place: Place) -> int:
    """In all of the run, as far as a traversal there knows of it."""
    return sum(state.visits.get(node.id, 0) for state in (checkpoint, *place.outer))


def _passes_on(graph: Graph, node: Node) -> bool:
    return graph.handler_type(node) == "conditional"
