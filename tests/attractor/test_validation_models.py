"""Lint on models and efforts, wherever they are named, and where it keeps silent."""

import pytest
from attractor.diagnostics import Diagnostic, Severity
from attractor.dot import parse_dot
from attractor.transforms import apply_transforms
from attractor.validation import validate

SHEET = 'model_stylesheet="* { llm_model: claude-sonnet-4.6 } #b { llm_model: gpt-4.1; reasoning_effort: %s }"'


def lint(graph: str = "", a: str = "", b: str = "", rest: str = "") -> list[Diagnostic]:
    source = f"""digraph g {{ {graph}
        start [shape=Mdiamond]; exit [shape=Msquare]
        a [prompt=a, {a}]; b [prompt=b, {b}]
        start -> a -> b -> exit {rest} }}"""
    rules = ("model_known", "model_provider", "model_effort", "attribute_value")
    return [item for item in validate(apply_transforms(parse_dot(source, "p.dot"))) if item.rule in rules]


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("claude-sonnet-4.6", "claude-sonnet-4-6"),
        ("gpt5.2", "gpt-5.2"),
        ("gemini-2-5-pro", "gemini-2.5-pro"),
        ("Claude-Opus-4-6", "claude-opus-4-6"),
    ],
)
def test_a_misspelt_model_has_its_nearest_name(model: str, near: str) -> None:
    (found,) = lint(a=f'llm_model="{model}"', b=f'llm_model="{model}"')
    assert (found.rule, found.severity, found.fix) == ("model_known", Severity.WARNING, f"did you mean {near}?")
    assert "a and b ask" in found.message
    assert found.span is not None
    assert found.span.line == 3


@pytest.mark.parametrize(
    ("attributes", "fix"),
    [
        ('llm_model="claude-zebra-9"', "newer than the catalog"),
        ('llm_model="gpt-77-quokka-turbo-xl"', "newer than the catalog"),
        ('model="gpt-5.22"', "gpt-5.2"),
    ],
)
def test_an_unknown_model_of_a_known_family(attributes: str, fix: str) -> None:
    (found,) = lint(a=attributes)
    assert fix in found.fix


@pytest.mark.parametrize(
    "attributes",
    [
        'llm_model="claude-sonnet-4-6"',
        'llm_model="claude-opus-4-5-20251101"',
        "llm_model=sonnet",
        'llm_model="gpt-5.2", llm_provider=openai, reasoning_effort=high',
        'llm_model="gpt-4.1"',
        'llm_model="gpt-4.1", reasoning_effort=none',
        'llm_model="qwen3-coder"',
        'llm_model="qwen2.5-coder:7b"',
        'llm_model="anthropic/claude-sonnet-4.6"',
        'llm_model="claude-sonnet-4.6", llm_provider=openrouter',
        'llm_model="gpt-oss", llm_provider=openai_compatible, reasoning_effort=low',
        'llm_model="MiniMax-M2.7", llm_provider=anthropic',
        'llm_model="$MODEL"',
        'shape=parallelogram, tool_command=true, llm_model="claude-sonnet-4.6"',
    ],
)
def test_models_that_are_fine_or_none_of_our_business(attributes: str) -> None:
    assert lint(a=attributes) == []


def test_a_model_of_another_provider() -> None:
    (found,) = lint(a='llm_model="claude-opus-4-6", llm_provider=openai')
    assert (found.rule, found.fix) == ("model_provider", "set llm_provider=anthropic, or drop it")


def test_an_effort_that_the_model_does_not_take() -> None:
    (found,) = lint(a='llm_model="gpt-4.1", reasoning_effort=high')
    assert found.rule == "model_effort"
    assert "reasoning_effort=high is lost" in found.message


def test_a_stylesheet_is_looked_at_once_and_where_it_stands() -> None:
    found = lint(SHEET % "hihg", rest="c [prompt=c] a -> c -> exit")
    assert sorted(item.rule for item in found) == ["attribute_value", "model_effort", "model_known"]
    assert {(item.span.line, item.span.column) for item in found if item.span} == {(1, 13)}


def test_a_default_of_the_graph_is_looked_at_once() -> None:
    (model,) = lint('llm_model="claude-sonnet-4.6"')
    assert model.span is not None
    assert (model.span.line, model.span.column) == (1, 13)
    (effort,) = lint("reasoning_effort=hihg")
    assert "the graph" in effort.message


def test_a_fan_in_that_a_model_decides_counts() -> None:
    rest = 'f [shape=tripleoctagon, prompt=best, llm_model="claude-sonnet-4.6"] a -> f -> exit'
    assert [item.node_id for item in lint(rest=rest)] == ["f"]
    assert lint(rest=rest.replace("prompt=best, ", "")) == []


@pytest.mark.parametrize(
    ("prompt", "severity"),
    [("$GOAL", Severity.WARNING), ("$task_file", Severity.WARNING), ("$DATABASE_URL", Severity.INFO)],
)
def test_variables_of_the_shell_are_only_noted(prompt: str, severity: Severity) -> None:
    source = f'digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt="{prompt}"]; start -> a -> exit }}'
    (found,) = [item for item in validate(apply_transforms(parse_dot(source))) if item.rule == "unknown_variable"]
    assert found.severity is severity


def test_a_shape_that_is_the_name_of_a_type() -> None:
    source = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; a [shape=%s, label=a]; start -> a -> exit }"
    for written, meant in (("parallel", "component"), ("parallel_fan_in", "tripleoctagon"), ("tool", "parallelogram")):
        found = [item for item in validate(parse_dot(source % written)) if item.rule == "type_known"]
        assert [item.fix for item in found] == [f"did you mean {meant}?"]
