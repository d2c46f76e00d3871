"""The model stylesheet (section 8): model settings for nodes by class, shape or id.

* { llm_model: claude-sonnet-4-5; llm_provider: anthropic }
.code { llm_model: claude-opus-4-6 }
#review { reasoning_effort: high }
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from attractor.errors import StylesheetSyntaxError
from attractor.graph import Graph, Node

PROPERTIES = ("llm_model", "llm_provider", "reasoning_effort")
PROPERTY_SYNONYMS: Mapping[str, str] = {"model": "llm_model", "provider": "llm_provider"}
"""Names that other engines use, and the specification's."""

_GRAMMAR = r"""
stylesheet: rule*
rule: selector ("," selector)* "{" ";"* (declaration (";"+ declaration)* ";"*)? "}"
selector: STAR | ID_SELECTOR | CLASS_SELECTOR | SHAPE
declaration: NAME (":" | "=") (STRING | BARE)

STAR: "*"
ID_SELECTOR: /#(?:[^\W\d][\w-]*|"[^"]*")/
CLASS_SELECTOR: /\.[\w-]+/
SHAPE: /[^\W\d]\w*/
NAME: /[^\W\d][\w-]*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
BARE: /[^\s;{}"']+/
COMMENT: /\/\*.*?\*\//s | /\/\/[^\n]*/
%ignore COMMENT
%ignore /\s+/
"""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPECIFICITY = {"*": 0, "shape": 1, "class": 2, "id": 3}


@dataclass(frozen=True, slots=True)
class Selector:
    """Which nodes a rule is for; `kind` is `*`, `shape`, `class` or `id`."""

    kind: str
    name: str = ""

    @property
    def specificity(self) -> int:
        """0 for all nodes, 1 for a shape, 2 for a class, 3 for one node."""
        return _SPECIFICITY[self.kind]

    def matches(self, node: Node) -> bool:
        match self.kind:
            case "shape":
                return node.shape == self.name
            case "class":
                return self.name in node.classes
            case "id":
                return node.id == self.name
        return True

    def __str__(self) -> str:
        return {"*": "*", "shape": self.name, "class": f".{self.name}", "id": f"#{self.name}"}[self.kind]


@dataclass(frozen=True, slots=True)
class Rule:
    """One selector and its declarations; `line` is 1-based within the stylesheet."""

    selector: Selector
    declarations: Mapping[str, str]
    line: int = 1


@dataclass(frozen=True, slots=True)
class Stylesheet:
    """Rules in the order written. Declarations of unknown properties are kept, for lint to complain about."""

    rules: tuple[Rule, ...] = ()

    def properties_for(self, node: Node) -> dict[str, str]:
        """What the rules say about a node: higher specificity wins, then the later rule."""
        found: dict[str, str] = {}
        for rule in sorted(self.rules, key=lambda rule: rule.selector.specificity):
            if rule.selector.matches(node):
                found |= rule.declarations
        return {name: found[name] for name in PROPERTIES if name in found}

    def apply(self, graph: Graph) -> Graph:
        """A graph whose nodes have the properties that they don't set themselves."""
        if not self.rules:
            return graph
        return graph.with_nodes(self._styled(graph))

    def _styled(self, graph: Graph) -> Iterator[Node]:
        for node in graph.nodes.values():
            missing = {key: value for key, value in self.properties_for(node).items() if not node.text(key)}
            if missing:
                yield node.with_attrs(missing)


def parse_stylesheet(text: str) -> Stylesheet:
    """Read a stylesheet; an empty one has no rules. Raises StylesheetSyntaxError."""
    if not text.strip():
        return Stylesheet()
    try:
        parsed: Any = _grammar().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    stylesheet: Stylesheet = parsed
    return stylesheet


def _syntax_error(text: str, error: UnexpectedInput) -> StylesheetSyntaxError:
    if isinstance(error, UnexpectedCharacters):
        at, expected = error.pos_in_stream or 0, error.allowed or set()
    else:
        assert isinstance(error, UnexpectedToken)
        at, expected = len(text) if error.token.type == "$END" else error.token.start_pos or 0, error.expected
    if "BARE" in expected:
        wanted = "a value"
    elif "COLON" in expected:
        wanted = ": and a value"
    elif "NAME" in expected:
        wanted = "a property or }"
    elif "STAR" in expected:
        wanted = "a selector (*, shape, .class or #node)"
    elif "LBRACE" in expected:
        wanted = "{"
    else:
        wanted = "; or }"
    before = text[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
    found = f"{text[at]!r}" if at < len(text) else "the end"
    return StylesheetSyntaxError(
        f"the stylesheet can't be read: in line {line}, column {column} stands {found} instead of {wanted}",
        line=line,
        column=column,
    )


@cache
def _grammar() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", start="stylesheet", transformer=_Rules())


class _Rules(Transformer[Token, Stylesheet]):
    """Makes a stylesheet of the parse."""

    def stylesheet(self, rules: list[list[Rule]]) -> Stylesheet:
        return Stylesheet(tuple(rule for group in rules for rule in group))

    def rule(self, children: list[Any]) -> list[Rule]:
        declarations = dict(child for child in children if not isinstance(child[0], Selector))
        return [Rule(child[0], declarations, child[1]) for child in children if isinstance(child[0], Selector)]

    def selector(self, children: list[Token]) -> tuple[Selector, int]:
        token = children[0]
        line = token.line or 1
        match token.type:
            case "ID_SELECTOR":
                return Selector("id", token[1:].strip('"')), line
            case "CLASS_SELECTOR":
                return Selector("class", token[1:]), line
            case "SHAPE":
                return Selector("shape", str(token)), line
        return Selector("*"), line

    def declaration(self, children: list[Token]) -> tuple[str, str]:
        name, value = children
        text = str(value)
        if value.type == "STRING":
            text = _ESCAPE.sub(r"\1", text[1:-1])
        return PROPERTY_SYNONYMS.get(name, str(name)), text
