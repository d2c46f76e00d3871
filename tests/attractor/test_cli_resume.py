"""Runs that are interrupted, killed and resumed, as processes of their own."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

# Each stage notes that it ran; the second waits until it is let go, so that a test can strike in the middle of it.
SOURCE = """digraph steps {
    graph [goal="three steps"]
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    node [shape=parallelogram]
    first  [tool_command="echo first >> ran", goal_gate=true, retry_target="first"]
    second [tool_command="echo second >> ran; while [ ! -e go ]; do sleep 0.05; done"]
    third  [tool_command="echo third >> ran"]
    start -> first -> second -> third -> exit
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "steps.dot"
    path.write_text(SOURCE)
    return path


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.02)


def stages_ran(workdir: Path) -> list[str]:
    ran = workdir / "ran"
    return ran.read_text().split() if ran.exists() else []


def is_running(workdir: Path) -> bool:
    """Whether a command of the test's work directory is alive."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd") == str(workdir):
                return True
        except OSError:
            continue
    return False


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def test_kill_in_the_middle_of_a_stage(
    start: Callable, attractor: Callable, source: Path, workdir: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start("run", source, "--logs", run, "--workdir", workdir)
    wait_until(lambda: stages_ran(workdir) == ["first", "second"], "the second stage")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (workdir / "go").touch()

    source.unlink()  # A run directory is all that resuming needs.
    ended = attractor("resume", run)
    assert ended.code == 0, ended
    assert stages_ran(workdir) == ["first", "second", "second", "third"]

    again = attractor("resume", run)
    assert again.code == 0
    assert "success" in again.out
    assert stages_ran(workdir) == ["first", "second", "second", "third"], "a finished run only reports"


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(
    start: Callable, attractor: Callable, source: Path, workdir: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start("run", source, "--logs", run, "--workdir", workdir)
    wait_until(lambda: stages_ran(workdir) == ["first", "second"], "the second stage")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert f"attractor resume {run}" in err
    assert "interrupted" in out
    assert "Traceback" not in out + err
    assert "first" in json.loads((run / "checkpoint.json").read_text())["completed_nodes"]
    wait_until(lambda: not is_running(workdir), "the stopped command to be gone")

    (workdir / "go").touch()
    assert attractor("resume", run).code == 0
    assert stages_ran(workdir) == ["first", "second", "second", "third"]


def test_second_ctrl_c_kills(start: Callable, workdir: Path, tmp_path: Path) -> None:
    """A command that shrugs off SIGTERM holds up the first one for a while; the second doesn't wait."""
    source = tmp_path / "stubborn.dot"
    source.write_text(SOURCE.replace("echo second >> ran;", "trap '' TERM; echo second >> ran;"))
    run = tmp_path / "run"
    process = start("run", source, "--logs", run, "--workdir", workdir)
    wait_until(lambda: stages_ran(workdir) == ["first", "second"], "the second stage")
    process.send_signal(signal.SIGINT)
    next(line for line in process.stderr if "Stopping" in line)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    assert process.returncode == 130
    wait_until(lambda: not is_running(workdir), "the killed command to be gone")


def test_run_that_is_still_going(
    start: Callable, attractor: Callable, source: Path, workdir: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start("run", source, "--logs", run, "--workdir", workdir)
    wait_until(lambda: stages_ran(workdir) == ["first", "second"], "the second stage")
    ended = attractor("resume", run)
    assert ended.code == 2
    assert "in use by another process" in ended.err
    (workdir / "go").touch()
    assert process.wait(timeout=20) == 0
    assert stages_ran(workdir) == ["first", "second", "third"]


def test_failed_run_retries_the_failed_stage(attractor: Callable, workdir: Path, tmp_path: Path) -> None:
    source = tmp_path / "needs.dot"
    source.write_text(SOURCE.replace("while [ ! -e go ]; do sleep 0.05; done", "test -e go"))
    run = tmp_path / "run"
    failed = attractor("run", source, "--logs", run, "--workdir", workdir)
    assert failed.code == 1
    assert f"attractor resume {run}" in failed.err
    (workdir / "go").touch()
    assert attractor("resume", run).code == 0
    assert stages_ran(workdir) == ["first", "second", "second", "third"]


def test_resume_uses_the_recorded_flags_unless_given_again(attractor: Callable, workdir: Path, tmp_path: Path) -> None:
    source = tmp_path / "flags.dot"
    source.write_text(
        """digraph flags {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            ask   [prompt="$goal"]
            check [shape=parallelogram, tool_command="echo $goal >> ran; test -e go"]
            start -> ask -> check -> exit
        }"""
    )
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    attractor("run", source, "--logs", run, "--workdir", workdir, "--simulate", "--set", "goal=once")
    attractor("resume", run)
    assert stages_ran(workdir) == ["once", "once"]
    (elsewhere / "go").touch()
    assert attractor("resume", run, "--workdir", elsewhere).code == 0
    assert stages_ran(elsewhere) == ["once"]


def test_resume_from_a_stage(attractor: Callable, source: Path, workdir: Path, tmp_path: Path) -> None:
    (workdir / "go").touch()
    run = tmp_path / "run"
    assert attractor("run", source, "--logs", run, "--workdir", workdir).code == 0
    assert attractor("resume", run, "--from", "second").code == 0
    assert stages_ran(workdir) == ["first", "second", "third", "second", "third"]
    unknown = attractor("resume", run, "--from", "nowhere")
    assert unknown.code == 2
    assert "nowhere" in unknown.err


def test_resume_without_its_work_directory(attractor: Callable, source: Path, workdir: Path, tmp_path: Path) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    source.write_text(SOURCE.replace("while [ ! -e go ]; do sleep 0.05; done", "test -e go"))
    attractor("run", source, "--logs", run, "--workdir", workdir)
    workdir.rename(moved)
    ended = attractor("resume", run)
    assert ended.code == 2
    assert "--workdir" in ended.err
    (moved / "go").touch()
    assert attractor("resume", run, "--workdir", moved).code == 0


def test_ctrl_c_while_a_server_is_silent(start: Callable, tmp_path: Path) -> None:
    source = tmp_path / "ask.dot"
    source.write_text("digraph ask { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> exit; a [prompt=Hi] }")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        arguments = ("run", source, "--model", "m", "--logs", tmp_path / "run")
        process = start(*arguments, OPENAI_COMPATIBLE_BASE_URL=url)
        server.settimeout(30)
        connection, _ = server.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
