"""What makes every run stop."""

from collections.abc import Callable
from dataclasses import dataclass, field

from attractor.graph import Graph, Node, to_count, to_dollars, to_seconds
from attractor.state.checkpoint import Checkpoint
from attractor.state.usage import TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`max_duration` is in seconds in which some process executed the run, resumptions included; None means no limit.

    `max_cost`, in US dollars, and `max_tokens` bound what the whole run uses of models, restarts and resumptions
    included. They are looked at before each stage, each attempt and each call to a model, also between the calls of an
    agent, so that what passes a limit is the last that is asked.
    `max_same_failures` visits of a stage in a row that fail with the same reason end the run: nothing gets better.
    """

    max_node_visits: int = 100
    max_goal_gate_rounds: int = 20
    max_same_failures: int = 3
    max_duration: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = None

    @classmethod
    def of_graph(cls, graph: Graph) -> "Limits":
        """Those that the graph's attributes of the same names set, and the defaults."""
        names = ("max_node_visits", "max_goal_gate_rounds", "max_same_failures")
        counts = {name: count for name in names if (count := to_count(graph.attrs.get(name)))}
        return cls(
            **counts,
            max_duration=to_seconds(graph.attrs.get("max_duration")),
            max_cost=to_dollars(graph.attrs.get("max_cost")),
            max_tokens=to_count(graph.attrs.get("max_tokens")),
        )

    def refuse_usage(self, usage: TokenUsage | None) -> str:
        """Why the run may ask no more of models; empty if it may."""
        if usage is None:
            return ""
        if self.max_tokens is not None and usage.total_tokens >= self.max_tokens:
            return f"the run used {usage.total_tokens} tokens of its max_tokens of {self.max_tokens}; raise it to go on"
        if self.max_cost is None:
            return ""
        if usage.cost is None:
            return "the run has a max_cost, but the price of a model that it asked is unknown; use max_tokens instead"
        if usage.cost >= self.max_cost:
            return f"the run cost ${usage.cost:.4f} of its max_cost of ${self.max_cost:g}; raise it to go on"
        return ""

    def refuse_visit(self, node: Node, visits: int) -> str:
        """Why the node may not be visited once more; empty if it may."""
        own = to_count(node.attrs.get("max_visits"))
        most = own or self.max_node_visits
        if visits < most:
            return ""
        name = "max_visits of the node" if own else "max_node_visits of the graph"
        return f"stage {node.id!r} would be visited more than {most} times; if that is meant, raise {name}"

    def refuse_failure(self, node: Node, reason: str, checkpoint: Checkpoint) -> str:
        """Why a failure ends the run although it could be routed; empty if it doesn't."""
        before, count = checkpoint.failures.get(node.id, ("", 0))
        if before != reason or count + 1 < self.max_same_failures:
            return ""
        return (
            f"stage {node.id!r} failed the same way on {count + 1} visits in a row: {reason}; if more rounds can help, "
            "raise max_same_failures of the graph"
        )

    def refuse_gate_round(self, gate: Node, checkpoint: Checkpoint) -> str:
        """Why the exit sends no further round on its way; empty if it does."""
        if checkpoint.gate_rounds < self.max_goal_gate_rounds:
            return ""
        return (
            f"goal gate {gate.id!r} is still unsatisfied after {checkpoint.gate_rounds} rounds; if more can help, "
            "raise max_goal_gate_rounds of the graph"
        )


@dataclass(slots=True)
class Budget:
    """What a run, and the runs that its stages are, use of models: held against its limits and those around it.

    `recorded` gives what the run's steps used so far; `outer` is the `refuse_child` of the run around this one.
    """

    limits: Limits
    recorded: Callable[[], TokenUsage | None]
    outer: Callable[[TokenUsage | None], str] | None = None
    _children: dict[str, TokenUsage] = field(default_factory=dict)

    def refuse(self) -> str:
        """Why the run may ask no more of models; empty if it may."""
        total = self.recorded()
        for usage in tuple(self._children.values()):
            total = usage if total is None else total + usage
        reason = self.limits.refuse_usage(total)
        return reason or (self.outer(total) if self.outer else "")

    def report(self) -> None:
        """Tell the runs around this one at once what a step has used."""
        if self.outer:
            self.refuse()

    def refuse_child(self, child: str, usage: TokenUsage | None) -> str:
        """The same for a run that a stage is, which used so much that no step of this run has recorded yet."""
        if usage is None:
            self._children.pop(child, None)
        else:
            self._children[child] = usage
        return self.refuse()
