"""Statements to Graph: scopes, defaults, derived classes, edge chains (sections 2.9 to 2.12)."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from attractor.attributes import GRAPHVIZ_ATTRIBUTES
from attractor.dot.source import AttributeSpans, Source
from attractor.dot.syntax import (
    Assignment,
    Attribute,
    DefaultsStatement,
    Document,
    EdgeStatement,
    NodeStatement,
    Statement,
    SubgraphStatement,
    Token,
)
from attractor.graph import Edge, Graph, Node, Value, split_classes, to_text

MAX_EDGES = 1_000_000
"""More are refused: a line of braces may stand for more than a machine can hold."""
_SUBGRAPH_ATTRIBUTES = GRAPHVIZ_ATTRIBUTES | {"label"}
_NOT_IN_CLASS = re.compile(r"[^a-z0-9-]")


class _Defaults(NamedTuple):
    """Default attributes, and the lists they come from; later lists hold."""

    values: dict[str, Value]
    lists: tuple[list[Attribute], ...]

    def with_list(self, attributes: list[Attribute]) -> "_Defaults":
        return _Defaults({**self.values, **_values(attributes)}, (*self.lists, attributes))

    def over(self, other: "_Defaults") -> "_Defaults":
        """These, and what only the other has."""
        return _Defaults({**other.values, **self.values}, (*other.lists, *self.lists))


_NO_DEFAULTS = _Defaults({}, ())


class _Draft:
    """A node while its statements come in."""

    __slots__ = ("attributes", "classes", "declared", "defaults", "end", "start")

    def __init__(self, name: Token, scope: "_Scope") -> None:
        self.start, self.end = name.start, name.end
        self.attributes: list[Attribute] = []
        self.declared = False
        self.defaults: _Defaults = scope.node_defaults
        self.classes: tuple[str, ...] = scope.classes

    def declare(self, statement: NodeStatement, scope: "_Scope") -> None:
        """A node belongs where it is declared; until then, where an edge first names it."""
        if not self.declared:
            self.start, self.end = statement.start, statement.end
            self.attributes = statement.attributes
            self.defaults, self.classes, self.declared = scope.node_defaults, scope.classes, True
        else:
            self.attributes = self.attributes + statement.attributes
            if self.defaults is not scope.node_defaults:
                self.defaults = self.defaults.over(scope.node_defaults)
            self.classes = tuple(dict.fromkeys(self.classes + scope.classes))


class _Scope:
    """The graph or a subgraph: its defaults so far, and the classes that its nodes get."""

    __slots__ = ("attributes", "classes", "edge_defaults", "members", "node_defaults")

    def __init__(self, outer: "_Scope | None" = None, label: str = "") -> None:
        self.attributes: list[Attribute] = []
        self.node_defaults: _Defaults = outer.node_defaults if outer else _NO_DEFAULTS
        self.edge_defaults: _Defaults = outer.edge_defaults if outer else _NO_DEFAULTS
        self.classes: tuple[str, ...] = outer.classes if outer else ()
        self.members: dict[str, None] = {}
        if derived := derive_class(label):
            self.classes = tuple(dict.fromkeys((*self.classes, derived)))


def derive_class(label: str) -> str:
    """The class that a subgraph's label gives its nodes: `Loop A` gives `loop-a`."""
    return _NOT_IN_CLASS.sub("", label.strip().lower().replace(" ", "-"))


def build_graph(document: Document, source: Source) -> Graph:
    """Apply scopes and defaults; findings about the source go into the graph's diagnostics."""
    return _Builder(source).build(document)


class _Builder:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._drafts: dict[str, _Draft] = {}
        self._edges: list[Edge] = []

    def build(self, document: Document) -> Graph:
        source, scope = self._source, _Scope()
        self._read(document.statements, scope)
        return Graph(
            name=document.name.value if document.name else "",
            nodes={node_id: self._finish(node_id, draft) for node_id, draft in self._drafts.items()},
            edges=tuple(self._edges),
            attrs=self._own(scope.attributes, "the graph"),
            attr_spans=AttributeSpans(source, (scope.attributes,)),
            source=source.text,
            file_name=source.file_name,
            diagnostics=tuple(source.warnings),
        )

    def _read(self, statements: Sequence[Statement], scope: _Scope) -> None:
        for statement in statements:
            match statement:
                case NodeStatement():
                    self._draft(statement.name, scope).declare(statement, scope)
                case EdgeStatement():
                    self._read_edge(statement, scope)
                case DefaultsStatement(kind="graph"):
                    scope.attributes += statement.attributes
                case DefaultsStatement(kind="node"):
                    scope.node_defaults = scope.node_defaults.with_list(statement.attributes)
                case DefaultsStatement():
                    scope.edge_defaults = scope.edge_defaults.with_list(statement.attributes)
                case Assignment():
                    scope.attributes.append(statement.attribute)
                case SubgraphStatement():
                    self._read_subgraph(statement, scope)

    def _read_edge(self, statement: EdgeStatement, scope: _Scope) -> None:
        ends = [tuple(self._endpoint(endpoint, scope)) for endpoint in statement.endpoints]
        more = sum(len(sources) * len(targets) for sources, targets in pairwise(ends))
        if len(self._edges) + more > MAX_EDGES:
            raise self._source.error(
                f"with these {more:,} edges there are more than {MAX_EDGES:,}",
                statement.start,
                "each node of a subgraph is joined with each of the other; let them meet in a node between",
            )
        values, lists = scope.edge_defaults
        if statement.attributes:
            values = {**values, **self._own(statement.attributes, "the edge")}
            lists = (*lists, statement.attributes)
        spans = AttributeSpans(self._source, lists)
        span = self._source.span(statement.start, statement.end)
        for sources, targets in pairwise(ends):
            self._edges += [Edge(origin, target, values, span, spans) for origin in sources for target in targets]

    def _endpoint(self, endpoint: Token | SubgraphStatement, scope: _Scope) -> Iterable[str]:
        if isinstance(endpoint, SubgraphStatement):
            return self._read_subgraph(endpoint, scope)
        self._draft(endpoint, scope)
        return (endpoint.value,)

    def _read_subgraph(self, statement: SubgraphStatement, outer: _Scope) -> Iterable[str]:
        """Reads the subgraph; returns its nodes in the order of their first mention in it."""
        scope = _Scope(outer, to_text(_label(statement.statements)))
        self._read(statement.statements, scope)
        for key, _, start, _, end in scope.attributes:
            if key not in _SUBGRAPH_ATTRIBUTES:
                self._source.warn(
                    "subgraph_attribute",
                    f"{key} has no effect on a subgraph",
                    start,
                    end,
                    fix=f"write node [{key}=...] for the nodes of the subgraph, or move it out to the graph",
                )
        outer.members |= scope.members
        return scope.members

    def _draft(self, name: Token, scope: _Scope) -> _Draft:
        node_id = name.value
        scope.members[node_id] = None
        draft = self._drafts.get(node_id)
        if draft is None:
            draft = self._drafts[node_id] = _Draft(name, scope)
        return draft

    def _finish(self, node_id: str, draft: _Draft) -> Node:
        values, lists = draft.defaults
        if draft.attributes:
            values = {**values, **self._own(draft.attributes, f"node {node_id}", node_id)}
            lists = (*lists, draft.attributes)
        classes = draft.classes
        if "class" in values:
            classes = tuple(dict.fromkeys(classes + split_classes(to_text(values["class"]))))
        span = self._source.span(draft.start, draft.end)
        return Node(node_id, values, classes, span, AttributeSpans(self._source, lists))

    def _own(self, attributes: list[Attribute], owner: str, node_id: str = "") -> dict[str, Value]:
        """The attributes that something sets itself; one that is overwritten isn't in silence."""
        values = _values(attributes)
        if len(values) < len(attributes):
            first: dict[str, Attribute] = {}
            for found in attributes:
                before = first.setdefault(found.key, found)
                if before.value != found.value:
                    self._source.warn(
                        "duplicate_attribute",
                        f"{owner} already has {found.key}, in line {self._source.span(before.start, before.end).line}; "
                        "the later value holds",
                        found.start,
                        found.end,
                        fix="remove one of the two",
                        node_id=node_id,
                    )
        return values


def _values(attributes: Iterable[Attribute]) -> dict[str, Value]:
    return {attribute.key: attribute.value for attribute in attributes}


def _label(statements: Sequence[Statement]) -> Value | None:
    """The label that a body of statements gives itself; it counts for the nodes before it too."""
    label = None
    for statement in statements:
        match statement:
            case Assignment(attribute) if attribute.key == "label":
                label = attribute.value
            case DefaultsStatement(kind="graph", attributes=attributes):
                label = next((found.value for found in attributes if found.key == "label"), label)
    return label
