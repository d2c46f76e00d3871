"""Graph to DOT that Graphviz accepts too: what its grammar has no bare form for is quoted."""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from attractor.dot.builder import derive_class
from attractor.graph import Duration, Graph, Node, Value, split_classes, to_text

LINE_LENGTH = 120
INDENT = "    "

_BARE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Graphviz reads its keywords in any case.
_KEYWORDS = frozenset({"digraph", "graph", "node", "edge", "subgraph", "strict"})
_BARE_VALUES = frozenset({"shape", "rankdir"})


def format_graph(graph: Graph) -> str:
    """DOT source for a graph, with a line feed at the end.

    Parsing it gives an equal graph. Defaults are written out on each node and edge; classes that came from a subgraph's
    label are written as a subgraph again.
    """
    lines = [f"digraph {write_id(graph.name)} {{" if graph.name else "digraph {"]
    lines += [f"{INDENT}{write_id(key)}={write_value(key, value)}" for key, value in graph.attrs.items()]
    if graph.attrs and graph.nodes:
        lines.append("")
    lines += _nodes(graph)
    if graph.nodes and graph.edges:
        lines.append("")
    for edge in graph.edges:
        lines += _statement(f"{write_id(edge.source)} -> {write_id(edge.target)}", edge.attrs, INDENT)
    return "\n".join([*lines, "}", ""])


def write_id(name: str) -> str:
    """A node id, graph name or attribute name, quoted unless it may stand bare."""
    return name if _BARE_ID.fullmatch(name) and name.lower() not in _KEYWORDS else quote(name)


def write_value(key: str, value: Value) -> str:
    """An attribute's value. Durations are quoted, because Graphviz takes their unit for another word."""
    match value:
        case bool():
            return to_text(value)
        case float():
            text = f"{Decimal(repr(value)):f}"  # DOT has no exponents.
            return text if "." in text else f"{text}.0"
        case int():
            return str(value)
        case Duration():
            return quote(value)
    return value if key in _BARE_VALUES and _is_plain(value) else quote(value)


def quote(text: str) -> str:
    """A string in double quotes. Line feeds stay line feeds in long texts, and become `\\n` in short ones."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{text}"' if len(text) > LINE_LENGTH else '"{}"'.format(text.replace("\n", "\\n"))


def fits_on_a_line(line: str) -> bool:
    """Whether a statement is short enough for one line; one with line feeds in a string is as long as its longest."""
    return max(map(len, line.split("\n"))) <= LINE_LENGTH


def _is_plain(value: str) -> bool:
    return bool(_BARE_ID.fullmatch(value)) and value.lower() not in _KEYWORDS | {"true", "false"}


def _nodes(graph: Graph) -> Iterator[str]:
    """Node statements; neighbours that share classes of a subgraph's share a subgraph."""
    depth: list[str] = []
    for node in graph.nodes.values():
        derived = _derived_classes(node)
        shared = 0
        while shared < min(len(depth), len(derived)) and depth[shared] == derived[shared]:
            shared += 1
        while len(depth) > shared:
            depth.pop()
            yield f"{INDENT * (len(depth) + 1)}}}"
        for name in derived[shared:]:
            yield f"{INDENT * (len(depth) + 1)}subgraph {{"
            depth.append(name)
            yield f"{INDENT * (len(depth) + 1)}label={quote(name)}"
        yield from _statement(write_id(node.id), _attributes(node, derived), INDENT * (len(depth) + 1))
    while depth:
        depth.pop()
        yield f"{INDENT * (len(depth) + 1)}}}"


def _derived_classes(node: Node) -> tuple[str, ...]:
    """The classes that the node's `class` attribute doesn't account for."""
    own = split_classes(node.text("class"))
    for count in range(len(node.classes) + 1):
        derived = node.classes[:count]
        if tuple(dict.fromkeys(derived + own)) == node.classes and all(derive_class(name) == name for name in derived):
            return derived
    return ()


def _attributes(node: Node, derived: tuple[str, ...]) -> Mapping[str, Value]:
    own = split_classes(node.text("class"))
    if tuple(dict.fromkeys(derived + own)) == node.classes:
        return node.attrs
    # Classes that no label gives, on a graph that was made in Python.
    return {**node.attrs, "class": ",".join(node.classes)}


def _statement(head: str, attributes: Mapping[str, Value], indent: str) -> Iterable[str]:
    if not attributes:
        return [f"{indent}{head}"]
    parts = [f"{write_id(key)}={write_value(key, value)}" for key, value in attributes.items()]
    line = f"{indent}{head} [{', '.join(parts)}]"
    if fits_on_a_line(line):
        return [line]
    separated = [f"{part}," for part in parts[:-1]] + parts[-1:]
    return [f"{indent}{head} [", *(f"{indent}{INDENT}{part}" for part in separated), f"{indent}]"]
