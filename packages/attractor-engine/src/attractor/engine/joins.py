"""Where the branches of a fan-out meet, and where a run goes on behind it (sections 3.8 and 4.8). Pure."""

from collections.abc import Iterable

from attractor.conditions import Lookup, parse_condition
from attractor.engine.routing import Route
from attractor.errors import ConditionSyntaxError
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome, StageStatus

_SUCCESS = Outcome.success()
_FAIL = Outcome.fail("")


def branch_edges(node: Node, graph: Graph, reached_with: Outcome, context: Lookup) -> tuple[Edge, ...]:
    """The edges that branches of a fan-out begin with: all, save those whose condition doesn't hold."""
    return tuple(
        edge
        for edge in graph.outgoing_edges(node.id)
        if not edge.condition or parse_condition(edge.condition).evaluate(reached_with, context)
    )


def find_fan_out_route(node: Node, outcome: Outcome, context: Lookup, graph: Graph, join: str) -> Route:
    """What follows a fan-out: the node where its branches meet.

    After FAIL: an edge whose condition holds, else a retry target, else the fan-in, which reports the failure.
    """
    if outcome.status is not StageStatus.FAIL:
        return Route(join)
    matched = [edge for edge in branch_edges(node, graph, outcome, context) if edge.condition]
    if matched:
        edge = min(matched, key=lambda edge: (-edge.weight, edge.target))
        return Route(edge.target, edge)
    fan_in = join if join and is_fan_in(graph, join) else ""
    targets = (node.retry_target, node.fallback_retry_target, fan_in)
    target = next((id for id in targets if id in graph.nodes), "")
    return Route(target) if target else Route(failure_reason=outcome.failure_reason)


def is_fan_out(graph: Graph, node_id: str) -> bool:
    """Whether branches begin behind the node."""
    return graph.handler_type(graph.nodes[node_id]) == "parallel"


def is_fan_in(graph: Graph, node_id: str) -> bool:
    """Whether the node chooses among branch results."""
    return graph.handler_type(graph.nodes[node_id]) == "parallel.fan_in"


class Joins:
    """Where the branches of a graph's fan-outs meet: at the nearest fan-in that all reach, else the nearest node.

    A fan-in that belongs to a fan-out on the way there doesn't count. Ways that only a failure takes count where there
    are no others.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._found: dict[str, str] = {}
        for node_id in _last_first(graph):
            if is_fan_out(graph, node_id):
                self._found[node_id] = self._search(node_id)

    def find(self, node_id: str) -> str:
        """Where the node's branches meet; empty if they don't, or if it is no fan-out."""
        return self._found.get(node_id, "")

    def _search(self, fan_out: str) -> str:
        graph = self.graph
        edges = [edge for edge in graph.outgoing_edges(fan_out) if edge.target in graph.nodes]
        targets = [edge.target for edge in edges if not edge.condition] or [edge.target for edge in edges]
        for only_success in (True, False):
            reaches = [_Reach(self, target, fan_out, only_success=only_success) for target in targets]
            common = set.intersection(*(set(reach.distances) for reach in reaches)) if reaches else set()
            own = {
                id for id in common if is_fan_in(graph, id) and any(id not in reach.inner_joins for reach in reaches)
            }
            if common:
                return min(own or common, key=lambda id: _closeness(id, reaches))
        return ""


class _Reach:
    """What a branch that begins at `start` can come to, and over how many edges; a fan-out within counts as one.

    `inner_joins` are nodes that only fan-outs within lead to.
    """

    def __init__(self, joins: Joins, start: str, fan_out: str, *, only_success: bool) -> None:
        graph = joins.graph
        self.distances = {start: 0}
        self.inner_joins: set[str] = set()
        waiting = [start]
        for node_id in waiting:
            join = joins.find(node_id)
            edges = graph.outgoing_edges(node_id)
            ways = [edge.target for edge in edges if not (only_success and _only_after_failure(edge))]
            for target in [join] if join else ways:
                if target == fan_out or target not in graph.nodes:
                    continue
                if not join:
                    self.inner_joins.discard(target)
                if target not in self.distances:
                    self.distances[target] = self.distances[node_id] + 1
                    waiting.append(target)
                    if join:
                        self.inner_joins.add(target)


def _last_first(graph: Graph) -> list[str]:
    """The nodes, each behind those that it leads to, as far as loops allow."""
    order: list[str] = []
    seen: set[str] = set()
    for root in graph.nodes:
        stack = [(root, iter(graph.outgoing_edges(root)))] if root not in seen else []
        seen.add(root)
        while stack:
            node_id, edges = stack[-1]
            for edge in edges:
                if edge.target in graph.nodes and edge.target not in seen:
                    seen.add(edge.target)
                    stack.append((edge.target, iter(graph.outgoing_edges(edge.target))))
                    break
            else:
                order.append(node_id)
                stack.pop()
    return order


def _only_after_failure(edge: Edge) -> bool:
    if not edge.condition:
        return False
    try:
        condition = parse_condition(edge.condition)
    except ConditionSyntaxError:
        return False
    return condition.evaluate(_FAIL, {}) and not condition.evaluate(_SUCCESS, {})


def _closeness(node_id: str, reaches: Iterable[_Reach]) -> tuple[int, int, str]:
    distances = [reach.distances[node_id] for reach in reaches]
    return max(distances), sum(distances), node_id
