"""Merging graphs by a transform (section 9.4)."""

from pathlib import Path

import pytest
from attractor import Graph, MergeGraph, Outcome, PipelineConfigurationError, Severity, parse_dot, validate
from attractor.pipeline import PipelineRunner, RunResult
from attractor.testing import ScriptedHandler
from attractor.transforms import apply_transforms

INNER = """digraph review { goal="inner goal"; default_max_retries=1; llm_model=m; start [shape=Mdiamond]
    exit [shape=Msquare]; read [prompt="For $goal"]; judge [goal_gate=true, retry_target=read]
    start -> read -> judge -> exit }"""
OUTER = """digraph outer { goal="outer goal"; start [shape=Mdiamond]; exit [shape=Msquare]; write
    check [label="Check it" %s]; start -> write -> check; check -> %s }"""


def merged(outer: str, inner: str = INNER, prefix: str = "") -> Graph:
    return MergeGraph("check", parse_dot(inner), prefix).apply(parse_dot(outer))


async def run(folder: Path, outer: str, script: ScriptedHandler, inner: str = INNER) -> RunResult:
    runner = PipelineRunner(
        logs_root=folder / "run", handlers={"codergen": script}, transforms=[MergeGraph("check", parse_dot(inner))]
    )
    return await runner.run(outer)


def test_the_nodes_stand_in_the_place_of_the_node() -> None:
    before = parse_dot(OUTER % ("", "exit"))
    graph = MergeGraph("check", parse_dot(INNER)).apply(before)
    assert list(graph.nodes) == ["start", "exit", "write", "check_read", "check_judge", "check_exit"]
    assert "check" in before.nodes, "the input stays as it is"
    edges = [(edge.source, edge.target) for edge in graph.edges]
    assert edges == [
        ("start", "write"),
        ("write", "check_read"),
        ("check_read", "check_judge"),
        ("check_judge", "check_exit"),
        ("check_exit", "exit"),
    ]
    read, judge = graph.nodes["check_read"], graph.nodes["check_judge"]
    assert (read.prompt, read.llm_model, read.max_retries) == ("For inner goal", "m", 1)
    assert judge.retry_target == "check_read"
    assert [found for found in validate(apply_transforms(graph)) if found.severity is Severity.ERROR] == []


async def test_a_merged_graph_runs(tmp_path: Path) -> None:
    script = ScriptedHandler()
    result = await run(tmp_path, OUTER % ("", "exit"), script)
    assert result.status == "success"
    assert script.calls == ["write", "check_read", "check_judge"]


@pytest.mark.parametrize("failing", ["check_read", "check_judge"])
async def test_a_failure_inside_takes_the_edges_of_the_node(tmp_path: Path, failing: str) -> None:
    ways = 'exit [condition="outcome=success"]; check -> mend [condition="outcome=fail"]; mend -> exit'
    inner = INNER.replace(", retry_target=read", "").replace("goal_gate=true", "x=1")
    script = ScriptedHandler({failing: "fail"})
    result = await run(tmp_path, OUTER % ("", ways), script, inner.replace("default_max_retries=1; ", ""))
    assert (result.status, script.calls[-2:]) == ("success", [failing, "mend"])


async def test_a_failure_inside_never_slips_through(tmp_path: Path) -> None:
    inner = INNER.replace("[goal_gate=true, retry_target=read]", "").replace("default_max_retries=1; ", "")
    for number, ways in enumerate(["exit", "other; check -> exit [weight=1]; other -> exit"]):
        folder = tmp_path / str(number)
        result = await run(folder, OUTER % ("", ways), ScriptedHandler({"check_judge": "fail"}), inner)
        assert (result.status, "exit" in result.completed_nodes) == ("fail", False), ways


async def test_retry_targets_of_the_node_serve_what_is_inside(tmp_path: Path) -> None:
    inner = INNER.replace("[goal_gate=true, retry_target=read]", "").replace("default_max_retries=1; ", "")
    script = ScriptedHandler({"check_read": ["fail", "success"]})
    result = await run(tmp_path, OUTER % (", retry_target=write", "exit"), script, inner)
    assert result.status == "success"
    assert script.calls == ["write", "check_read", "write", "check_read", "check_judge"]


async def test_labels_of_the_node_still_choose(tmp_path: Path) -> None:
    ways = 'left [label="Left"]; check -> right [label="Right"]; left -> exit; right -> exit'
    chosen = Outcome.success(preferred_label="Right")
    script = ScriptedHandler({"check_judge": chosen})
    assert (await run(tmp_path, OUTER % ("", ways), script)).status == "success"
    assert script.calls[-1] == "right"


async def test_conditions_of_the_node_go_before_its_other_edges(tmp_path: Path) -> None:
    ways = 'aside [condition="context.aside=true"]; check -> exit; aside -> exit'
    script = ScriptedHandler({"check_read": Outcome.success(context_updates={"aside": True})})
    assert (await run(tmp_path, OUTER % ("", ways), script)).status == "success"
    assert script.calls[-1] == "aside"


async def test_retry_targets_that_name_the_node_lead_into_the_graph(tmp_path: Path) -> None:
    outer = OUTER.replace("write\n", "write [retry_target=check]\n") % ("", "exit")
    graph = merged(outer)
    assert graph.nodes["write"].retry_target == "check_read"


async def test_a_retry_of_a_merged_loop(tmp_path: Path) -> None:
    ways = 'exit [condition="outcome=success"]; check -> check [condition="outcome=fail"]'
    inner = INNER.replace("[goal_gate=true, retry_target=read]", "").replace("default_max_retries=1; ", "")
    script = ScriptedHandler({"check_judge": ["fail", "success"]})
    result = await run(tmp_path, OUTER % ("", ways), script, inner)
    assert (result.status, script.calls) == ("success", ["write", *["check_read", "check_judge"] * 2])


@pytest.mark.parametrize(
    ("outer", "inner", "message"),
    [
        (OUTER.replace("check", "other") % ("", "exit"), INNER, "there is no node 'check' to put 'review' in place of"),
        (
            OUTER % ("", "exit; check_read -> exit"),
            INNER,
            "has a node 'check_read' already; give 'review' another prefix",
        ),
        (
            OUTER % ("", "exit"),
            INNER.replace("start -> read", "start -> judge; start -> read"),
            "must lead to one stage",
        ),
        (OUTER % ("", "exit"), "digraph none { a -> b }", "'none' needs one start and one exit"),
    ],
)
def test_what_can_not_be_merged_is_refused(outer: str, inner: str, message: str) -> None:
    with pytest.raises(PipelineConfigurationError, match=message):
        merged(outer, inner)


def test_another_prefix() -> None:
    assert "r_read" in merged(OUTER % ("", "exit"), prefix="r_").nodes
