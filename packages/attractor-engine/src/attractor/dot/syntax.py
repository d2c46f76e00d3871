"""What a DOT file says, statement by statement, before scopes and defaults are applied.

All places are character offsets into the source.
"""

from typing import Any, ClassVar, NamedTuple

from attractor.graph import Value


class _TokenFields(NamedTuple):
    type: str
    value: Any
    start: int
    end: int


class Token(_TokenFields):
    """A piece of source as the parser is fed it. As a name, its `value` is a node id or a graph's name, unquoted."""

    __slots__ = ()

    # lark copies these to the token that stands for the end of the text.
    start_pos: ClassVar[int] = 0
    end_pos: ClassVar[int] = 0
    line: ClassVar[int] = 0
    column: ClassVar[int] = 0
    end_line: ClassVar[int] = 0
    end_column: ClassVar[int] = 0


class Attribute(NamedTuple):
    """`key = value`; the value's own text begins at `value_start`."""

    key: str
    value: Value
    start: int
    value_start: int
    end: int


class NodeStatement(NamedTuple):
    name: Token
    attributes: list[Attribute]
    start: int
    end: int


class EdgeStatement(NamedTuple):
    """`a -> b -> c [...]`; an endpoint may be a subgraph, which stands for all of its nodes."""

    endpoints: list["Token | SubgraphStatement"]
    attributes: list[Attribute]
    start: int
    end: int


class DefaultsStatement(NamedTuple):
    """`graph [...]`, `node [...]` or `edge [...]`."""

    kind: str
    attributes: list[Attribute]
    start: int
    end: int


class Assignment(NamedTuple):
    """`key = value` on its own: an attribute of the enclosing graph or subgraph."""

    attribute: Attribute
    start: int
    end: int


class SubgraphStatement(NamedTuple):
    """`keyword` is False for bare braces; the body lies between the offsets `body_start` and `body_end`."""

    name: Token | None
    statements: list["Statement"]
    keyword: bool
    start: int
    body_start: int
    body_end: int
    end: int


class Document(NamedTuple):
    """A whole file."""

    name: Token | None
    statements: list["Statement"]
    body_start: int
    body_end: int


Statement = NodeStatement | EdgeStatement | DefaultsStatement | Assignment | SubgraphStatement
