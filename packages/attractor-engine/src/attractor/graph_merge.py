"""One graph within another: a transform that puts a pipeline's nodes in the place of a node (section 9.4)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from attractor.conditions import parse_condition
from attractor.errors import ConditionSyntaxError, PipelineConfigurationError
from attractor.graph import Edge, Graph, Node, Value
from attractor.outcome import Outcome
from attractor.transforms import apply_transforms

# Graph attributes that nodes inherit, and the names they have there: those of a merged graph hold for its nodes alone.
_INHERITED: Mapping[str, str] = MappingProxyType(
    {
        "default_max_retry": "max_retries",
        "default_max_retries": "max_retries",
        "default_fidelity": "fidelity",
        "retry_policy": "retry_policy",
        "thread_id": "thread_id",
        "tool_hooks.pre": "tool_hooks.pre",
        "tool_hooks.post": "tool_hooks.post",
        "tool_hooks.timeout": "tool_hooks.timeout",
        "stack.child_dotfile": "stack.child_dotfile",
        "stack.child_workdir": "stack.child_workdir",
    }
)
_TARGETS = ("retry_target", "fallback_retry_target")
_NAMES = (*_TARGETS, "human.default_choice")


@dataclass(frozen=True, slots=True)
class MergeGraph:
    """Replaces the node `node_id` by the nodes of `inner`, each with `prefix` (by default `<node_id>_`) before its id.

    Edges into the node lead to what follows the inner start. The inner exit becomes a diamond, `<prefix>exit`, which
    has the node's edges, and passes on with what outcome the last inner stage reached it. A failure that nothing inside
    routes leads there too, so that the node's edges about failure, and its retry targets, serve all of `inner`.

    `inner` goes through the built-in transforms first: its goal, stylesheet and defaults are its nodes'. Applying
    raises PipelineConfigurationError if the node is missing, an id is taken, or the inner start has no single way on.
    """

    node_id: str
    inner: Graph
    prefix: str = ""

    def apply(self, graph: Graph) -> Graph:
        """The merged graph; `graph` stays as it is."""
        place = graph.nodes.get(self.node_id)
        if place is None:
            raise PipelineConfigurationError(
                f"there is no node {self.node_id!r} to put {self.inner.name!r} in place of"
            )
        merge = _Merge(graph, place, apply_transforms(self.inner), self.prefix or f"{self.node_id}_")
        nodes = {node.id: node for node in merge.nodes()}
        if taken := sorted(nodes.keys() & graph.nodes.keys()):
            raise PipelineConfigurationError(
                f"the graph has a node {taken[0]!r} already; give {self.inner.name!r} another prefix"
            )
        everything: dict[str, Node] = {}
        for node in graph.nodes.values():
            everything |= nodes if node is place else {node.id: merge.lead_outer(node)}
        outer = [edge for edge in graph.edges if edge.source != place.id]
        edges = [replace(edge, target=merge.entry) if edge.target == place.id else edge for edge in outer]
        found = (*graph.diagnostics, *merge.inner.diagnostics)
        attrs = merge.lead(graph.attrs)
        return replace(graph, nodes=everything, edges=(*edges, *merge.edges()), attrs=attrs, diagnostics=found)


class _Merge:
    """The work of one application. `entry` is the id of the first inner node."""

    def __init__(self, graph: Graph, place: Node, inner: Graph, prefix: str) -> None:
        self.inner = inner
        self._graph = graph
        self._place = place
        self._prefix = prefix
        starts, exits = inner.start_nodes, inner.exit_nodes
        if len(starts) != 1 or len(exits) != 1:
            raise PipelineConfigurationError(f"{inner.name!r} needs one start and one exit to be merged")
        self._start, self._exit = starts[0].id, exits[0].id
        ways = inner.outgoing_edges(self._start)
        if len(ways) != 1 or ways[0].condition or ways[0].target == self._exit:
            raise PipelineConfigurationError(
                f"the start of {inner.name!r} must lead to one stage, without a condition, to be merged"
            )
        self.entry = prefix + ways[0].target
        self._joint, self._fork = f"{prefix}exit", f"{prefix}onward"
        self._outgoing = graph.outgoing_edges(place.id)
        self._conditional = [edge for edge in self._outgoing if edge.condition]
        self._plain = [edge for edge in self._outgoing if not edge.condition]

    def nodes(self) -> Iterator[Node]:
        """The inner nodes under their new names, and the joints behind them."""
        for node in self.inner.nodes.values():
            if node.id not in (self._start, self._exit):
                attrs = {**self._inherit(node), **node.attrs}
                renamed = {key: self._rename(value) if key in _NAMES else value for key, value in attrs.items()}
                yield replace(node, id=self._prefix + node.id, attrs=renamed, span=self._place.span, attr_spans={})
        targets = {key: self._place.attrs[key] for key in (*_TARGETS, "goal_gate") if key in self._place.attrs}
        # What leads to the node leads into it, then; what its own retry target is, too.
        shown = {"shape": "diamond", "label": self._place.label}
        yield Node(self._joint, self.lead({**shown, **targets}), span=self._place.span)
        if len(self._plain) > 1:
            yield Node(self._fork, shown, span=self._place.span)

    def edges(self) -> Iterator[Edge]:
        """The inner edges under their new names, and the node's own from the joint on."""
        for edge in self.inner.edges:
            if edge.source != self._start:
                target = self._joint if edge.target == self._exit else self._prefix + edge.target
                yield replace(
                    edge, source=self._prefix + edge.source, target=target, span=self._place.span, attr_spans={}
                )
        if self._conditional or any(self._place.text(key) for key in _TARGETS):
            for node in self.inner.nodes.values():
                if self._may_fail_unrouted(node):
                    yield Edge(self._prefix + node.id, self._joint, {"condition": "outcome=fail"})
        for edge in self._conditional:
            yield self._leave(edge, self._joint)
        # After a failure a diamond's edge without a condition would be followed: not these.
        onward = " && ".join(["outcome!=fail", *(f"!({edge.condition})" for edge in self._conditional)])
        if len(self._plain) == 1:
            edge = self._plain[0]
            yield self._leave(replace(edge, attrs={**edge.attrs, "condition": onward}), self._joint)
        elif self._plain:
            yield Edge(self._joint, self._fork, {"condition": onward})
            for edge in self._plain:
                yield self._leave(edge, self._fork)

    def lead_outer(self, node: Node) -> Node:
        """A node of the outer graph, its retry targets led into the merged one where they named the node."""
        return replace(node, attrs=self.lead(node.attrs)) if self._place.id in map(node.text, _NAMES) else node

    def lead(self, attrs: Mapping[str, Value]) -> dict[str, Value]:
        """Attributes that name the node, naming the first inner one."""
        return {key: self.entry if key in _NAMES and value == self._place.id else value for key, value in attrs.items()}

    def _leave(self, edge: Edge, source: str) -> Edge:
        return replace(edge, source=source, target=self.entry if edge.target == self._place.id else edge.target)

    def _rename(self, value: Value) -> Value:
        name = str(value)
        if name == self._start:
            return self.entry
        if name == self._exit:
            return self._joint
        return self._prefix + name if name in self.inner.nodes else value

    def _inherit(self, node: Node) -> dict[str, Value]:
        names: Iterable[tuple[str, str]] = _INHERITED.items()
        if node.goal_gate:
            names = (*names, *((key, key) for key in _TARGETS))
        return {own: self.inner.attrs[name] for name, own in names if self.inner.attrs.get(name) not in (None, "")}

    def _may_fail_unrouted(self, node: Node) -> bool:
        if self.inner.handler_type(node) in ("start", "exit", "conditional"):
            return False
        if any(node.text(key) in self.inner.nodes for key in _TARGETS):
            return False
        return not any(_follows_failure(edge, self.inner) for edge in self.inner.outgoing_edges(node.id))


def _follows_failure(edge: Edge, graph: Graph) -> bool:
    """Whether a stage's failure may take the edge."""
    if not edge.condition:
        target = graph.nodes.get(edge.target)
        return target is not None and graph.handler_type(target) in ("conditional", "exit")
    try:
        return parse_condition(edge.condition).evaluate(Outcome.fail("anything"), {}) or "context" in edge.condition
    except ConditionSyntaxError:
        return True
