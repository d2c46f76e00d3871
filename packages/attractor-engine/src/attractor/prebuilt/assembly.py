"""From nodes and edges written in Python to the Graph that DOT gives, which the engine runs. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from attractor.diagnostics import Severity
from attractor.dot import format_graph
from attractor.engine.joins import Joins
from attractor.engine.routing import normalize_label
from attractor.graph import BUILT_IN_TYPES, Edge, Graph, Node, Value, to_text
from attractor.prebuilt.errors import GraphError
from attractor.validation import validate

_TYPES = BUILT_IN_TYPES | {"python"}
START = "START"
END = "END"


@dataclass(frozen=True, slots=True)
class Branching:
    """Conditional edges: a router, and the target for each key that it may give."""

    router: Callable[[Any], Any]
    targets: Mapping[Any, str]

    @property
    def labels(self) -> dict[Any, str]:
        """The edges' labels: the keys as text."""
        return {key: to_text(key) if isinstance(key, bool | str) else str(key) for key in self.targets}


@dataclass(frozen=True, slots=True)
class Assembly:
    """`branchings` are the conditional edges by the node whose execution ends with the router's choice."""

    graph: Graph
    branchings: Mapping[str, Branching]


def assemble(
    name: str,
    nodes: Mapping[str, Mapping[str, Value]],
    edges: Mapping[str, Sequence[str]],
    branchings: Mapping[str, Branching],
    max_parallel: Mapping[str, int],
) -> Assembly:
    """The engine's graph. `nodes` has the attributes of each node; raises GraphError."""
    targets = {source: list(found) for source, found in edges.items()}
    for source in nodes:
        if source not in targets and source not in branchings:
            targets[source] = [END]
    ways = targets | {source: list(each.targets.values()) for source, each in branchings.items()}
    _check_keys(branchings)
    _check(nodes, ways)
    made = {START: Node(START, {"shape": "Mdiamond"})}
    made |= {node: Node(node, dict(attrs)) for node, attrs in nodes.items()}
    made[END] = Node(END, {"shape": "Msquare"})
    lines: list[Edge] = []
    for source in (START, *nodes):
        if source in branchings:
            origin = source
            if source == START:
                origin = _insert(made, f"{START}.route", {"type": "python", "shape": "diamond"})
                lines.append(Edge(source, origin))
            each = branchings[source]
            lines += [Edge(origin, target, {"label": each.labels[key]}) for key, target in each.targets.items()]
        elif len(targets[source]) == 1:
            lines.append(Edge(source, targets[source][0]))
        else:
            count = max_parallel.get(source, len(targets[source]))
            fan_out = _insert(made, f"{source}.branches", {"shape": "component", "max_parallel": count})
            lines += [Edge(source, fan_out), *(Edge(fan_out, target) for target in targets[source])]
    graph = Graph(name, made, tuple(lines))
    if wrong := [str(found) for found in validate(graph, handler_types=_TYPES) if found.severity is Severity.ERROR]:
        raise GraphError("; ".join(wrong))
    _check_branches(graph, [source for source in (START, *nodes) if len(targets.get(source, ())) > 1])
    routed = {f"{START}.route" if source == START else source: each for source, each in branchings.items()}
    return Assembly(replace(graph, source=format_graph(graph)), routed)


def _insert(made: dict[str, Node], node: str, attrs: Mapping[str, Value]) -> str:
    if node in made:
        raise GraphError(
            f"the name {node!r} is taken by what stands behind {node.rpartition('.')[0]!r}; choose another"
        )
    made[node] = Node(node, attrs)
    return node


def _check(nodes: Iterable[str], ways: Mapping[str, Sequence[str]]) -> None:
    known = {START, END, *nodes}
    for source, targets in ways.items():
        for node in (source, *targets):
            if node not in known:
                near = get_close_matches(node, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(nodes) or 'none'}"
                raise GraphError(f"an edge from {source!r} to {', '.join(map(repr, targets))}: no node {node!r}{hint}")
        if source == END:
            raise GraphError("an edge can't begin at END, where the run ends")
        if START in targets:
            raise GraphError(f"the edge from {source!r} can't lead to START, where the run begins; name a node")
    if START not in ways:
        raise GraphError("the graph has no beginning: add an edge from START")
    reached, waiting = {START}, [START]
    for source in waiting:
        fresh = [target for target in dict.fromkeys(ways.get(source, ())) if target not in reached]
        reached.update(fresh)
        waiting += fresh
    if lost := [node for node in nodes if node not in reached]:
        raise GraphError(f"no path leads from START to {', '.join(map(repr, lost))}; add an edge, or drop the node")
    if END not in reached:
        raise GraphError("no path leads from START to END: the graph would never end")


def _check_branches(graph: Graph, forks: Iterable[str]) -> None:
    """A branch ends where all meet, and so can't lead back to where it began."""
    joins = Joins(graph)
    for fork in forks:
        fan_out = f"{fork}.branches"
        join = joins.find(fan_out)
        for edge in graph.outgoing_edges(fan_out):
            seen, waiting = {join}, [edge.target]
            for node in waiting:
                if node in seen:
                    continue
                seen.add(node)
                waiting += [way.target for way in graph.outgoing_edges(node)]
            if fan_out in seen:
                raise GraphError(
                    f"the branch from {fork!r} to {edge.target!r} leads back to {fork!r} before the branches meet"
                    f"{f' at {join!r}' if join else ''}; let it end there, and loop from there"
                )


def _check_keys(branchings: Mapping[str, Branching]) -> None:
    for source, each in branchings.items():
        if not each.targets:
            raise GraphError(f"the conditional edges of {source!r} have no targets")
        seen: dict[str, Any] = {}
        for key, label in each.labels.items():
            plain = normalize_label(label)
            if not plain:
                raise GraphError(f"the conditional edges of {source!r} have the key {key!r}, which is empty as text")
            if plain in seen:
                raise GraphError(
                    f"the conditional edges of {source!r} have keys that can't be told apart: {seen[plain]!r}, {key!r}"
                )
            seen[plain] = key
