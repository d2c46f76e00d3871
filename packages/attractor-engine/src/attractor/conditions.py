"""Edge conditions (section 10): parsed once, evaluated many times.

    outcome=success && context.tests_passed=true
    (outcome=fail || outcome=retry) && !context.gave_up
    tool.output contains "no space left"
    context.score >= 0.8

The operators of section 10.2, and those that section 10.7 foresees: `||`, `!`, parentheses, `contains`, `matches` and
numeric comparison. `==` means `=`. A key alone holds if its value is neither empty nor false.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from attractor.errors import ConditionSyntaxError
from attractor.outcome import Outcome
from attractor.patterns import PatternError, compile_pattern

OUTCOME_SYNONYMS: Mapping[str, str] = {"succeeded": "success", "failed": "fail"}
"""Words that other engines use for a status, and the specification's."""

MAX_NESTING = 200

_GRAMMAR = r"""
?condition: conjunction | condition "||" conjunction   -> either
?conjunction: clause | conjunction "&&" clause         -> both
?clause: "(" condition ")"
    | "!" clause                 -> negation
    | KEY                        -> truth
    | KEY OPERATOR literal       -> comparison
literal: STRING | WORDS

OPERATOR: "==" | "=" | "!=" | "<=" | ">=" | "<" | ">" | /contains\b/ | /matches\b/
KEY: /\$?[^\W\d][\w:-]*(?:\.[\w:-]+)*/
STRING: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
WORDS: /(?:[^\s&|()!=<>"']|&(?!&)|\|(?!\|)|!(?!=))+(?:[ \t]+(?:[^\s&|()!=<>"']|&(?!&)|\|(?!\|)|!(?!=))+)*/
%ignore /\s+/
"""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIGNS: Mapping[str, str] = {"and": "&&", "or": "||", "not": "!"}
_CONNECTIVE = re.compile(r"\s(and|or|not)\s", re.IGNORECASE)


class Lookup(Protocol):
    """Where a condition finds context values: a Context, or any mapping."""

    def get(self, key: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One clause: `key operator literal`, or a key alone (then `operator` is empty)."""

    key: str
    operator: str = ""
    literal: str = ""

    def evaluate(self, outcome: Outcome, context: Lookup) -> bool:
        value = _resolve(self.key, outcome, context)
        text = _to_text(value)
        match self.operator:
            case "":
                return text not in ("", "false")
            case "=":
                return self._equals(text, outcome)
            case "!=":
                return not self._equals(text, outcome)
            case "contains":
                return _contains(value, text, self.literal)
            case "matches":
                return compile_pattern(self.literal).search(text)
        left, right = _to_number(text), _to_number(self.literal)
        return left is not None and right is not None and _ORDER[self.operator](left, right)

    def _equals(self, text: str, outcome: Outcome) -> bool:
        if self.key != "outcome":
            return text == self.literal
        # A stage that reported a word of the pipeline's own answers to it, and to its status as well.
        literal = OUTCOME_SYNONYMS.get(self.literal, self.literal)
        return outcome.status.value == literal or (outcome.word != "" and outcome.word in (literal, self.literal))


@dataclass(frozen=True, slots=True)
class Negation:
    """`!part`."""

    part: "Expression"

    def evaluate(self, outcome: Outcome, context: Lookup) -> bool:
        return not self.part.evaluate(outcome, context)


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`part && part`, left to right; true without parts."""

    parts: tuple["Expression", ...] = ()

    def evaluate(self, outcome: Outcome, context: Lookup) -> bool:
        return all(part.evaluate(outcome, context) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`part || part`, left to right."""

    parts: tuple["Expression", ...]

    def evaluate(self, outcome: Outcome, context: Lookup) -> bool:
        return any(part.evaluate(outcome, context) for part in self.parts)


Expression = Comparison | Negation | Conjunction | Disjunction


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition. `keys` are those it reads, in order, each once."""

    text: str
    expression: Expression
    keys: tuple[str, ...]

    def evaluate(self, outcome: Outcome, context: Lookup) -> bool:
        """Whether the condition holds for the outcome of the node it leaves and the context after it."""
        return self.expression.evaluate(outcome, context)

    def comparisons(self) -> Iterator[Comparison]:
        """The clauses, in order."""
        return _comparisons(self.expression)


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Condition:
    """Read a condition; an empty one always holds. Raises ConditionSyntaxError."""
    if not text.strip():
        return Condition(text, Conjunction(), ())
    if text.count("(") + text.count("!") > MAX_NESTING:
        raise ConditionSyntaxError(f"the condition has more than {MAX_NESTING} parentheses and negations")
    try:
        expression: Any = _grammar().parse(text)
    except VisitError as error:
        if isinstance(error.orig_exc, ConditionSyntaxError):
            raise error.orig_exc from None
        raise
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    keys = dict.fromkeys(comparison.key for comparison in _comparisons(expression))
    return Condition(text, expression, tuple(keys))


def _comparisons(expression: Expression) -> Iterator[Comparison]:
    match expression:
        case Comparison():
            yield expression
        case Negation(part):
            yield from _comparisons(part)
        case Conjunction(parts) | Disjunction(parts):
            for part in parts:
                yield from _comparisons(part)


def _syntax_error(text: str, error: UnexpectedInput) -> ConditionSyntaxError:
    if isinstance(error, UnexpectedCharacters):
        at, expected = error.pos_in_stream or 0, error.allowed or set()
    else:
        assert isinstance(error, UnexpectedToken)
        at, expected = len(text) if error.token.type == "$END" else error.token.start_pos or 0, error.expected
    opened = _STRING.sub("", text[:at])
    close = "&&, || or " + (")" if opened.count("(") > opened.count(")") else "the end")
    if "WORDS" in expected:
        wanted = "a value"
    elif "KEY" in expected:
        wanted = "a key such as outcome or context.name"
    elif "OPERATOR" in expected:
        wanted = f"an operator (=, !=, <, <=, >, >=, contains, matches), {close}"
    else:
        wanted = f"{close}; a value with other characters is written in quotes"
    found = f"{text[at]!r}" if at < len(text) else "the end"
    if word := _CONNECTIVE.search(f" {opened} "):
        wanted += f"; write {_SIGNS[word[1].lower()]} for {word[1]!r}"
    return ConditionSyntaxError(
        f"the condition {_short(text)!r} can't be read: at column {at + 1} stands {found} instead of {wanted}",
        column=at + 1,
    )


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."


@cache
def _grammar() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", start="condition", transformer=_Expressions())


class _Expressions(Transformer[Token, Expression]):
    """Makes an expression of each rule."""

    def either(self, parts: list[Expression]) -> Expression:
        first, second = parts
        return Disjunction((*(first.parts if isinstance(first, Disjunction) else (first,)), second))

    def both(self, parts: list[Expression]) -> Expression:
        first, second = parts
        return Conjunction((*(first.parts if isinstance(first, Conjunction) else (first,)), second))

    def negation(self, parts: list[Expression]) -> Expression:
        return Negation(parts[0])

    def truth(self, keys: list[Token]) -> Expression:
        return Comparison(_key(keys[0]))

    def comparison(self, children: list[Token]) -> Expression:
        key, sign, literal = children
        text = str(literal)
        if literal.type == "STRING":
            text = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), text[1:-1])
        elif word := _CONNECTIVE.search(text):
            column = (literal.start_pos or 0) + word.start() + 2
            raise ConditionSyntaxError(
                f"write {_SIGNS[word[1].lower()]} for {word[1]!r}, or put the value in quotes", column=column
            )
        if sign == "matches":
            try:
                compile_pattern(text)
            except PatternError as error:
                raise ConditionSyntaxError(
                    f"the pattern {_short(text)!r} can't be read: {error}",
                    column=(literal.start_pos or 0) + 1 + error.at,
                ) from None
        elif sign in _ORDER and _to_number(text) is None:
            raise ConditionSyntaxError(
                f"{sign} compares numbers, and {_short(text)!r} is none", column=(literal.start_pos or 0) + 1
            )
        return Comparison(_key(key), "=" if sign == "==" else str(sign), text)

    def literal(self, children: list[Token]) -> Token:
        return children[0]


def _key(token: Token) -> str:
    # Other engines write context keys as $key.
    return str(token).removeprefix("$")


def _resolve(key: str, outcome: Outcome, context: Lookup) -> Any:
    """What a key stands for (section 10.4); None if it is missing."""
    if key == "outcome":
        return outcome.word or outcome.status.value
    if key == "preferred_label":
        return outcome.preferred_label
    value = context.get(key)
    if value is None and key.startswith("context."):
        value = context.get(key.removeprefix("context."))
    return value


def _to_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case Mapping() | list() | tuple():
            return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _contains(value: Any, text: str, literal: str) -> bool:
    """Membership for lists and mappings, else whether the text occurs."""
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        return any(_to_text(item) == literal for item in value)
    return literal in text


def _to_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
