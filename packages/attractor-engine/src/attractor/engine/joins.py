"""Where the branches of a fan-out meet, and where a run goes on behind it (sections 3.8 and 4.8). Pure."""

from collections.abc import Iterable, Mapping
from functools import cached_property

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
    # A terminal failure is the fan-out's own, and leaves no results.
    fan_in = join if join and is_fan_in(graph, join) and not outcome.terminal else ""
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
    are no others. Looking takes time in proportion to fan-outs times nodes, at most.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._fan_ins = {node_id for node_id in graph.nodes if is_fan_in(graph, node_id)}
        self._fan_outs = {node_id for node_id in graph.nodes if is_fan_out(graph, node_id)}
        self._found: dict[str, str] = {}

    def find(self, fan_out: str) -> str:
        """Where the node's branches meet; empty if they don't, or if it is no fan-out."""
        if fan_out in self._fan_outs and fan_out not in self._found:
            # Those within first: on the way to a join, each counts as one edge.
            for node_id in _last_first(self._ways, fan_out):
                if node_id in self._fan_outs and node_id not in self._found:
                    self._found[node_id] = self._search(node_id)
        return self._found.get(fan_out, "")

    @cached_property
    def _ways(self) -> Mapping[str, list[str]]:
        nodes = self.graph.nodes
        return {id: [edge.target for edge in self.graph.outgoing_edges(id) if edge.target in nodes] for id in nodes}

    @cached_property
    def _success_ways(self) -> Mapping[str, list[str]]:
        graph = self.graph
        return {
            id: [edge.target for edge in graph.outgoing_edges(id) if edge.target in graph.nodes and _may_succeed(edge)]
            for id in graph.nodes
        }

    def _search(self, fan_out: str) -> str:
        edges = [edge for edge in self.graph.outgoing_edges(fan_out) if edge.target in self.graph.nodes]
        targets = [edge.target for edge in edges if not edge.condition] or [edge.target for edge in edges]
        for ways in (self._success_ways, self._ways):
            reaches = [_Reach(ways, self._found, target, fan_out) for target in targets]
            common = set.intersection(*(set(reach.distances) for reach in reaches)) if reaches else set()
            own = {id for id in common & self._fan_ins if not all(id in reach.inner_joins for reach in reaches)}
            if common:
                return min(own or common, key=lambda id: _closeness(id, reaches))
        return ""


class _Reach:
    """What a branch that begins at `start` can come to, and over how many edges.

    `inner_joins` are nodes that only fan-outs within lead to, whose joins `joins` holds.
    """

    def __init__(self, ways: Mapping[str, list[str]], joins: Mapping[str, str], start: str, fan_out: str) -> None:
        self.distances = {start: 0}
        self.inner_joins: set[str] = set()
        waiting = [start]
        for node_id in waiting:
            join = joins.get(node_id)
            for target in [join] if join else ways[node_id]:
                if target == fan_out:
                    continue
                if not join:
                    self.inner_joins.discard(target)
                if target not in self.distances:
                    self.distances[target] = self.distances[node_id] + 1
                    waiting.append(target)
                    if join:
                        self.inner_joins.add(target)


def _may_succeed(edge: Edge) -> bool:
    """Whether the edge is for more than failures."""
    if not edge.condition:
        return True
    try:
        condition = parse_condition(edge.condition)
    except ConditionSyntaxError:
        return True
    return condition.evaluate(_SUCCESS, {}) or not condition.evaluate(_FAIL, {})


def _closeness(node_id: str, reaches: Iterable[_Reach]) -> tuple[int, int, str]:
    distances = [reach.distances[node_id] for reach in reaches]
    return max(distances), sum(distances), node_id


def _last_first(ways: Mapping[str, list[str]], start: str) -> list[str]:
    """What can be reached from a node, each behind those that it leads to, as far as loops allow."""
    order: list[str] = []
    seen = {start}
    stack = [(start, iter(ways[start]))]
    while stack:
        node_id, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(ways[target])))
                break
        else:
            order.append(node_id)
            stack.pop()
    return order
