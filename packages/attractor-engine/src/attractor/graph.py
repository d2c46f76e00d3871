"""The in-memory pipeline: Graph, Node, Edge and their typed attributes (sections 2.5 to 2.8).

All three are immutable; a transform makes new ones with `replace()`. Attribute values keep the type they were
written with; the typed properties below read `timeout="900s"` and `timeout=900s` alike, and answer with the
specification's default where an attribute is missing or unreadable (lint reports the unreadable ones).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

from attractor.diagnostics import Diagnostic, Span

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_EMPTY: Mapping[str, Any] = MappingProxyType({})


def _empty() -> Mapping[str, Any]:
    # A mapping proxy can't be a plain default of a dataclass field before Python 3.12.
    return _EMPTY


START_IDS = ("start", "Start")
EXIT_IDS = ("exit", "Exit", "end", "done")

SHAPE_TO_TYPE: Mapping[str, str] = MappingProxyType(
    {
        "Mdiamond": "start",
        "Msquare": "exit",
        "box": "codergen",
        "hexagon": "wait.human",
        "diamond": "conditional",
        "component": "parallel",
        "tripleoctagon": "parallel.fan_in",
        "parallelogram": "tool",
        "house": "stack.manager_loop",
    }
)

PATTERN_TYPES = frozenset(
    {
        "function",
        "converge",
        "quality_gate",
        "skip_if_done",
        "idempotent",
        "interrupt",
        "tool_loop",
        "retry",
        "timeout",
    }
)
"""Handler types that no shape stands for, of the patterns in docs/prebuilt."""
BUILT_IN_TYPES = frozenset({*SHAPE_TO_TYPE.values(), "pipeline", *PATTERN_TYPES})
"""The handler types of this package; no shape stands for `pipeline`, a run as a stage."""
CHILD_TYPES = frozenset({"pipeline", "stack.manager_loop"})


class Duration(str):
    """A length of time as written, such as `15m`; equal to the same text in quotes."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises ValueError for anything but a number with one of the units `ms s m h d`, or with none (seconds)."""
        if not _DURATION.fullmatch(text):
            raise ValueError(f"{text!r} is not a duration such as 250ms, 900s, 15m, 2h or 1d")
        return super().__new__(cls, text.strip())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The duration that the text says, or None if it is something else."""
        return cls(text) if _DURATION.fullmatch(text) else None

    @property
    def seconds(self) -> float:
        match = _DURATION.fullmatch(self)
        assert match, "checked when it was made"
        return float(match[1]) * _UNIT_SECONDS[match[2]]


Value = str | int | float | bool | Duration
"""An attribute's value as it was written: quoted text, integer, float, `true` / `false`, or a duration."""


def to_text(value: Value | None) -> str:
    """The value as text; booleans as DOT writes them; missing is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def to_bool(value: Value | None) -> bool | None:
    """True or False, quoted or not; None if missing or something else."""
    if value is None or isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(to_text(value).strip().lower())


def to_int(value: Value | None) -> int | None:
    """A whole number, quoted or not; None if missing or something else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(to_text(value).strip())
    except ValueError:
        return None


def to_count(value: Value | None) -> int | None:
    """A whole number that is not negative, quoted or not; None if missing or something else."""
    number = to_int(value)
    return number if number is not None and number >= 0 else None


def to_seconds(value: Value | None) -> float | None:
    """A duration in seconds, quoted or not; a bare number counts as seconds; None if missing or something else."""
    if isinstance(value, bool) or value is None:
        return None
    duration = value if isinstance(value, Duration) else Duration.parse(to_text(value))
    return duration.seconds if duration else None


def to_dollars(value: Value | None) -> float | None:
    """An amount of money that is not negative, quoted or not; None if missing or something else."""
    try:
        amount = float(to_text(value)) if value is not None else -1.0
    except ValueError:
        return None
    return amount if 0 <= amount < float("inf") else None


def split_classes(text: str) -> tuple[str, ...]:
    """The names in a `class` attribute, which commas separate; white space does too, as in HTML."""
    return tuple(text.replace(",", " ").split())


@dataclass(frozen=True, slots=True)
class Node:
    """A stage. `classes` are those of its subgraphs, outermost first, then those of its `class` attribute."""

    id: str
    attrs: Mapping[str, Value] = field(default_factory=_empty)
    classes: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)
    attr_spans: Mapping[str, Span] = field(default_factory=_empty, compare=False)

    def with_attrs(self, attrs: Mapping[str, Value]) -> "Node":
        """A copy with these attributes added or replaced."""
        return replace(self, attrs={**self.attrs, **attrs})

    def text(self, key: str) -> str:
        """An attribute as text; empty if missing."""
        value = self.attrs.get(key)
        return value if type(value) is str else to_text(value)

    @property
    def label(self) -> str:
        return self.text("label") or self.id

    @property
    def shape(self) -> str:
        return self.text("shape") or "box"

    @property
    def type(self) -> str:
        return self.text("type")

    @property
    def prompt(self) -> str:
        return self.text("prompt")

    @property
    def max_retries(self) -> int | None:
        """Additional attempts; None means that the graph's default applies."""
        return to_count(self.attrs.get("max_retries"))

    @property
    def goal_gate(self) -> bool:
        return to_bool(self.attrs.get("goal_gate")) or False

    @property
    def retry_target(self) -> str:
        return self.text("retry_target")

    @property
    def fallback_retry_target(self) -> str:
        return self.text("fallback_retry_target")

    @property
    def fidelity(self) -> str:
        return self.text("fidelity")

    @property
    def thread_id(self) -> str:
        return self.text("thread_id")

    @property
    def timeout(self) -> float | None:
        """Seconds, or None for no limit, which 0 means too."""
        return to_seconds(self.attrs.get("timeout")) or None

    @property
    def llm_model(self) -> str:
        return self.text("llm_model")

    @property
    def llm_provider(self) -> str:
        return self.text("llm_provider")

    @property
    def reasoning_effort(self) -> str:
        """Empty means that the request carries none."""
        return self.text("reasoning_effort")

    @property
    def auto_status(self) -> bool:
        return to_bool(self.attrs.get("auto_status")) or False

    @property
    def allow_partial(self) -> bool:
        return to_bool(self.attrs.get("allow_partial")) or False


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition from `source` to `target`; the specification also says `from_node` and `to_node`."""

    source: str
    target: str
    attrs: Mapping[str, Value] = field(default_factory=_empty)
    span: Span | None = field(default=None, compare=False)
    attr_spans: Mapping[str, Span] = field(default_factory=_empty, compare=False)

    @property
    def from_node(self) -> str:
        return self.source

    @property
    def to_node(self) -> str:
        return self.target

    @property
    def label(self) -> str:
        return to_text(self.attrs.get("label"))

    @property
    def condition(self) -> str:
        value = self.attrs.get("condition")
        return "" if value is None else to_text(value).strip()

    @property
    def weight(self) -> int:
        return to_int(self.attrs.get("weight")) or 0

    @property
    def fidelity(self) -> str:
        return to_text(self.attrs.get("fidelity"))

    @property
    def thread_id(self) -> str:
        return to_text(self.attrs.get("thread_id"))

    @property
    def loop_restart(self) -> bool:
        return to_bool(self.attrs.get("loop_restart")) or False


@dataclass(frozen=True)
class Graph:
    """A pipeline. `nodes` keeps the order of first mention; `source` is the text it was parsed from, if any.

    `diagnostics` holds what the parser and the transforms noticed on the way; `validate()` reports it.
    """

    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    attrs: Mapping[str, Value] = field(default_factory=_empty)
    attr_spans: Mapping[str, Span] = field(default_factory=_empty, compare=False)
    source: str = field(default="", compare=False, repr=False)
    file_name: str = field(default="", compare=False)
    diagnostics: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        """Short: an event loop shows what its tasks were called with, and a graph may have thousands of nodes."""
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes, {len(self.edges)} edges>"

    def with_nodes(self, nodes: Iterable[Node]) -> "Graph":
        """A copy in which these nodes replace those of the same id, or are added."""
        return replace(self, nodes={**self.nodes, **{node.id: node for node in nodes}})

    @cached_property
    def _outgoing(self) -> Mapping[str, tuple[Edge, ...]]:
        return _group(self.edges, "source")

    @cached_property
    def _incoming(self) -> Mapping[str, tuple[Edge, ...]]:
        return _group(self.edges, "target")

    def outgoing_edges(self, node_id: str) -> tuple[Edge, ...]:
        """Edges that leave the node, in the order written."""
        return self._outgoing.get(node_id, ())

    def incoming_edges(self, node_id: str) -> tuple[Edge, ...]:
        """Edges that enter the node, in the order written."""
        return self._incoming.get(node_id, ())

    @property
    def goal(self) -> str:
        return to_text(self.attrs.get("goal"))

    @property
    def label(self) -> str:
        return to_text(self.attrs.get("label"))

    @property
    def model_stylesheet(self) -> str:
        return to_text(self.attrs.get("model_stylesheet"))

    @cached_property
    def default_max_retries(self) -> int:
        retries = to_count(self.attrs.get("default_max_retries"))
        return (to_count(self.attrs.get("default_max_retry")) or 0) if retries is None else retries

    @property
    def retry_target(self) -> str:
        return to_text(self.attrs.get("retry_target"))

    @property
    def fallback_retry_target(self) -> str:
        return to_text(self.attrs.get("fallback_retry_target"))

    @property
    def default_fidelity(self) -> str:
        return to_text(self.attrs.get("default_fidelity"))

    @cached_property
    def start_nodes(self) -> tuple[Node, ...]:
        """Nodes that begin a run: those of the shape or type; only if there are none, the first named so."""
        return self._terminals("start", START_IDS)

    @cached_property
    def exit_nodes(self) -> tuple[Node, ...]:
        """Nodes that end a run: those of the shape or type; only if there are none, the first named so."""
        return self._terminals("exit", EXIT_IDS)

    def handler_type(self, node: Node) -> str:
        """What runs the node: its explicit `type`, else start or exit by the rules above, else what its shape means.

        A shape that stands for nothing means codergen.
        """
        return self._own_types[node.id] if self.nodes.get(node.id) is node else self._find_type(node)

    @cached_property
    def _own_types(self) -> Mapping[str, str]:
        # Asked for many times a stage, and by most rules of lint.
        return {node_id: self._find_type(node) for node_id, node in self.nodes.items()}

    def _find_type(self, node: Node) -> str:
        return node.type or self._terminal_types.get(node.id) or SHAPE_TO_TYPE.get(node.shape, "codergen")

    @cached_property
    def _terminal_types(self) -> Mapping[str, str]:
        return {node.id: "exit" for node in self.exit_nodes} | {node.id: "start" for node in self.start_nodes}

    def _terminals(self, handler_type: str, ids: tuple[str, ...]) -> tuple[Node, ...]:
        declared = tuple(
            node
            for node in self.nodes.values()
            if node.type == handler_type or (not node.type and SHAPE_TO_TYPE.get(node.shape) == handler_type)
        )
        if declared:
            return declared
        named = (self.nodes[node_id] for node_id in ids if node_id in self.nodes)
        return tuple(
            node for node in named if not node.type and SHAPE_TO_TYPE.get(node.shape, "codergen") == "codergen"
        )[:1]


def _group(edges: Iterable[Edge], end: str) -> dict[str, tuple[Edge, ...]]:
    groups: dict[str, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(getattr(edge, end), []).append(edge)
    return {node_id: tuple(group) for node_id, group in groups.items()}
