"""What options mean, and what they refuse to mean in silence."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

LOOP = """digraph G {
    start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt=x]
    start -> a; a -> a [condition="outcome=success"]; a -> exit [condition="outcome=partial_success"]
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "g.dot"
    path.write_text(LOOP)
    return path


def test_set_reaches_every_attribute_that_a_graph_may_have(attractor: Callable, source: Path, tmp_path: Path) -> None:
    options = ("--simulate", "--logs", tmp_path / "run", "--set", "max_node_visits=3", "--set", "mood=fair")
    assert "more than 3 times" in attractor("run", source, *options).out
    context = json.loads((tmp_path / "run/checkpoint.json").read_text())["context"]
    assert context["graph.max_node_visits"] == "3"
    assert context["mood"] == "fair"


def test_a_script_for_a_stage_that_asks_no_model_is_noticed(attractor: Callable, source: Path, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"a": "partial_success", "aa": "fail", "start": "fail"}))
    ended = attractor("run", source, "--script", tmp_path / "script.json")
    assert ended.code == 0
    assert [name in ended.err for name in ("names 'aa'", "names 'start'", "names 'a',")] == [True, True, False]


@pytest.mark.parametrize("attributes", ["type=llm", 'type="llm", shape=ellipse', "shape=ellipse"])
def test_a_stage_of_an_unknown_type_is_never_simulated_unasked(
    attractor: Callable, source: Path, attributes: str
) -> None:
    source.write_text(f"digraph G {{ start [shape=Mdiamond]; exit [shape=Msquare]; a [{attributes}]; start->a->exit }}")
    ended = attractor("run", source)
    assert ended.code == 2
    assert "stage 'a' asks a model, and no provider is configured" in ended.err
    assert "Simulated" not in ended.out
