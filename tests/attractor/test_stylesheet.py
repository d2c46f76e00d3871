"""The model stylesheet (section 8). Tests named dod_11_10 are the items of section 11.10."""

import pytest
from attractor.dot import parse_dot
from attractor.errors import StylesheetSyntaxError
from attractor.graph import Node
from attractor.stylesheet import parse_stylesheet
from attractor.transforms import apply_transforms
from hypothesis import given
from hypothesis import strategies as st


def styled(stylesheet: str, attributes: str = "") -> Node:
    source = f"digraph {{ model_stylesheet='' n [class=\"code, fast\"{attributes}] }}".replace("''", f'"{stylesheet}"')
    return apply_transforms(parse_dot(source)).nodes["n"]


def test_dod_11_10_is_read_from_the_graph() -> None:
    node = styled("* { llm_model: m1; llm_provider: p1; reasoning_effort: low; }")
    assert (node.llm_model, node.llm_provider, node.reasoning_effort) == ("m1", "p1", "low")


def test_dod_11_10_selects_by_shape() -> None:
    assert styled("box { llm_model: m }").llm_model == "m"
    assert styled("hexagon { llm_model: m }").llm_model == ""


def test_dod_11_10_selects_by_class() -> None:
    assert styled(".fast { llm_model: m }").llm_model == "m"
    assert styled(".slow { llm_model: m }").llm_model == ""


def test_dod_11_10_class_of_a_subgraph() -> None:
    graph = parse_dot('digraph { model_stylesheet=".loop-a { llm_model: m }" subgraph { label="Loop A" n } }')
    assert apply_transforms(graph).nodes["n"].llm_model == "m"


def test_dod_11_10_selects_by_id() -> None:
    assert styled("#n { reasoning_effort: high }").reasoning_effort == "high"
    assert styled("#m { reasoning_effort: high }").reasoning_effort == ""


def test_dod_11_10_specificity() -> None:
    rules = ["#n { llm_model: id }", ".code { llm_model: class }", "box { llm_model: shape }", "* { llm_model: all }"]
    for first, winner in enumerate(["id", "class", "shape", "all"]):
        assert styled(" ".join(rules[first:])).llm_model == winner
        assert styled(" ".join(reversed(rules[first:]))).llm_model == winner


def test_later_rules_of_equal_specificity_win() -> None:
    assert styled(".code { llm_model: a } .fast { llm_model: b }").llm_model == "b"
    assert styled("* { llm_model: a; llm_provider: p } * { llm_model: b }").llm_provider == "p"


def test_dod_11_10_node_attributes_win() -> None:
    assert styled("#n { llm_model: id; llm_provider: p }", ", llm_model=own").llm_model == "own"
    assert styled("#n { llm_model: id; llm_provider: p }", ", llm_model=own").llm_provider == "p"


@pytest.mark.parametrize(
    "text",
    [
        '* { llm_model: "m x" }',
        "* { llm_model = 'm x' ; }",
        '*{model="m x"}',
        "/* all */ * { // these\n model : 'm x';; }",
        "hexagon, box { llm_model: 'm x' }",
    ],
)
def test_tolerated_forms(text: str) -> None:
    (*_, rule) = parse_stylesheet(text).rules
    assert rule.declarations == {"llm_model": "m x"}


def test_values_may_have_punctuation() -> None:
    (rule,) = parse_stylesheet("* { llm_model: qwen/qwen3:8b-q4_K.m }").rules
    assert rule.declarations == {"llm_model": "qwen/qwen3:8b-q4_K.m"}


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("* {", 1, 4, "a property or }"),
        ("* { llm_model gpt }", 1, 15, ": and a value"),
        ("* { llm_model: ; }", 1, 16, "a value"),
        ("* {\n  llm_model: a b\n}", 2, 16, "; or }"),
        ("{}", 1, 1, "a selector"),
        ("a b {}", 1, 3, "{"),
        ("* {}}", 1, 5, "a selector"),
        ("* { llm_model: \"x }", 1, 16, "a value"),
    ],
)  # fmt: skip
def test_refused(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(StylesheetSyntaxError) as caught:
        parse_stylesheet(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["", "  \n", "/* nothing */"])
def test_empty(text: str) -> None:
    assert parse_stylesheet(text).rules == ()


@given(st.text(alphabet="*.#{}:;=\"' ab\n/-", max_size=30))
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        parse_stylesheet(text)
    except StylesheetSyntaxError as refused:
        error = refused
    else:
        return
    assert 1 <= error.line <= text.count("\n") + 1
