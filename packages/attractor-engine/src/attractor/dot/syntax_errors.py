"""What is wrong with a DOT source that can't be read, and what its author may have meant.

Each function looks at the place where reading stopped and makes the error for the caller to raise.
"""

import re
from collections.abc import Sequence

from attractor.dot.source import Source
from attractor.dot.syntax import Attribute
from attractor.errors import DotSyntaxError

_QUOTE_HINT = 'a double quote inside a string is written \\"'
_UNCLOSED_STRING = ("this string is never closed", f"close it with a double quote; {_QUOTE_HINT}")
_UNCLOSED_COMMENT = ("this comment is never closed", "close it with */")
_NO_HTML = ("HTML values are not supported", "write the value as a string in double quotes")

_WORD = re.compile(r"(?:[\w.:/+@%~]|-(?!>)){1,40}")
_KEY = re.compile(r'((?:[^\W\d]\w*(?:\.\w+)*|"[^"\\]*(?:\\.[^"\\]*)*"))\s*(=\s*)?', re.DOTALL)

# What may stand where a statement begins or goes on: message and hint by the characters there.
_NO_TOKEN = {
    "--": ("undirected edges (--) are not supported", "write -> for an edge"),
    "/*": _UNCLOSED_COMMENT,
    '"': _UNCLOSED_STRING,
    ":": ("ports (node:port) are not supported", "name the node alone, or quote an id with a colon in it"),
    "<": ("HTML is not supported", "write ids and values in double quotes"),
    "#": ("# begins a comment only at the start of a line", "write // for a comment behind a statement"),
    "]": ("there is no open [ that this ] closes", ""),
    ",": ("statements are not separated by commas", "write each statement on its own line"),
}
# The same for the value behind an equals sign, and for an attribute in a list.
_NO_VALUE = {
    "": ("the file ends where a value should follow =", ""),
    "<": _NO_HTML,
    '"': _UNCLOSED_STRING,
    "'": ("strings are written in double quotes", "replace the single quotes"),
    **dict.fromkeys(",;]}", ("there is no value after =", 'write "" for an empty value')),
}
_NO_ATTRIBUTE = {
    "/*": _UNCLOSED_COMMENT,
    '"': _UNCLOSED_STRING,
    ",": ("an attribute should stand before this comma", ""),
    ";": ("an attribute should stand before this semicolon", ""),
    "#": ("# begins a comment only at the start of a line", "quote a value with # in it, or comment with //"),
}
_KEYWORD_HINT = 'a node of that name is written in double quotes, as in "node"'
_KEYWORDS = frozenset({"NODE", "EDGE", "GRAPH", "SUBGRAPH", "_DIGRAPH", "STRICT"})


def no_token(source: Source, at: int) -> DotSyntaxError:
    """Where a statement should begin or go on, something stands that is no word of the language."""
    text = source.text
    known = _NO_TOKEN.get(text[at : at + 2]) or _NO_TOKEN.get(text[at])
    if known:
        return source.error(known[0], at, known[1])
    word = _WORD.match(text, at)
    shown = word[0] if word else text[at]
    if not shown.isprintable():
        return source.error(f"{shown!a} can't stand here, and can't be seen", at, "remove it")
    start = at
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    if start < at:
        return source.error(
            f"{shown} can't be part of a bare id", at, f'quote the id: "{_short(text[start:at] + shown)}"'
        )
    if shown[0].isdigit():
        return source.error(f"{shown} can't be a bare id, because it begins with a digit", at, f'quote it: "{shown}"')
    return source.error(f"{shown!r} can't stand here", at)


def no_value(source: Source, at: int) -> DotSyntaxError:
    """Behind an equals sign, something stands that is no value."""
    known = _NO_VALUE.get(source.text[at : at + 1])
    if known:
        return source.error(known[0], at, known[1])
    word = _WORD.match(source.text, at)
    return source.error(f"{word[0] if word else source.text[at]} is not a value", at, "put the value in double quotes")


def bad_number(source: Source, start: int, end: int) -> DotSyntaxError:
    """A value begins like a number and is none."""
    return source.error(
        f"{_short(source.text[start:end])} is neither a number nor a duration",
        start,
        "units are ms, s, m, h and d; quote a value that is text",
    )


def no_attribute(source: Source, opened: int, at: int, before: Sequence[Attribute]) -> DotSyntaxError:
    """In a list opened at one offset, neither an attribute nor the closing bracket stands at another."""
    text = source.text
    key = _KEY.match(text, at)
    if key and key[2]:
        return no_value(source, key.end())
    if text[at : at + 1] in ("", "{", "}") or (key and text.startswith(("->", "[", "{"), key.end())):
        return source.error("this attribute list is never closed", opened, "close it with ]")
    if text.startswith("+", at):
        return source.error("strings can't be joined with +", at, "write one string; it may have several lines")
    if before and before[-1].end == at and text[at - 1] == '"':
        return _after_string(source, at, before[-1])
    if key:
        return _no_equals(source, at, key[1])
    known = _NO_ATTRIBUTE.get(text[at : at + 2]) or _NO_ATTRIBUTE.get(text[at])
    if known:
        return source.error(known[0], at, known[1])
    word = _WORD.match(text, at)
    shown = word[0] if word else text[at]
    if before and before[-1].end == at:
        return source.error(f"{shown} can't be part of a bare value", at, "put the whole value in double quotes")
    return source.error(f"{shown} can't be the bare name of an attribute", at, "put the name in double quotes")


def _after_string(source: Source, at: int, attribute: Attribute) -> DotSyntaxError:
    line = source.span(attribute.value_start, at).line
    begun = f" (it begins in line {line})" if line != source.span(at, at).line else ""
    return source.error(f"the string of {_short(attribute.key)} ends before this{begun}", at, _QUOTE_HINT)


def _no_equals(source: Source, at: int, name: str) -> DotSyntaxError:
    if source.text.startswith("-", at + len(name)):
        return source.error(
            f"{_short(name)}- can't be the bare name of an attribute", at, "put the name in double quotes"
        )
    if name.startswith('"'):
        return source.error("this string belongs to no attribute", at, f"attributes are key=value; {_QUOTE_HINT}")
    name = _short(name)
    return source.error(f"the attribute {name} has no value", at, f"write {name}=value; {_QUOTE_HINT}")


def _short(word: str) -> str:
    first_line = word.partition("\n")[0]
    return word if len(word) <= 40 and first_line == word else f"{first_line[:40]}..."


def unexpected(source: Source, kind: str, at: int, end: int, expected: set[str]) -> DotSyntaxError:
    """A token stands where the grammar has no place for it."""
    word = _short(source.text[at:end])
    if "_DIGRAPH" in expected:
        return _no_digraph(source, kind, at)
    if expected == {"$END"}:
        if kind in ("_DIGRAPH", "GRAPH", "STRICT"):
            return source.error("a file holds one graph, and here begins another", at, "put it in a file of its own")
        hint = "remove it" if kind == "_SEMICOLON" else "is there a } too many above?"
        return source.error(f"{word} stands behind the end of the graph", at, hint)
    if kind == "$END":
        return source.error(f"the file ends before {'a closing }' if 'CLOSE' in expected else '{'}", at)
    if "_EQUALS" in expected and "ID" not in expected:
        return source.error(
            "a node id with dots must be quoted, and an attribute has a value", at, 'write "a.b" or a.b=value'
        )
    if expected == {"ATTRIBUTES"}:
        return source.error("attributes in brackets follow the keywords node, edge and graph", at, _KEYWORD_HINT)
    if kind in _KEYWORDS:
        return source.error(
            f"{word} is a keyword and can't be used like this", at, f'a node of that name is written "{word}"'
        )
    if kind == "DOTTED":
        return source.error(f"{word} can't be a bare id, because of its dots", at, f'quote it: "{word}"')
    if "OPEN" in expected and "CLOSE" not in expected and "SUBGRAPH" not in expected:
        return source.error(f"{{ is missing before {word}", at, "a name of several words is written in double quotes")
    known = {
        "_EQUALS": ("= can't stand here", "attributes of nodes and edges go in brackets: [key=value]"),
        "ATTRIBUTES": ("this attribute list belongs to nothing", "write the node or edge that it is for before it"),
        "_ARROW": ("no node stands before this arrow", ""),
    }.get(kind, (f"a node should stand here, not {word}" if "ID" in expected else f"{word} can't stand here", ""))
    return source.error(known[0], at, known[1])


def _no_digraph(source: Source, kind: str, at: int) -> DotSyntaxError:
    example = "a pipeline is written: digraph name { ... }"
    if kind == "ID" and source.text[at : at + 7].lower() == "digraph":
        return source.error("keywords are written in lower case", at, "write digraph")
    message, hint = {
        "$END": ("the file is empty", example),
        "STRICT": ("strict graphs are not supported", "remove the word strict"),
        "GRAPH": ("undirected graphs are not supported", "write digraph, and -> for edges"),
    }.get(kind, ("a pipeline begins with the word digraph", example))
    return source.error(message, at, hint)
