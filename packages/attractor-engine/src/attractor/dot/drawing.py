"""A pipeline as DOT for Graphviz to draw: only what a picture needs, under names that can't be misread.

The pipeline's own source won't do: Graphviz takes `weight`, `class` and the like for its own, reads markup in labels,
and has other rules for what may stand bare.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attractor.dot.parser import parse_document
from attractor.dot.syntax import (
    Assignment,
    DefaultsStatement,
    EdgeStatement,
    NodeStatement,
    Statement,
    SubgraphStatement,
)
from attractor.errors import DotSyntaxError
from attractor.graph import SHAPE_TO_TYPE, Edge, Graph, Node, to_text

_TYPE_TO_SHAPE = {handler_type: shape for shape, handler_type in SHAPE_TO_TYPE.items()}
# Shapes with an outline and an ordinary label: a record's label is a language of its own, a point has none.
_SHAPES = frozenset(
    {"box", "rect", "rectangle", "square", "polygon", "ellipse", "oval", "circle", "egg", "triangle", "diamond"}
    | {"trapezium", "parallelogram", "house", "pentagon", "hexagon", "septagon", "octagon", "doublecircle"}
    | {"doubleoctagon", "tripleoctagon", "invtriangle", "invtrapezium", "invhouse", "Mdiamond", "Msquare", "Mcircle"}
    | {"star", "cylinder", "note", "tab", "folder", "box3d", "component", "cds"}
)
_DIRECTIONS = frozenset({"TB", "LR", "BT", "RL"})
_LINE_WIDTH = 26
_MOST_LINES = 4
_HEAD = (
    'graph [bgcolor="transparent", pad="0.25", nodesep="0.3", ranksep="0.4", fontname="Helvetica,Arial,sans-serif",'
    ' fontsize="12", fontcolor="#52606d", color="#cbd2d9", style="rounded"]',
    'node [fontname="Helvetica,Arial,sans-serif", fontsize="13", fontcolor="#1f2933", style="filled",'
    ' fillcolor="#ffffff", color="#7b8794", penwidth="1.25", margin="0.14,0.07", width="0.7", height="0.42"]',
    'edge [fontname="Helvetica,Arial,sans-serif", fontsize="11", fontcolor="#52606d", color="#7b8794",'
    ' arrowsize="0.7"]',
)


@dataclass
class _Box:
    """A cluster, or the graph itself: the nodes that were first mentioned in it, and the clusters in it."""

    label: str = ""
    nodes: list[str] = field(default_factory=list)
    boxes: list["_Box"] = field(default_factory=list)


def node_name(number: int) -> str:
    """What the drawing calls the graph's node of that number, counted from 0; its `id` in the picture as well."""
    return f"node-{number}"


def edge_name(number: int) -> str:
    """The `id` of the graph's edge of that number, counted from 0."""
    return f"edge-{number}"


def write_drawing(graph: Graph) -> str:
    """DOT in which nodes and edges are numbered in the graph's order; clusters are those of the graph's source."""
    names = {node_id: node_name(number) for number, node_id in enumerate(graph.nodes)}
    lines = ["digraph {", *_HEAD]
    direction = to_text(graph.attrs.get("rankdir")).upper()
    if direction in _DIRECTIONS:
        lines.append(f"rankdir={direction}")
    top = _find_boxes(graph)
    placed: set[str] = set()
    lines += _draw_box(top, graph, names, placed)
    lines += [_draw_node(graph, node, names[node.id]) for node in graph.nodes.values() if node.id not in placed]
    lines += [_draw_edge(edge, number, names) for number, edge in enumerate(graph.edges)]
    return "\n".join([*lines, "}", ""])


def _draw_box(box: _Box, graph: Graph, names: Mapping[str, str], placed: set[str], path: str = "") -> Iterator[str]:
    # A node stands in the innermost cluster that mentions it, so the clusters come first.
    for number, inner in enumerate(box.boxes):
        yield f'subgraph "cluster_{path}{number}" {{'
        yield f"label={_quote(inner.label)}"
        yield from _draw_box(inner, graph, names, placed, f"{path}{number}_")
        yield "}"
    for node_id in box.nodes:
        if node_id in names and node_id not in placed:
            placed.add(node_id)
            yield _draw_node(graph, graph.nodes[node_id], names[node_id])


def _draw_node(graph: Graph, node: Node, name: str) -> str:
    shape = shape_of(graph, node)
    style = ', style="filled,rounded"' if shape in ("box", "rect", "rectangle") else ""
    return f'"{name}" [id="{name}", shape={shape}, label={_quote(_wrap(node.label))}{style}]'


def _draw_edge(edge: Edge, number: int, names: Mapping[str, str]) -> str:
    parts = [f'id="{edge_name(number)}"']
    if text := edge.label or edge.condition:
        parts.append(f"label={_quote(' ' + _wrap(text) + ' ')}")
    if edge.loop_restart:
        parts.append("style=dashed")
    return f'"{names[edge.source]}" -> "{names[edge.target]}" [{", ".join(parts)}]'


def shape_of(graph: Graph, node: Node) -> str:
    """The shape as written, where it can be drawn; else the one that stands for what runs the node."""
    written = node.text("shape")
    if written in _SHAPES:
        return written
    return _TYPE_TO_SHAPE.get(graph.handler_type(node), "box")


def _wrap(text: str) -> str:
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, _LINE_WIDTH) or [""]]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], lines[_MOST_LINES - 1][: _LINE_WIDTH - 1] + "…"]
    return "\n".join(lines)


def _quote(text: str) -> str:
    """Text that Graphviz shows as it is: neither an escape nor an entity is left in it, nor what XML can't hold."""
    shown = "".join(char if char >= " " or char == "\n" else " " for char in text)
    shown = shown.encode("utf-8", "replace").decode().replace("\ufffe", " ").replace("\uffff", " ")
    for raw, written in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        shown = shown.replace(raw, written)
    return f'"{shown}"'


def _find_boxes(graph: Graph) -> _Box:
    """The clusters of the source; none if the graph was made in Python."""
    top = _Box()
    if graph.source:
        try:
            _collect(parse_document(graph.source)[0].statements, top)
        except DotSyntaxError:
            return _Box()
    return top


def _collect(statements: Sequence[Statement], box: _Box) -> None:
    for statement in statements:
        match statement:
            case NodeStatement(name):
                box.nodes.append(name.value)
            case EdgeStatement(endpoints):
                for endpoint in endpoints:
                    if isinstance(endpoint, SubgraphStatement):
                        _collect_subgraph(endpoint, box)
                    else:
                        box.nodes.append(endpoint.value)
            case SubgraphStatement():
                _collect_subgraph(statement, box)
            case Assignment(attribute) if attribute.key == "label":
                box.label = to_text(attribute.value)
            case DefaultsStatement("graph", attributes):
                for attribute in attributes:
                    box.label = to_text(attribute.value) if attribute.key == "label" else box.label


def _collect_subgraph(statement: SubgraphStatement, box: _Box) -> None:
    """As for Graphviz, a subgraph is a box if its name begins with `cluster`; any other is invisible."""
    if statement.name and statement.name.value.startswith("cluster"):
        inner = _Box()
        box.boxes.append(inner)
        _collect(statement.statements, inner)
    else:
        label = box.label
        _collect(statement.statements, box)
        box.label = label
