"""Numbers and durations that make no sense: lint says which default holds, and the engine keeps to it."""

from pathlib import Path

import pytest
from attractor import PipelineRunner, Severity, StageStatus, parse_dot, validate
from attractor.engine.limits import Limits
from attractor.engine.retry import build_retry_policy
from attractor.graph import Graph
from attractor.testing import ScriptedHandler


def pipeline(stage: str = "", graph: str = "") -> Graph:
    return parse_dot(
        f"digraph G {{ graph [x=y, {graph}]; start [shape=Mdiamond]; exit [shape=Msquare]"
        f"a [prompt=p, {stage}]; start -> a -> exit }}"
    )


def warnings(graph: Graph) -> list[str]:
    return [item.message for item in validate(graph) if item.rule == "attribute_value"]


@pytest.mark.parametrize("value", ["-1", "-99", "many", "1.5"])
def test_retries_that_are_no_count_are_the_graphs_default(value: str) -> None:
    graph = pipeline(f'max_retries="{value}"', "default_max_retries=2")
    assert "which is not a whole number" in warnings(graph)[0]
    assert "the graph's default, holds" in warnings(graph)[0]
    assert build_retry_policy(graph.nodes["a"], graph).max_attempts == 3


def test_a_default_that_is_no_count_is_none() -> None:
    assert pipeline(graph="default_max_retries=-1, default_max_retry=-2").default_max_retries == 0
    assert pipeline(graph="default_max_retries=-1, default_max_retry=2").default_max_retries == 2


@pytest.mark.parametrize("value", ["0", "-4", "none"])
def test_limits_that_would_stop_every_run_are_not_taken(value: str) -> None:
    names = ("max_node_visits", "max_goal_gate_rounds", "max_same_failures")
    graph = pipeline(f'max_visits="{value}"', ", ".join(f'{name}="{value}"' for name in names))
    assert Limits.of_graph(graph) == Limits()
    assert Limits().refuse_visit(graph.nodes["a"], 99) == ""
    found = warnings(graph)
    assert len(found) == 4
    assert all("which is not a whole number above 0" in message for message in found)
    assert [default in "".join(found) for default in ("100,", "20,", "3,")] == [True] * 3


async def test_a_timeout_of_nothing_is_none(tmp_path: Path) -> None:
    graph = pipeline("type=mine, timeout=0")
    assert "which is not a duration above 0; its default holds" in warnings(graph)[0]
    runner = PipelineRunner(handlers={"mine": ScriptedHandler()}, logs_root=tmp_path / "run")
    assert (await runner.run(graph)).status is StageStatus.SUCCESS


def test_a_weight_may_be_negative() -> None:
    graph = parse_dot("digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; start -> exit [weight=-5] }")
    assert warnings(graph) == []
    assert graph.edges[0].weight == -5


@pytest.mark.parametrize(
    ("choice", "known"), [("fix", True), ("F", True), ("f", True), ("Fix it", True), ("fixx", False), ("G", False)]
)
def test_a_default_choice_that_is_none_of_the_choices_is_found(choice: str, known: bool) -> None:
    graph = parse_dot(
        "digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; fix [prompt=p]"
        f'gate [shape=hexagon, human.default_choice="{choice}"]'
        'start -> gate; gate -> exit [label="[A] Approve"]; gate -> fix [label="[F] Fix it"]; fix -> exit }'
    )
    found = [item for item in validate(graph) if item.rule == "human_default_choice"]
    assert len(found) == (0 if known else 1)
    assert all(item.severity is Severity.WARNING and item.node_id == "gate" for item in found)
    assert all("exit and fix" in item.fix for item in found)
