"""Edge conditions (section 10). Tests named dod_11_9 are the items of section 11.9."""

import re
import time
from typing import Any

import pytest
from attractor.conditions import MAX_NESTING, parse_condition
from attractor.errors import ConditionSyntaxError
from attractor.outcome import Outcome, StageStatus
from attractor.patterns import PatternError, compile_pattern
from hypothesis import assume, given, settings
from hypothesis import strategies as st

SUCCESS = Outcome.success()


def check(text: str, outcome: Outcome = SUCCESS, /, **context: Any) -> bool:
    return parse_condition(text).evaluate(outcome, {key.replace("__", "."): value for key, value in context.items()})


def test_dod_11_9_equals() -> None:
    assert check("outcome=success")
    assert not check("outcome=fail")
    assert not check("outcome=Success")
    assert check("context.name=Ann", name="Ann")
    assert not check("context.name=ann", name="Ann")


def test_dod_11_9_not_equals() -> None:
    assert check("outcome!=fail")
    assert not check("outcome != success")
    assert check("context.loop_state!=exhausted", loop_state="running")


def test_dod_11_9_conjunction() -> None:
    assert check("outcome=success && context.a=1 && context.b=x", a=1, b="x")
    assert not check("outcome=success && context.a=1 && context.b=y", a=1, b="x")


@pytest.mark.parametrize("status", list(StageStatus))
def test_dod_11_9_outcome_is_the_status(status: StageStatus) -> None:
    outcome = Outcome(status=status)
    assert [other for other in StageStatus if check(f"outcome={other.value}", outcome)] == [status]


def test_dod_11_9_preferred_label() -> None:
    assert check("preferred_label=Fix", Outcome.success(preferred_label="Fix"))
    assert check("preferred_label=Request Changes", Outcome.success(preferred_label="Request Changes"))
    assert not check("preferred_label=Fix")


def test_dod_11_9_context_keys() -> None:
    assert check("context.a=1", context__a=1)
    assert check("context.a=1", a=1)
    assert check("context.a=full", context__a="full", a="short")
    assert check("tool.output=x", tool__output="x")
    assert not check("context.missing=x")
    assert check("context.missing!=x")
    assert check('context.missing=""')
    assert not check('context.missing!=""')
    assert check('context.none=""', none=None)


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_dod_11_9_empty_always_holds(text: str) -> None:
    assert check(text)
    assert check(text, Outcome.fail("no"))
    assert parse_condition(text).keys == ()


def test_literals_are_compared_exactly_once_unquoted() -> None:
    assert check('outcome="success"')
    assert check("context.state='in progress'", state="in progress")
    assert check("context.state=in progress", state="in progress")
    assert not check("context.state=in", state="in progress")
    assert check(r'context.x="a \"b\" \\ c"', x='a "b" \\ c')
    assert check("context.x=\"'quoted'\"", x="'quoted'")
    assert check('context.x="a && b || (c)"', x="a && b || (c)")
    assert check("context.x=R&D", x="R&D")


def test_values_compare_as_text() -> None:
    assert check("context.ok=true", ok=True)
    assert check("context.ok=false", ok=False)
    assert check("context.ok=true", ok="true")
    assert not check("context.ok=True", ok=True)
    assert check("context.n=3", n=3)
    assert check("context.f=0.5", f=0.5)
    assert check('context.list="[1, \\"a\\"]"', list=[1, "a"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("x", True), (0, True), (False, False), ("false", False), ("", False), (None, False)],
)
def test_a_key_alone(value: Any, expected: bool) -> None:
    assert check("context.flag", flag=value) is expected
    assert check("!context.flag", flag=value) is not expected


def test_words_of_other_engines() -> None:
    assert check("outcome=succeeded")
    assert check("outcome==success")
    assert check("outcome=failed", Outcome.fail("no"))
    assert check("$last_status = ok", last_status="ok")
    assert not check("context.x=succeeded", x="success")


def test_a_word_of_the_pipelines_own() -> None:
    failed = Outcome.fail("needs_dod", word="needs_dod", terminal=True)
    assert check("outcome=needs_dod", failed)
    assert check("outcome=fail", failed)
    assert check("outcome=failed", failed)
    assert not check("outcome!=needs_dod", failed)
    assert not check("outcome=success", failed)
    passed = Outcome.success(word="skip")
    assert check("outcome=skip && outcome=success", passed)
    assert check("outcome contains ki", passed)


def test_alternatives_negation_and_parentheses() -> None:
    assert check("outcome=fail || outcome=success")
    assert check("outcome=success || outcome=fail && context.no")
    assert not check("(outcome=success || outcome=fail) && context.no")
    assert check("!(outcome=fail || context.no) && !outcome=fail")
    assert check('!tool.output contains "id"', tool__output="[]")


def test_contains() -> None:
    assert check('tool.output contains "\\"id\\""', tool__output='[{"id": 1}]')
    assert check("context.text contains READY", text="PLAN_READY now")
    assert check("context.items contains a", items=["a", "b"])
    assert not check("context.items contains a", items=["ab"])
    assert check("context.map contains k", map={"k": 1})
    assert not check("context.missing contains x")


def test_numbers() -> None:
    assert check("context.n >= 3 && context.n<4 && context.n > 2 && context.n<=3", n=3)
    assert check("context.n > 9", n="10")
    assert not check("context.n < 5", n="many")
    assert not check("context.missing < 5")


def test_matches() -> None:
    assert check('context.text matches "^tests: \\d+ passed$"', text="tests: 12 passed")
    assert check("context.text matches passed", text="12 passed")
    assert not check('context.text matches "^passed"', text="12 passed")


def test_keys_are_listed_in_order() -> None:
    assert parse_condition("outcome=success && (a.b > 1 || !c) && outcome!=fail").keys == ("outcome", "a.b", "c")


def test_parsing_is_remembered() -> None:
    assert parse_condition("outcome=success") is parse_condition("outcome=success")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("=x", 1, "a key"),
        ("outcome=", 9, "a value"),
        ("outcome=success &&", 19, "a key"),
        ("&& outcome=success", 1, "a key"),
        ("a=b=c", 4, "in quotes"),
        ("(outcome=fail", 14, ")"),
        ("outcome=fail)", 13, "the end"),
        ("a b", 3, "an operator"),
        ("outcome=success and a=b", 20, ""),
        ("outcome=success or gave_up", 17, "write ||"),
        ('a="x', 3, "a value"),
        ("a < b", 5, "compares numbers"),
        ('a matches "(x"', 11, "never closed"),
        ("a matches '\\1'", 12, ""),
        ("!" * 300 + "a", 1, "negations"),
    ],
)
def test_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(ConditionSyntaxError) as caught:
        parse_condition(text)
    assert message in str(caught.value)
    assert caught.value.column == column or message == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outcome success", "matches), &&, || or the end"),
        ("outcome=success & x=1", "instead of &&, || or the end"),
        ('x contains "(" y', "instead of &&, || or the end"),
        ("(outcome=success", "instead of &&, || or )"),
        ("outcome=success and context.x=1", "write && for 'and'"),
        ("outcome=success or outcome=retry", "write || for 'or'"),
        ("not outcome=success", "write ! for 'not'"),
        ('context.x="this and that" y', "written in quotes"),
        ("context.=1", "at column 8 stands '.'"),
        ("context.a.=1", "at column 10 stands '.'"),
        ("a..b=1", "at column 2 stands '.'"),
    ],
)
def test_a_refusal_says_what_could_stand_there(text: str, said: str) -> None:
    with pytest.raises(ConditionSyntaxError) as caught:
        parse_condition(text)
    assert said in str(caught.value)
    assert ("; write" in str(caught.value)) == (said.startswith("write"))


def test_deep_nesting_within_the_bound() -> None:
    assert check("(" * (MAX_NESTING // 2) + "outcome=success" + ")" * (MAX_NESTING // 2))
    assert check(" && ".join(["outcome=success"] * 5000))


@given(st.text(alphabet="ab=!<>&|()\"'. contains$12\\", max_size=30))
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ConditionSyntaxError as refused:
        error = refused
    else:
        assert condition.evaluate(SUCCESS, {}) in (True, False)
        return
    assert 1 <= error.column <= len(text) + 1


ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\s", r"\b", r"\B", "^", "$", r"\n", "[^a-c_]", r"\."]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(st.sampled_from(["", "(?i)", "(?m)", "(?s)"]), PATTERNS, st.text(alphabet="abAB1_ .\n", max_size=8))
@settings(max_examples=500)
def test_patterns_agree_with_the_standard_library(flags: str, pattern: str, text: str) -> None:
    # In an empty text, \\B matches only from Python 3.14 on.
    assume(text or r"\B" not in pattern)
    assert compile_pattern(flags + pattern).search(text) == bool(re.search(flags + pattern, text))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*a.*b.*c.*d)+x", "(a?){30}a{30}z"])
def test_patterns_take_linear_time(pattern: str) -> None:
    begun = time.process_time()
    assert not compile_pattern(pattern).search("a" * 50_000 + "!")
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "pattern", ["(", ")", "a**", "*a", r"\1", "(?=x)", "[a", "a{3,1}", "a{99999}", "\\", "(?x)a", "(" * 99]
)
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert 0 <= caught.value.at <= len(pattern)
