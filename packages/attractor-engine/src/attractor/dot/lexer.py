"""DOT source to tokens, for the grammar in grammar.lark.

One token holds a whole attribute list, which is most of a pipeline file: reading a list takes one match of one regular
expression an attribute. Quantifiers are possessive (`*+`), so that no input makes matching backtrack; those of a group
with alternatives are atomic groups instead, `(?>(?:a|b)*)`, as Python before 3.11.5 gets `(?:a|b)*+` wrong.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from lark.lexer import Lexer

from attractor.dot import syntax_errors
from attractor.dot.source import Source
from attractor.dot.syntax import Attribute, Token
from attractor.graph import Duration, Value

MAX_DEPTH = 100
"""Subgraphs inside subgraphs beyond this are refused."""

# White space and comments. `#` begins a comment only where it is the first thing on its line, as in DOT.
_BLOCK_COMMENT = r"/\*(?>(?:[^*]++|\*(?!/))*)\*/"
_TRIVIA = rf"(?>(?:[ \t\r\f\v]++|\n(?:[ \t]*+\#[^\n]*+)?+|//[^\n]*+|{_BLOCK_COMMENT})*)"
_BODY = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
# The same, and what stands between '" and "': JSON in shell quotes whose double quotes lack their backslash.
_TOLERANT_BODY = r"""[^"\\]*+(?>(?:(?:\\.|(?<=')"(?=[^\s,;\]}])[^'\n]*?"(?='))[^"\\]*+)*)"""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_FIRST_LINE_COMMENT = re.compile(r"[ \t]*#[^\n]*")
_BOOLEANS: dict[str, Value] = {"true": True, "false": False}
_KEYWORDS = {
    "digraph": "_DIGRAPH",
    "graph": "GRAPH",
    "node": "NODE",
    "edge": "EDGE",
    "subgraph": "SUBGRAPH",
    "strict": "STRICT",
}
_MARKS = {"->": "_ARROW", ";": "_SEMICOLON", "{": "OPEN", "}": "CLOSE"}


class _Patterns(NamedTuple):
    """The three regular expressions that read all there is; each skips white space and comments."""

    token: re.Pattern[str]
    attribute: re.Pattern[str]
    value: re.Pattern[str]

    @classmethod
    def compile(cls, body: str) -> "_Patterns":
        """`body` matches the inside of a string."""
        value = (
            rf'(?:"(?P<string>{body})"|(?P<bare>[^\W\d][\w.:-]*+)'
            r"|(?P<number>-?(?:\d++(?:\.\d*+)?+|\.\d++)[a-z]*+))"
        )
        return cls(
            re.compile(
                rf"{_TRIVIA}(?:(?P<ID>[^\W\d]\w*+)(?P<DOTTED>(?:\.\w++)++)?+|(?P<MARK>->|[;{{}}])|(?P<LIST>\[)"
                rf'|(?P<QUOTED>"{body}")|(?P<NUMBER>(?:\d++(?:\.\d*+)?+|\.\d++)(?![\w.]))|(?P<EQUALS>=)|(?P<END>\Z))',
                re.DOTALL,
            ),
            re.compile(
                rf'{_TRIVIA}(?:(?P<key>[^\W\d]\w*+(?:\.\w++)*+)|"(?P<quoted>{body})"){_TRIVIA}={_TRIVIA}{value}'
                rf"{_TRIVIA}(?>(?:[,;]{_TRIVIA})*)",
                re.DOTALL,
            ),
            re.compile(_TRIVIA + value, re.DOTALL),
        )


_STRICT = _Patterns.compile(_BODY)
_TOLERANT = _Patterns.compile(_TOLERANT_BODY)
_COMMENT, _TOLERANT_COMMENT = (
    re.compile(
        rf'"{body}"|(?P<comment>//[^\n]*+|{_BLOCK_COMMENT})|^[ \t]*+(?P<line>\#[^\n]*+)',
        re.DOTALL | re.MULTILINE,
    )
    for body in (_BODY, _TOLERANT_BODY)
)
_skip_trivia = re.compile(_TRIVIA, re.DOTALL).match


class DotLexer(Lexer):
    """Plugs `tokens()` into lark, which hands on the source that it was given to parse."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, source: Source) -> Iterator[Token]:  # type: ignore[override]
        return tokens(source)


def tokens(source: Source) -> Iterator[Token]:
    """The tokens of a source; raises DotSyntaxError where there is none."""
    patterns = _TOLERANT if source.tolerant else _STRICT
    text, match, depth = source.text, patterns.token.match, 0
    first = _FIRST_LINE_COMMENT.match(text)
    at = first.end() if first else 0
    while True:
        found = match(text, at)
        if found is None:
            raise syntax_errors.no_token(source, _after_trivia(text, at))
        kind = found.lastgroup or ""
        start, at = found.span(kind)
        if kind == "ID":
            word = found["ID"]
            yield Token(_KEYWORDS.get(word, "ID"), word, start, at)
        elif kind == "MARK":
            mark = found["MARK"]
            depth += (mark == "{") - (mark == "}")
            if depth > MAX_DEPTH:
                raise source.error(f"subgraphs are nested more than {MAX_DEPTH} deep", start)
            yield Token(_MARKS[mark], mark, start, at)
        elif kind == "LIST":
            attributes, at = _read_attributes(source, patterns, at)
            yield Token("ATTRIBUTES", attributes, start, at)
        elif kind == "QUOTED":
            yield Token("ID", _unescape(source, start + 1, at - 1), start, at)
        elif kind == "NUMBER":
            yield Token("ID", text[start:at], start, at)
        elif kind == "EQUALS":
            yield Token("_EQUALS", "=", start, at)
            value = patterns.value.match(text, at)
            if value is None:
                raise syntax_errors.no_value(source, _after_trivia(text, at))
            content, start, at = _read_value(source, value)
            yield Token("VALUE", content, start, at)
        elif kind == "DOTTED":
            start = found.start("ID")
            yield Token("DOTTED", text[start:at], start, at)
        else:
            return


def _read_attributes(source: Source, patterns: _Patterns, at: int) -> tuple[list[Attribute], int]:
    """The attributes of a list that is open at an offset, and the offset behind its closing bracket."""
    text, match = source.text, patterns.attribute.match
    opened = at - 1
    attributes = []
    while found := match(text, at):
        at = found.end()
        key, start = found["key"], found.start("key")
        if key is None:
            start = found.start("quoted") - 1
            key = _unescape(source, start + 1, found.end("quoted"))
        value, value_start, end = _read_value(source, found)
        attributes.append(Attribute(key, value, start, value_start, end))
    if not text.startswith("]", at):
        at = _after_trivia(text, at)
        if not text.startswith("]", at):
            raise syntax_errors.no_attribute(source, opened, at, attributes)
    return attributes, at + 1


def _read_value(source: Source, found: re.Match[str]) -> tuple[Value, int, int]:
    """The value that a pattern found, and its offsets, quotes included."""
    kind = found.lastgroup or ""
    start, end = found.span(kind)
    if kind == "string":
        return _unescape(source, start, end), start - 1, end + 1
    text = found[kind]
    if kind == "bare":
        return _BOOLEANS.get(text, text), start, end
    try:
        if text[-1].isalpha():
            # A negative duration has the syntax of one, but no meaning: it stays text, and lint complains.
            return (text if text[0] == "-" and Duration(text[1:]) else Duration(text)), start, end
        return (_finite(text) if "." in text else int(text)), start, end
    except ValueError:
        raise syntax_errors.bad_number(source, start, end) from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _unescape(source: Source, start: int, end: int) -> str:
    """The inside of a string with its escapes resolved; those outside section 2.2 stay as they are, with a warning."""
    body = source.text[start:end]
    if "\\" not in body and '"' not in body:
        return body
    unknown = []

    def resolve(escape: re.Match[str]) -> str:
        character = _ESCAPES.get(escape[1])
        if character is None:
            unknown.append(escape)
            return escape[0]
        return character

    value = _ESCAPE.sub(resolve, body)
    if unknown:
        names = ", ".join(
            dict.fromkeys(escape[0] if escape[1] != "\n" else "backslash, line end" for escape in unknown)
        )
        at = start + unknown[0].start()
        source.warn(
            "unknown_escape",
            f"{names} is no escape of a DOT string; it is kept as it stands",
            at,
            at + 2,
            fix='write \\\\ for a backslash; the other escapes are \\n, \\t and \\"',
        )
    if (quote := _ESCAPE.sub("  ", body).find('"')) >= 0:
        source.warn(
            "unescaped_quote",
            "double quotes inside a string lack their backslash; they are read as text",
            start + quote,
            start + quote + 1,
            fix='write \\" for a double quote inside a string',
        )
    return value


def comments(source: Source) -> Iterator[tuple[int, int]]:
    """Where comments stand in a source that can be read: start and end of each."""
    pattern = _TOLERANT_COMMENT if source.tolerant else _COMMENT
    for found in pattern.finditer(source.text):
        if found.lastgroup:
            yield found.span(found.lastgroup)


def _after_trivia(text: str, at: int) -> int:
    found = _skip_trivia(text, at)
    return found.end() if found else at
