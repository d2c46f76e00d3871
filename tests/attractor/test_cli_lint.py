"""`attractor lint` and `attractor parse`: findings and data on stdout, counts and refusals on stderr, exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = """digraph good {
    graph [goal="Say hello"]
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    hello [label="Hello", prompt="$goal", timeout=90s, max_retries=2]
    start -> hello -> exit [weight=3]
}
"""
NO_EXIT = """digraph bad {
    start [shape=Mdiamond]
    hello [prompt="Hi"]
    start -> hello
}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.dot"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.dot"
    path.write_text(NO_EXIT)
    return path


def test_clean_pipeline_exits_0(attractor: Callable, good: Path) -> None:
    ended = attractor("lint", good)
    assert ended.code == 0
    assert "error:" not in ended.out
    assert "0 errors, 0 warnings, 1 note in 1 file" in ended.err


def test_errors_exit_1_and_name_file_rule_and_fix(attractor: Callable, bad: Path) -> None:
    ended = attractor("lint", bad)
    assert ended.code == 1
    assert f"{bad}" in ended.out
    assert "[terminal_node]" in ended.out


def test_every_file_is_checked(attractor: Callable, good: Path, bad: Path, tmp_path: Path) -> None:
    ended = attractor("lint", tmp_path / "absent.dot", bad, good)
    assert ended.code == 2
    assert "absent.dot does not exist" in ended.err
    assert "[terminal_node]" in ended.out
    assert "in 2 files" in ended.err


def test_syntax_error_shows_line_and_caret(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "broken.dot"
    path.write_text("digraph broken {\n    a -- b\n}\n")
    ended = attractor("lint", path)
    assert ended.code == 1
    first, line, caret, *_ = ended.out.splitlines()
    assert first.startswith(f"{path}:2:7: error:")
    assert line.strip() == "a -- b"
    assert line.index("--") == caret.index("^")


def test_json_is_machine_readable(attractor: Callable, bad: Path) -> None:
    ended = attractor("lint", bad, "--json")
    report = json.loads(ended.out)
    assert ended.code == 1
    assert report["errors"] == sum(item["severity"] == "error" for item in report["diagnostics"]) > 0
    assert {"file", "line", "column", "rule", "severity", "message", "node", "edge", "fix"} == set(
        report["diagnostics"][0]
    )


def test_strict_counts_warnings(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "warned.dot"
    path.write_text(GOOD.replace("max_retries=2", "goal_gate=true"))
    assert "warning" in attractor("lint", path).out
    assert attractor("lint", path).code == 0
    assert attractor("lint", path, "--strict").code == 1


def test_parse_prints_nodes_and_edges(attractor: Callable, good: Path) -> None:
    ended = attractor("parse", good)
    assert ended.code == 0
    data = json.loads(ended.out)
    assert [node["id"] for node in data["nodes"]] == ["start", "exit", "hello"]
    hello = data["nodes"][2]["attributes"]
    assert (hello["label"], hello["timeout"], hello["max_retries"]) == ("Hello", "90s", 2)
    assert [(edge["source"], edge["target"], edge["attributes"]) for edge in data["edges"]] == [
        ("start", "hello", {"weight": 3}),
        ("hello", "exit", {"weight": 3}),
    ]
    assert data["attributes"]["goal"] == "Say hello"


def test_parse_refuses_broken_source(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "broken.dot"
    path.write_text("digraph broken {\n    a [label=\n}\n")
    ended = attractor("parse", path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{path}:" in ended.err
    assert "^" in ended.err


def test_a_finding_in_a_long_line_shows_the_place_alone(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "long.dot"
    label = "x" * 100_000
    path.write_text(
        "digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a;"
        f'a [prompt=p, label="{label}"]; a -> exit [weight=z] }}'
    )
    shown = attractor("lint", path).out
    assert "weight of edge a -> exit is 'z'" in shown
    lines = shown.splitlines()
    source, caret = next((line, lines[number + 1]) for number, line in enumerate(lines) if "[weight=z]" in line)
    assert len(source) < 200
    assert source[caret.index("^") :].startswith("weight=z]")
