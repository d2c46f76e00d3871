"""Which way a run goes after a node. Pure: an outcome and a context in, a target out (sections 3.3, 3.4 and 3.7).

A failure never slips through to success: after FAIL an unconditional edge is followed only into a diamond, which asks
about the outcome, or out of one, where it is the else branch.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from attractor.conditions import Lookup, parse_condition
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome, StageStatus

_ACCELERATOR = re.compile(r"\[\w+\]\s*|\w+\)\s+|\w\s+-\s+")


@dataclass(frozen=True, slots=True)
class Route:
    """Where a run goes next: to `target`, along `edge` or (None) by a jump. Without a target it ends here.

    A non-empty `failure_reason` says that it ends badly.
    """

    target: str = ""
    edge: Edge | None = None
    failure_reason: str = ""


def find_route(node: Node, outcome: Outcome, context: Lookup, graph: Graph) -> Route:
    """What follows a node: an edge, else after FAIL a retry target, else the end."""
    edge = select_edge(node, outcome, context, graph)
    if edge is not None:
        return Route(edge.target, edge)
    if outcome.status is StageStatus.FAIL:
        target = next((id for id in (node.retry_target, node.fallback_retry_target) if id in graph.nodes), "")
        reason = outcome.failure_reason or f"stage {node.id!r} failed without a reason"
        return Route(target) if target else Route(failure_reason=reason)
    if graph.outgoing_edges(node.id):
        reported = outcome.word or outcome.status.value
        return Route(
            failure_reason=f"no edge leads on from {node.id!r}: its outcome is {reported!r}, and no condition on its "
            "edges holds; add an edge without a condition"
        )
    return Route()


def select_edge(node: Node, outcome: Outcome, context: Lookup, graph: Graph) -> Edge | None:
    """The outgoing edge to follow, or None: the five steps of section 3.3, for FAIL as the module says."""
    edges = graph.outgoing_edges(node.id)
    conditional = [edge for edge in edges if edge.condition]
    matched = _find_matching(conditional, outcome, context) if conditional else []
    if matched:
        return _best(matched)
    unconditional = [edge for edge in edges if not edge.condition] if conditional else list(edges)
    if outcome.status is StageStatus.FAIL:
        if not _is_diamond(node, graph):
            unconditional = [edge for edge in unconditional if _is_diamond(graph.nodes.get(edge.target), graph)]
        return _best(unconditional) if unconditional else None
    if outcome.preferred_label:
        wanted = normalize_label(outcome.preferred_label)
        for edge in unconditional:
            if normalize_label(edge.label) == wanted:
                return edge
    for suggested in outcome.suggested_next_ids:
        for edge in unconditional:
            if edge.target == suggested:
                return edge
    return _best(unconditional) if unconditional else None


def check_goal_gates(graph: Graph, node_outcomes: Mapping[str, Outcome]) -> Node | None:
    """The first visited goal gate that did not succeed, or None."""
    for node_id, outcome in node_outcomes.items():
        node = graph.nodes.get(node_id)
        if node is not None and node.goal_gate and not outcome.status.is_success:
            return node
    return None


def get_retry_target(node: Node, graph: Graph) -> str:
    """Where the exit sends a run whose gate `node` is unsatisfied; empty if nowhere (section 3.4)."""
    targets = (node.retry_target, node.fallback_retry_target, graph.retry_target, graph.fallback_retry_target)
    return next((target for target in targets if target in graph.nodes), "")


def normalize_label(label: str) -> str:
    """Lower case, trimmed, without an accelerator such as `[Y] `, `Y) ` or `Y - `."""
    label = label.strip()
    match = _ACCELERATOR.match(label)
    # An accelerator alone is the whole label.
    if match and match.end() < len(label):
        label = label[match.end() :]
    return label.strip().lower()


def _find_matching(edges: list[Edge], outcome: Outcome, context: Lookup) -> list[Edge]:
    """Edges whose condition holds; those that hold only by the stage's own word go before all others."""
    if outcome.status is StageStatus.PARTIAL_SUCCESS and not any("partial_success" in edge.condition for edge in edges):
        # It counts as success for routing (section 5.2), unless the edges tell the two apart.
        outcome = replace(outcome, status=StageStatus.SUCCESS)
    matched = [edge for edge in edges if parse_condition(edge.condition).evaluate(outcome, context)]
    if matched and outcome.word:
        plain = replace(outcome, word="")
        own = [edge for edge in matched if not parse_condition(edge.condition).evaluate(plain, context)]
        return own or matched
    return matched


def _best(edges: Sequence[Edge]) -> Edge:
    return edges[0] if len(edges) == 1 else min(edges, key=lambda edge: (-edge.weight, edge.target))


def _is_diamond(node: Node | None, graph: Graph) -> bool:
    return node is not None and graph.handler_type(node) == "conditional"
