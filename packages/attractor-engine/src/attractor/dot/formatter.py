"""DOT source in the house form: one statement a line, four spaces a level, comments where they stand.

Works on statements, not on the graph, so that scopes, defaults, chains, subgraphs and the author's own line breaks
inside strings survive. What Graphviz would not accept bare is quoted.
"""

import re
from collections.abc import Iterator, Sequence

from attractor.dot.lexer import comments
from attractor.dot.parser import parse_document
from attractor.dot.source import Source
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
from attractor.dot.writer import INDENT, fits_on_a_line, quote, write_id

_GRAPHVIZ_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)")
_UNESCAPED_QUOTE = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
_GRAPHVIZ_KEYWORDS = frozenset({"digraph", "graph", "node", "edge", "subgraph", "strict"})


def format_source(source: str | bytes, file_name: str = "") -> str:
    """The same pipeline in the house form, with a line feed at the end; formatting that again changes nothing.

    Parsing it gives an equal graph. Raises DotSyntaxError.
    """
    document, text = parse_document(source, file_name)
    return _Formatter(text).format(document)


class _Formatter:
    """Goes through the source once; `_done` is how far it has come, `_comments` what comments lie ahead."""

    def __init__(self, source: Source) -> None:
        self._text = source.text
        self._comments = list(comments(source))[::-1]
        self._lines: list[str] = []
        self._done = 0
        self._after_line_comment = False

    def format(self, document: Document) -> str:
        # Between the word digraph and the brace nothing may stand but a comment, which goes above.
        self._comments_before(document.body_start, "")
        self._emit("", f"digraph {write_id(document.name.value)} {{" if document.name else "digraph {")
        self._done = document.body_start
        self._body(document.statements, document.body_end, INDENT)
        self._emit("", "}")
        self._done = document.body_end + 1
        self._comments_before(len(self._text), "")
        return "\n".join(self._lines) + "\n"

    def _body(self, statements: Sequence[Statement], end: int, indent: str) -> None:
        opened = len(self._lines)
        for statement in statements:
            self._comments_before(statement.start, indent, opened)
            self._blank_line(statement.start, opened)
            self._statement(statement, indent)
            self._done = max(self._done, statement.end)
        self._comments_before(end, indent, opened)

    def _statement(self, statement: Statement, indent: str) -> None:
        match statement:
            case NodeStatement(name, attributes):
                self._with_attributes(write_id(name.value), attributes, name.end, statement.end, indent)
            case DefaultsStatement(kind, attributes):
                self._with_attributes(kind, attributes, statement.start, statement.end, indent)
            case EdgeStatement():
                self._edge(statement, indent)
            case Assignment(attribute):
                self._comments_before(statement.end, indent)
                self._emit(indent, self._attribute(attribute))
            case SubgraphStatement():
                self._comments_before(statement.body_start, indent)
                self._emit(indent, _subgraph_head(statement))
                self._subgraph_body(statement, indent)

    def _subgraph_body(self, statement: SubgraphStatement, indent: str) -> None:
        self._done = statement.body_start
        self._body(statement.statements, statement.body_end, indent + INDENT)
        self._emit(indent, "}")
        self._done = statement.end

    def _edge(self, statement: EdgeStatement, indent: str) -> None:
        head = ""
        for number, endpoint in enumerate(statement.endpoints):
            head += " -> " if number else ""
            if isinstance(endpoint, Token):
                head += write_id(endpoint.value)
                self._comments_before(endpoint.start, indent)
                continue
            self._comments_before(endpoint.body_start, indent)
            self._emit(indent, head + _subgraph_head(endpoint))
            self._subgraph_body(endpoint, indent)
            head = self._lines.pop().removeprefix(indent)
        last = statement.endpoints[-1]
        self._with_attributes(head, statement.attributes, last.end, statement.end, indent)

    def _with_attributes(self, head: str, attributes: Sequence[Attribute], start: int, end: int, indent: str) -> None:
        """A statement whose attribute lists lie between two offsets; several lists become one."""
        own_lines = any(start <= at < end for at, _ in self._comments)
        before = start
        for attribute in attributes:
            own_lines = own_lines or "\n" in self._text[before : attribute.start]
            before = attribute.end
        own_lines = own_lines or "\n" in self._text[before:end]
        parts = [self._attribute(attribute) for attribute in attributes]
        if not attributes:
            self._comments_before(end, indent)
            empty_list = " []" if head in ("graph", "node", "edge") else ""
            self._emit(indent, head + empty_list)
            return
        line = f"{head} [{', '.join(parts)}]"
        if not own_lines and fits_on_a_line(indent + line):
            self._emit(indent, line)
            return
        self._emit(indent, f"{head} [")
        opened = len(self._lines)
        self._done = start
        for number, attribute in enumerate(attributes, 1):
            self._comments_before(attribute.start, indent + INDENT, opened)
            self._emit(indent + INDENT, parts[number - 1] + ("," if number < len(parts) else ""))
            self._done = attribute.end
        self._comments_before(end, indent + INDENT, opened)
        self._emit(indent, "]")

    def _attribute(self, attribute: Attribute) -> str:
        return f"{write_id(attribute.key)}={self._value(attribute)}"

    def _value(self, attribute: Attribute) -> str:
        """The value as its author wrote it, if Graphviz reads that the same way."""
        written = self._text[attribute.value_start : attribute.end]
        if written.startswith('"'):
            intact = _UNESCAPED_QUOTE.match(written, 1)
            return written if intact and intact.end() == len(written) else quote(str(attribute.value))
        if _GRAPHVIZ_BARE.fullmatch(written) and written.lower() not in _GRAPHVIZ_KEYWORDS:
            return written
        return quote(written)

    def _comments_before(self, offset: int, indent: str, opened: int = -1) -> None:
        """Write the comments that begin before an offset: beside the last line if that is their place, else alone."""
        for start, end in self._take_comments(offset):
            text = self._text[start:end].rstrip()
            if text.startswith("#"):
                # Graphviz knows these only in the first column.
                text = f"//{text[1:]}"
            beside = self._lines and start > self._done and not self._text[self._done : start].strip(" \t,;[")
            if beside and not self._after_line_comment:
                self._lines[-1] += f"  {text}"
            else:
                self._blank_line(start, opened)
                self._emit(indent, text)
            self._done = end
            self._after_line_comment = text.startswith("//")

    def _take_comments(self, offset: int) -> Iterator[tuple[int, int]]:
        while self._comments and self._comments[-1][0] < offset:
            yield self._comments.pop()

    def _blank_line(self, offset: int, opened: int) -> None:
        """One blank line where the source has some, but none behind an opening line."""
        if (
            self._lines
            and len(self._lines) != opened
            and self._text.count("\n", self._done, max(offset, self._done)) > 1
        ):
            self._lines.append("")

    def _emit(self, indent: str, text: str) -> None:
        self._lines.append(indent + text)
        self._after_line_comment = False


def _subgraph_head(statement: SubgraphStatement) -> str:
    if statement.name:
        return f"subgraph {write_id(statement.name.value)} {{"
    return "subgraph {" if statement.keyword else "{"
