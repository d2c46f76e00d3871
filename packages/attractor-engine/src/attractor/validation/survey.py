"""What the rules need to know about a graph, worked out once."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from attractor.conditions import Condition, parse_condition
from attractor.diagnostics import Diagnostic, Severity, Span
from attractor.engine.joins import Joins
from attractor.errors import ConditionSyntaxError
from attractor.graph import BUILT_IN_TYPES, SHAPE_TO_TYPE, Edge, Graph, Node

_MOST_STEPS = 1_000_000


class Survey:
    """A graph with its handlers, reachability and parsed conditions.

    `handler_types` are the types that have a handler. A node of another type runs as what its shape stands for.
    """

    def __init__(self, graph: Graph, handler_types: Collection[str] | None = None) -> None:
        self.graph = graph
        self.handler_types = BUILT_IN_TYPES if handler_types is None else frozenset(handler_types)
        self.exits = {node.id for node in graph.exit_nodes}
        self.start = graph.start_nodes[0].id if graph.start_nodes else None

    @cached_property
    def handlers(self) -> Mapping[str, str]:
        """Which handler type runs each node."""
        found = {}
        for node in self.graph.nodes.values():
            handler = self.graph.handler_type(node)
            if node.type and handler not in self.handler_types:
                handler = SHAPE_TO_TYPE.get(node.shape, "codergen")
            found[node.id] = handler
        return found

    def asks_model(self, node: Node) -> bool:
        """Whether the node puts its prompt to the backend."""
        match self.handlers[node.id]:
            case "codergen":
                return True
            case "parallel.fan_in":
                return bool(node.prompt)
            case "converge":
                return bool(node.prompt) and not node.text("function")
            case "quality_gate" | "skip_if_done" | "idempotent" | "retry" | "timeout":
                return bool(node.prompt) and not node.text("function") and not node.text("tool_command")
        return False

    @cached_property
    def edges(self) -> Mapping[str, tuple[Edge, ...]]:
        """Edges by source, those into nowhere left out."""
        nodes = self.graph.nodes
        return {
            node_id: tuple(edge for edge in self.graph.outgoing_edges(node_id) if edge.target in nodes)
            for node_id in nodes
        }

    @cached_property
    def successors(self) -> Mapping[str, list[str]]:
        """Targets of each node's edges."""
        return {node_id: [edge.target for edge in edges] for node_id, edges in self.edges.items()}

    @cached_property
    def predecessors(self) -> Mapping[str, list[str]]:
        """Sources of each node's incoming edges."""
        found: dict[str, list[str]] = {node_id: [] for node_id in self.graph.nodes}
        for node_id, targets in self.successors.items():
            for target in targets:
                found[target].append(node_id)
        return found

    @cached_property
    def ways(self) -> Mapping[str, list[str]]:
        """Where a run can go on after each node: edges, and retry targets."""
        graph_targets = self.retry_targets(self.graph)
        return {
            node_id: [
                *targets,
                *self.retry_targets(node),
                *(graph_targets if node_id in self.exits else ()),
            ]
            for node_id, targets in self.successors.items()
            for node in (self.graph.nodes[node_id],)
        }

    @cached_property
    def reachable(self) -> set[str]:
        """Nodes that a run may come to."""
        return reach([self.start], self.ways) if self.start else set()

    @cached_property
    def homeward(self) -> set[str]:
        """Nodes from which some way leads to an exit."""
        backwards: dict[str, list[str]] = {node_id: [] for node_id in self.graph.nodes}
        for node_id, targets in self.ways.items():
            for target in targets:
                backwards[target].append(node_id)
        return reach(self.exits, backwards)

    @cached_property
    def fan_outs(self) -> list[str]:
        """Nodes behind which branches begin."""
        return [node_id for node_id, handler in self.handlers.items() if handler == "parallel"]

    @cached_property
    def joins(self) -> Mapping[str, str]:
        """Where the branches of each fan-out meet, if anywhere; nothing for graphs too large to look."""
        if len(self.fan_outs) * len(self.graph.nodes) > _MOST_STEPS:
            return {}
        joins = Joins(self.graph)
        return {fan_out: joins.find(fan_out) for fan_out in self.fan_outs}

    @cached_property
    def branches(self) -> Mapping[str, set[str]]:
        """The nodes of the branches of each fan-out in `joins`."""
        found = {}
        for fan_out, join in self.joins.items():
            stop = {join, fan_out} | self.exits
            found[fan_out] = reach(self.successors[fan_out], self.successors, stop) - stop
        return found

    @cached_property
    def branch_nodes(self) -> set[str]:
        """Nodes behind a fan-out and before the node where its branches meet."""
        return set().union(*self.branches.values())

    def retry_targets(self, owner: Node | Graph) -> list[str]:
        """The owner's retry targets that exist, in the order they are tried."""
        return [name for name in (owner.retry_target, owner.fallback_retry_target) if name in self.graph.nodes]

    def can_fail(self, node_id: str) -> bool:
        """Whether the node does work that may end in FAIL."""
        return self.handlers[node_id] not in ("start", "exit", "conditional", "wait.human")

    def condition(self, edge: Edge) -> Condition | None:
        """The edge's condition; None if it has none that can be read."""
        try:
            return parse_condition(edge.condition) if edge.condition else None
        except ConditionSyntaxError:
            return None

    def about_graph(self, rule: str, severity: Severity, message: str, key: str = "", fix: str = "") -> Diagnostic:
        """A finding about the graph, or about one of its attributes."""
        return self._finding(rule, severity, message, fix, self.graph.attr_spans.get(key))

    def about_node(
        self, rule: str, severity: Severity, node: Node, message: str, key: str = "", fix: str = ""
    ) -> Diagnostic:
        """A finding about a node, or about one of its attributes."""
        return self._finding(rule, severity, message, fix, node.attr_spans.get(key, node.span), node_id=node.id)

    def about_edge(
        self, rule: str, severity: Severity, edge: Edge, message: str, key: str = "", fix: str = ""
    ) -> Diagnostic:
        """A finding about an edge, or about one of its attributes."""
        span = edge.attr_spans.get(key, edge.span)
        return self._finding(rule, severity, message, fix, span, edge=(edge.source, edge.target))

    def _finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        fix: str,
        span: Span | None,
        node_id: str = "",
        edge: tuple[str, str] | None = None,
    ) -> Diagnostic:
        return Diagnostic(
            rule=rule,
            severity=severity,
            message=message,
            node_id=node_id,
            edge=edge,
            fix=fix,
            file_name=self.graph.file_name,
            span=span,
        )


def reach(starts: Iterable[str], ways: Mapping[str, Iterable[str]], stop: Collection[str] = ()) -> set[str]:
    """The starts and all that can be reached from them; nothing behind those in `stop`."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        node_id = waiting.pop()
        if node_id not in found:
            found.add(node_id)
            waiting += () if node_id in stop else ways.get(node_id, ())
    return found


def listing(names: Iterable[str], most: int = 5) -> str:
    """`a, b and c`, or `a, b, c and 7 more`."""
    *items, last = names
    if len(items) >= most:
        return f"{', '.join(items[: most - 1])} and {len(items) - most + 2} more"
    return f"{', '.join(items)} and {last}" if items else last
