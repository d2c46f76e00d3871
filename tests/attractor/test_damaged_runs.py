"""Run directories that something has damaged: a sentence that says what to do, and no work done twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = """digraph G {
    start [shape=Mdiamond]; exit [shape=Msquare]
    first  [shape=parallelogram, tool_command="echo first >> log"]
    second [shape=parallelogram, tool_command="echo second >> log; test -e permission"]
    start -> first -> second -> exit
}
"""
RESTARTING = """digraph G {
    start [shape=Mdiamond]; exit [shape=Msquare]; write [prompt=w]; judge [prompt=j]
    start -> write -> judge
    judge -> write [condition="outcome=fail", loop_restart=true]
    judge -> exit  [condition="outcome=success"]
}
"""


@pytest.fixture
def run(attractor: Callable, tmp_path: Path) -> Path:
    """A run that failed at its second stage, and would succeed now."""
    (tmp_path / "g.dot").write_text(SOURCE)
    assert attractor("run", tmp_path / "g.dot", "--logs", tmp_path / "run", "--workdir", tmp_path).code == 1
    (tmp_path / "permission").touch()
    return tmp_path / "run"


def stages(run: Path) -> list[str]:
    return (run.parent / "log").read_text().split()


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    "tail", [b"garbage\n", b"\xff\xfe\n", b"[1]\n", b"null\n{}\n", b'{"type": "Stage', b"\0" * 4096, b"\0\0\n\0\0\n"]
)
def test_damage_at_the_end_of_the_event_log_holds_nothing_up(attractor: Callable, run: Path, tail: bytes) -> None:
    log = run / "events.jsonl"
    before = log.read_bytes()
    log.write_bytes(before + tail)
    assert attractor("resume", run).code == 0
    assert stages(run) == ["first", "second", "second"]
    assert log.read_bytes().startswith(before)
    numbers = [json.loads(line)["sequence"] for line in log.read_bytes().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_event_of_a_kind_to_come_is_no_damage(attractor: Callable, run: Path) -> None:
    log = run / "events.jsonl"
    line = b'{"type":"StagePraised","sequence":1000,"time":1.0,"name":"first"}\n'
    log.write_bytes(log.read_bytes() + line)
    assert attractor("resume", run).code == 0
    assert line in log.read_bytes()
    assert json.loads(log.read_bytes().splitlines()[-1])["sequence"] > 1000


def test_an_event_log_that_can_not_be_read_is_named(attractor: Callable, run: Path) -> None:
    (run / "events.jsonl").write_text("garbage\n")
    shown = attractor("show", run)
    assert shown.code == 2
    assert "events.jsonl is damaged" in shown.err


@pytest.mark.parametrize("context", [None, 5, "x", [1]])
def test_a_manifest_whose_fields_are_of_another_type_is_named(attractor: Callable, run: Path, context: Any) -> None:
    change(run / "manifest.json", context=context)
    ended = attractor("resume", run)
    assert ended.code == 2
    assert "manifest.json is damaged: its field 'context'" in ended.err
    assert stages(run) == ["first", "second"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("completed_nodes", [1]), ("visits", {"first": "x"}), ("executions", {"a": None}), ("logs", [3])],
)
def test_a_checkpoint_whose_lists_hold_something_else_is_named(
    attractor: Callable, run: Path, field: str, value: Any
) -> None:
    change(run / "checkpoint.json", **{field: value})
    ended = attractor("resume", run)
    assert ended.code == 2
    assert f"checkpoint.json is damaged: its field '{field}'" in ended.err
    assert stages(run) == ["first", "second"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe\0"), "it is not UTF-8 text"),
        (lambda path: (path.unlink(), path.mkdir()), "pipeline.dot can't be read"),
        (lambda path: path.unlink(), "holds no pipeline.dot"),
        (lambda path: path.write_text(""), "holds no pipeline.dot, or an empty one"),
    ],
    ids=["binary", "directory", "gone", "empty"],
)
def test_a_pipeline_that_can_not_be_read_is_named(
    attractor: Callable, run: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(run / "pipeline.dot")
    ended = attractor("resume", run)
    assert ended.code == 2
    assert said in ended.err


def test_what_is_no_run_directory_says_why(attractor: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command in ("resume", "show"):
        assert "it does not exist" in attractor(command, tmp_path / "nowhere").err
        assert "it is a file" in attractor(command, tmp_path / "file").err
        assert "it has no manifest.json" in attractor(command, tmp_path).err
    for place in ("nowhere", "file"):
        assert attractor("runs", "--logs", tmp_path / place).code == 2


def test_runs_calls_a_damaged_run_damaged(attractor: Callable, run: Path) -> None:
    for name in ("checkpoint.json", "journal.jsonl"):
        (run / name).write_text("[1]\n[2]\n")
    assert "damaged" in attractor("runs", "--logs", run.parent).out


def test_a_restarted_run_is_shown_as_it_ended(attractor: Callable, tmp_path: Path) -> None:
    (tmp_path / "g.dot").write_text(RESTARTING)
    script = {"write": {"status": "success", "notes": "a draft"}, "judge": ["fail", "success"]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    run = tmp_path / "run"
    ended = attractor("run", tmp_path / "g.dot", "--script", tmp_path / "script.json", "--logs", run, "--json")
    result = json.loads(ended.out)
    assert result["answer_file"] == str(run / "restart-1/judge/response.md")
    assert Path(result["answer_file"]).is_file()
    assert "completed" in attractor("runs", "--logs", tmp_path).out
    assert "completed" in attractor("show", run).out
