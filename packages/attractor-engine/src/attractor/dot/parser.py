"""DOT source to Graph, by the grammar in grammar.lark."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedToken

from attractor.dot import syntax_errors
from attractor.dot.builder import build_graph
from attractor.dot.lexer import DotLexer
from attractor.dot.source import Source, read_source
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
from attractor.errors import DotSyntaxError
from attractor.graph import Graph


def parse_dot(source: str | bytes, file_name: str = "") -> Graph:
    """Read a pipeline from DOT source (section 2); bytes are UTF-8. `file_name` is what messages call it.

    Accepts more than the specification's grammar where DOT in the field is wider, and says so in `Graph.diagnostics`
    where meaning is at stake. Raises DotSyntaxError, with line, column and a hint, for what it can't read: undirected
    edges, `strict`, several graphs, HTML values, ports.
    """
    with _without_collections():
        return build_graph(*parse_document(source, file_name))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Python's cyclic garbage collector paused, which would walk through all that was read so far, again and again.

    Reading makes no cycles; it takes a third less time for 10,000 nodes, and as long for each as for one of a hundred.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def parse_document(source: str | bytes, file_name: str = "") -> tuple[Document, Source]:
    """Read the statements of a DOT source. Raises DotSyntaxError."""
    text = read_source(source, file_name)
    try:
        return _parse(text), text
    except DotSyntaxError as error:
        # Quotes that lack their backslash can be told from the ends of strings only once nothing else makes sense.
        again = Source(text.text, file_name, tolerant=True)
        try:
            return _parse(again), again
        except DotSyntaxError:
            raise error from None


def _parse(source: Source) -> Document:
    try:
        document: Any = _grammar().parse(source)
    except UnexpectedToken as error:
        token: Any = error.token
        at, end = (len(source.text),) * 2 if token.type == "$END" else (token.start, token.end)
        raise syntax_errors.unexpected(source, token.type, at, end, set(error.expected)) from None
    parsed: Document = document
    return parsed


@cache
def _grammar() -> Lark:
    return Lark.open_from_package(
        "attractor.dot", "grammar.lark", parser="lalr", lexer=DotLexer, start="document", transformer=_Statements()
    )


class _Statements(Transformer[Token, Document]):
    """Makes a statement of each rule. Holds nothing, so that one instance serves all parses."""

    def document(self, children: list[Any]) -> Document:
        *name, opened, statements, closed = children
        return Document(name[0] if name else None, statements, opened.end, closed.start)

    def statements(self, children: list[Statement]) -> list[Statement]:
        return children

    def node(self, children: list[Token]) -> NodeStatement:
        name = children[0]
        return NodeStatement(name, _attributes(children[1:]), name.start, children[-1].end)

    def edge(self, children: list[Token | SubgraphStatement]) -> EdgeStatement:
        endpoints = children
        lists: list[Token] = []
        while isinstance(endpoints[-1], Token) and endpoints[-1].type == "ATTRIBUTES":
            lists.insert(0, endpoints.pop())  # type: ignore[arg-type]
        end = lists[-1].end if lists else endpoints[-1].end
        return EdgeStatement(endpoints, _attributes(lists), endpoints[0].start, end)

    def defaults(self, children: list[Token]) -> DefaultsStatement:
        keyword, *lists = children
        return DefaultsStatement(keyword.value, _attributes(lists), keyword.start, lists[-1].end)

    def assignment(self, children: list[Token]) -> Assignment:
        key, value = children
        return Assignment(Attribute(key.value, value.value, key.start, value.start, value.end), key.start, value.end)

    def subgraph(self, children: list[Any]) -> SubgraphStatement:
        *head, opened, statements, closed = children
        return SubgraphStatement(
            name=head[1] if len(head) == 2 else None,
            statements=statements,
            keyword=bool(head),
            start=(head[0] if head else opened).start,
            body_start=opened.end,
            body_end=closed.start,
            end=closed.end,
        )


def _attributes(lists: Sequence[Any]) -> list[Attribute]:
    if len(lists) == 1:
        found: list[Attribute] = lists[0].value
        return found
    return [attribute for token in lists for attribute in token.value]
