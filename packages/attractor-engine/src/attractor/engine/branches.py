"""The branches of a fan-out, each a traversal of its own (sections 3.8 and 4.8)."""

from collections import ChainMap
from dataclasses import replace
from functools import partial

from attractor.engine.joins import branch_edges
from attractor.engine.traversal import Place, Traversal, Walk
from attractor.graph import Edge, Node
from attractor.outcome import Outcome, StageStatus
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import BranchEnd, Context, FanOut
from attractor.state.step import RunStatus
from attractor.suspension import Suspend


class Branches:
    """What a handler is given to run the branches of its node with: the protocol `FanOut`.

    A branch walks from its edge to the node where all meet, or to an exit, in a context of its own. Its steps go to the
    run's journal as they are done, so that a killed run goes on with each branch where it stood.
    """

    def __init__(self, walk: Walk, node: Node, context: Context, checkpoint: Checkpoint, place: Place) -> None:
        self._walk = walk
        self._node = node
        self._context = context
        self._checkpoint = checkpoint
        checkpoint.begin_fan_out(node.id)
        # What the branches see of the stages before them, and none of what their siblings do.
        self._outcomes = dict(context.run.node_outcomes)
        self.join = walk.joins.find(node.id)
        reached_with = context.run.last_outcome or Outcome.success()
        self.edges = branch_edges(node, walk.graph, reached_with, context)
        indexes = {id(edge): index for index, edge in enumerate(walk.graph.outgoing_edges(node.id))}
        places = place.inside(node.id, self.join, walk.graph, len(self.edges), checkpoint)
        self._traversals = [
            self._make_traversal(place, edge, indexes[id(edge)]) for place, edge in zip(places, self.edges, strict=True)
        ]

    def find_end(self, number: int) -> BranchEnd | None:
        """See FanOut."""
        traversal = self._traversals[number]
        checkpoint = traversal.checkpoint
        if checkpoint.status is RunStatus.WAITING:
            return None
        if checkpoint.status is RunStatus.RUNNING and checkpoint.next_node not in traversal.place.stops:
            return None
        last = checkpoint.node_outcomes.get(checkpoint.current_node)
        match checkpoint.status:
            case RunStatus.FAILED:
                outcome = replace(last or Outcome.fail(""), status=StageStatus.FAIL, failure_reason=checkpoint.reason)
            case RunStatus.CANCELLED:
                outcome = Outcome(status=StageStatus.SKIPPED, notes=checkpoint.reason)
            case _:
                outcome = last or Outcome.success("the branch holds no stage")
        return BranchEnd(
            outcome=outcome,
            last_node=checkpoint.current_node,
            context=traversal.context,
            changes=checkpoint.context_values,
            abandoned=checkpoint.status is RunStatus.CANCELLED,
        )

    async def run(self, number: int) -> BranchEnd:
        """See FanOut."""
        if self.find_end(number) is None:
            await self._traversals[number].run()
        end = self.find_end(number)
        if end is None:
            raise Suspend(nested=True)
        return end

    def abandon(self, number: int, reason: str, *, failed: bool) -> BranchEnd:
        """See FanOut."""
        if (end := self.find_end(number)) is not None:
            return end
        status = RunStatus.FAILED if failed else RunStatus.CANCELLED
        self._traversals[number].end(status, reason)
        self._walk.withdraw_questions(self._traversals[number].place.path)
        end = self.find_end(number)
        assert end is not None
        return end

    def hand_over(self) -> None:
        """See FanOut."""
        for traversal in self._traversals:
            if (usage := traversal.context.run.take_usage()) is not None:
                self._context.run.add_usage(usage)

    def reopen(self) -> None:
        """See FanOut."""
        for traversal in self._traversals:
            if traversal.checkpoint.status in (RunStatus.FAILED, RunStatus.CANCELLED):
                traversal.reopen()

    def _make_traversal(self, place: Place, edge: Edge, index: int) -> Traversal:
        """The branch that lies there, which begins with the edge; `index` is the edge's among those of the node."""
        _, number = place.path[-1]
        checkpoint = self._checkpoint.branches.setdefault(number, Checkpoint())
        if not checkpoint.next_node and checkpoint.status is RunStatus.RUNNING:
            checkpoint.run_id = self._checkpoint.run_id
            checkpoint.next_node = edge.target
            checkpoint.current_node = self._node.id
            checkpoint.edge = index
        context = self._context.clone(checkpoint.context_values)
        facts = context.run
        facts.branch = place.path
        facts.node_outcomes = ChainMap(checkpoint.node_outcomes, self._outcomes)
        facts.outer_executions = (facts.executions, *facts.outer_executions)
        facts.executions = checkpoint.executions
        facts.last_outcome = checkpoint.node_outcomes.get(checkpoint.current_node, facts.last_outcome)
        facts.open_fan_out = partial(open_fan_out, self._walk, checkpoint, place)
        return Traversal(self._walk, context, checkpoint, place)


def open_fan_out(walk: Walk, checkpoint: Checkpoint, place: Place, node: Node, context: Context) -> FanOut:
    """The branches of a fan-out that a traversal came to."""
    return Branches(walk, node, context, checkpoint, place)


def start_traversal(walk: Walk, checkpoint: Checkpoint, context: Context, *, resumed: bool) -> Traversal:
    """The traversal of a whole run, from where its checkpoint stands."""
    facts = context.run
    facts.run_id = checkpoint.run_id
    facts.run_root, facts.questions_root = walk.root, walk.questions.root
    facts.graph, facts.emit = walk.graph, walk.emit
    facts.node_outcomes = checkpoint.node_outcomes
    facts.executions = checkpoint.executions
    facts.last_outcome = checkpoint.node_outcomes.get(checkpoint.current_node)
    facts.resumed = resumed
    facts.refuse_child = walk.budget.refuse_child
    facts.open_fan_out = partial(open_fan_out, walk, checkpoint, Place())
    return Traversal(walk, context, checkpoint)
