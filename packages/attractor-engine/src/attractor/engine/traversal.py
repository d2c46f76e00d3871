"""The loop of section 3.2, one step at a time.

A step takes the checkpoint as it stands and gives back a Step, the record of what changed. Nothing else changes state:
the step is applied and journaled in one place, and a resumed run folds the same steps.
"""

import time
from collections.abc import Callable

import anyio

from attractor.engine.limits import Limits
from attractor.engine.routing import check_goal_gates, find_route, get_retry_target
from attractor.engine.stage import StageExecutor
from attractor.events import CheckpointSaved, Emit
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome, StageStatus
from attractor.state.checkpoint import Checkpoint, Entry, RunStatus, Step
from attractor.state.context import Context
from attractor.state.journal import CheckpointStore


class Traversal:
    """One walk through a graph, from `checkpoint.next_node` until the run ends."""

    def __init__(
        self,
        graph: Graph,
        context: Context,
        checkpoint: Checkpoint,
        store: CheckpointStore,
        stages: StageExecutor,
        emit: Emit,
        *,
        limits: Limits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._graph = graph
        self._context = context
        self._checkpoint = checkpoint
        self._store = store
        self._stages = stages
        self._emit = emit
        self._limits = limits
        self._clock = clock
        self._logged = len(context.logs)
        context.run.run_id = checkpoint.run_id
        context.run.graph = graph
        context.run.node_outcomes = checkpoint.node_outcomes
        context.run.executions = checkpoint.executions
        context.run.last_outcome = checkpoint.node_outcomes.get(checkpoint.current_node)
        context.run.resumed = checkpoint.current_node != ""

    async def run(self) -> None:
        """Step until the checkpoint's status says that the run ended."""
        with anyio.move_on_after(self._limits.max_duration) as scope:
            while self._checkpoint.status is RunStatus.RUNNING:
                step = await self._step(self._graph.nodes[self._checkpoint.next_node])
                self._record(step)
                if step.outcome is not None and step.outcome.status is not StageStatus.SKIPPED:
                    self._context.run.last_outcome = self._checkpoint.node_outcomes[step.node_id]
        if scope.cancelled_caught:
            self._record(self._fail(f"the run took longer than max_duration ({self._limits.max_duration:g} s)"))

    def record_cancellation(self, reason: str) -> None:
        """Keep where the run stands when someone stops it."""
        if self._checkpoint.status is RunStatus.RUNNING:
            here = self._checkpoint
            step = Step(node_id="", status=RunStatus.CANCELLED, next_node=here.next_node, edge=here.edge, reason=reason)
            self._record(step)

    async def _step(self, node: Node) -> Step:
        if reason := self._limits.refuse_visit(node, self._checkpoint):
            return self._fail(reason)
        at_exit = self._is_exit(node)
        if at_exit and (gate := check_goal_gates(self._graph, self._checkpoint.node_outcomes)):
            return self._turn_away(node, gate)
        facts = self._context.run
        facts.previous_node = self._checkpoint.current_node
        facts.incoming_edge = self._incoming_edge()
        outcome, attempts = await self._stages.execute(node, self._context, len(self._checkpoint.completed_nodes))
        facts.resumed = False
        return self._advance(node, outcome, attempts, at_exit)

    def _advance(self, node: Node, outcome: Outcome, attempts: int, at_exit: bool) -> Step:
        """Where a node's outcome leads."""
        if outcome.status is StageStatus.FAIL and not self._passes_on(node):
            reason = self._limits.refuse_failure(node, outcome.failure_reason, self._checkpoint)
            if reason:
                return self._fail(reason, node, outcome, attempts)
        route = find_route(node, outcome, self._context, self._graph)
        if route.failure_reason:
            return self._fail(route.failure_reason, node, outcome, attempts)
        if route.target:
            restarts = route.edge is not None and route.edge.loop_restart
            return Step(
                node_id=node.id,
                outcome=outcome,
                attempts=attempts,
                next_node=route.target,
                edge=self._index(route.edge),
                status=RunStatus.RESTARTED if restarts else RunStatus.RUNNING,
            )
        # A branch that ends before the exit ends the run too; that is no way around a goal gate.
        gate = None if at_exit else self._find_unsatisfied(node, outcome)
        if gate is not None:
            return self._end_at_gate(node, outcome, attempts, gate)
        return Step(node_id=node.id, outcome=outcome, attempts=attempts, status=RunStatus.COMPLETED)

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
        target = get_retry_target(gate, self._graph)
        if not target:
            return "", f"goal gate {gate.id!r} is unsatisfied, and neither it nor the graph has a retry_target"
        return target, self._limits.refuse_gate_round(gate, self._checkpoint)

    def _fail(self, reason: str, node: Node | None = None, outcome: Outcome | None = None, attempts: int = 1) -> Step:
        """The run ends here. A resumption tries the stage again that failed."""
        again = node.id if node else self._checkpoint.next_node
        if node and self._passes_on(node):
            behind = (
                id for id in reversed(self._checkpoint.completed_nodes) if not self._passes_on(self._graph.nodes[id])
            )
            again = next(behind, again)
        return Step(
            node_id=node.id if node else "",
            outcome=outcome,
            attempts=attempts,
            next_node=again,
            edge=None if outcome else self._checkpoint.edge,
            status=RunStatus.FAILED,
            reason=reason,
        )

    def _record(self, step: Step) -> None:
        """Make the step durable, then known."""
        logs = tuple(self._context.logs_since(self._logged))
        self._logged += len(logs)
        self._store.append(Entry(step, self._clock(), self._context.take_changes(), logs))
        self._emit(CheckpointSaved, node_id=step.node_id or self._checkpoint.current_node)

    def _find_unsatisfied(self, node: Node, outcome: Outcome) -> Node | None:
        if outcome.status is StageStatus.SKIPPED:
            return check_goal_gates(self._graph, self._checkpoint.node_outcomes)
        return check_goal_gates(self._graph, {**self._checkpoint.node_outcomes, node.id: outcome})

    def _incoming_edge(self) -> Edge | None:
        index = self._checkpoint.edge
        edges = self._graph.outgoing_edges(self._checkpoint.current_node)
        return edges[index] if index is not None and index < len(edges) else None

    def _index(self, edge: Edge | None) -> int | None:
        if edge is None:
            return None
        return next(index for index, other in enumerate(self._graph.outgoing_edges(edge.source)) if other is edge)

    def _is_exit(self, node: Node) -> bool:
        return self._graph.handler_type(node) == "exit"

    def _passes_on(self, node: Node) -> bool:
        return self._graph.handler_type(node) == "conditional"
