"""Graph to graph, between parsing and validation (section 9)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from attractor.attributes import DIALECT_NAMES
from attractor.diagnostics import Diagnostic, Severity
from attractor.errors import PipelineConfigurationError, StylesheetSyntaxError
from attractor.graph import Graph, Node
from attractor.stylesheet import PROPERTIES, parse_stylesheet

_GOAL = re.compile(r"\$goal\b")


class Transform(Protocol):
    """Makes a new graph of a graph; the one it is given stays as it is."""

    def apply(self, graph: Graph) -> Graph: ...


@dataclass(frozen=True, slots=True)
class DialectNames:
    """Node attributes under the names of other engines get the specification's name as well, with an INFO finding.

    The name written stays, for a handler that may look for it. Where both are there, the specification's holds.
    """

    def apply(self, graph: Graph) -> Graph:
        renamed = {name: [node for node in graph.nodes.values() if name in node.attrs] for name in DIALECT_NAMES}
        changed: dict[str, Node] = {}
        findings: list[Diagnostic] = []
        for name, nodes in renamed.items():
            if not nodes:
                continue
            known = DIALECT_NAMES[name]
            for node in nodes:
                latest = changed.get(node.id, node)
                if known not in latest.attrs:
                    changed[node.id] = latest.with_attrs({known: node.attrs[name]})
                elif latest.attrs[known] != node.attrs[name]:
                    findings.append(
                        _finding(graph, node, name, Severity.WARNING, f"{known} holds, and {name} is ignored")
                    )
            others = f", and {len(nodes) - 1} more," if len(nodes) > 1 else ""
            message = f"{name} of node {nodes[0].id}{others} is read as {known}"
            findings.append(_finding(graph, nodes[0], name, Severity.INFO, message, fix=f"write {known}"))
        if not findings:
            return graph
        return replace(graph.with_nodes(changed.values()), diagnostics=(*graph.diagnostics, *findings))


@dataclass(frozen=True, slots=True)
class VariableExpansion:
    """`$goal` in prompts becomes the graph's goal. Nothing else is expanded, and no other attribute (section 9.2)."""

    def apply(self, graph: Graph) -> Graph:
        return graph.with_nodes(self._expanded(graph))

    def _expanded(self, graph: Graph) -> Iterator[Node]:
        goal = graph.goal
        for node in graph.nodes.values():
            if "$goal" in node.prompt:
                yield node.with_attrs({"prompt": _GOAL.sub(lambda _: goal, node.prompt)})


@dataclass(frozen=True, slots=True)
class StylesheetApplication:
    """The graph's `model_stylesheet` sets what nodes don't (section 8.5). One that can't be read is left to lint."""

    def apply(self, graph: Graph) -> Graph:
        try:
            return parse_stylesheet(graph.model_stylesheet).apply(graph)
        except StylesheetSyntaxError:
            return graph


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """Model attributes of the graph reach the nodes that still have none, the last of section 8.5's levels."""

    def apply(self, graph: Graph) -> Graph:
        defaults = {key: graph.attrs[key] for key in PROPERTIES if graph.attrs.get(key)}
        if not defaults:
            return graph
        return graph.with_nodes(
            node.with_attrs(missing)
            for node in graph.nodes.values()
            if (missing := {key: value for key, value in defaults.items() if not node.text(key)})
        )


BUILT_IN_TRANSFORMS: Sequence[Transform] = (
    DialectNames(),
    VariableExpansion(),
    StylesheetApplication(),
    ModelDefaults(),
)


def apply_transforms(graph: Graph, extra: Iterable[Transform] = ()) -> Graph:
    """Run the built-in transforms, then `extra`, each in order; PipelineConfigurationError if one makes no graph."""
    for transform in (*BUILT_IN_TRANSFORMS, *extra):
        changed: Any = transform.apply(graph)
        if not isinstance(changed, Graph):
            raise PipelineConfigurationError(
                f"the transform {type(transform).__name__} returned {type(changed).__name__} instead of a Graph"
            )
        graph = changed
    return graph


def _finding(graph: Graph, node: Node, name: str, severity: Severity, message: str, fix: str = "") -> Diagnostic:
    return Diagnostic(
        rule="dialect_name",
        severity=severity,
        message=message,
        node_id=node.id,
        fix=fix,
        file_name=graph.file_name,
        span=node.attr_spans.get(name, node.span),
    )
