"""Runs that wait, at the command line: `run --detach`, `answer`, `logs`, `show`."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attractor.event_log import read_events
from attractor.events import PipelineCompleted
from attractor.interviewers import QuestionStore

GATE = """digraph release { start [shape=Mdiamond]; exit [shape=Msquare]
    build [shape=parallelogram, tool_command="echo built >> ../log"]
    gate [shape=hexagon, label="Ship it?"]; ship [shape=parallelogram, tool_command="echo shipped >> ../log"]
    start -> build -> gate; gate -> ship [label="[Y] Yes"]; gate -> exit [label="[N] No"]; ship -> exit }"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    path = tmp_path / "release.dot"
    path.write_text(GATE)
    return path


def detach(attractor: Callable[..., Any], pipeline: Path) -> Path:
    folder = pipeline.parent / "run"
    ended = attractor("run", pipeline, "--detach", "--quiet", "--logs", folder, "--workdir", pipeline.parent / "work")
    assert ended.code == 3, ended.err
    assert "waiting after" in ended.out
    assert "q1  gate  Ship it?  [Y] Yes, [N] No" in ended.out
    assert f"attractor answer {folder} KEY" in ended.err
    assert f"attractor resume {folder}" in ended.err
    return folder


def test_detached_run_waits_is_answered_and_goes_on(attractor: Callable[..., Any], pipeline: Path) -> None:
    folder = detach(attractor, pipeline)
    assert attractor("answer", folder).out == "q1  gate  Ship it?  [Y] Yes, [N] No\n"
    (asked,) = json.loads(attractor("answer", folder, "--json").out)["questions"]
    assert (asked["qid"], asked["options"][0]) == ("q1", {"key": "Y", "label": "[Y] Yes"})
    refused = attractor("answer", folder, "perhaps")
    assert (refused.code, refused.out) == (2, "")
    assert "say one of Y (Yes), N (No)" in refused.err
    answered = attractor("answer", folder, "yes")
    assert answered.code == 0
    assert f"To go on: attractor resume {folder}" in answered.err
    again = attractor("answer", folder, "N", "--question", "q1")
    assert again.code == 2
    assert "question q1 was answered already: [Y] Yes" in again.err
    ended = attractor("resume", folder, "--quiet")
    assert (ended.code, ended.out.startswith("success in")) == (0, True)
    assert (pipeline.parent / "log").read_text() == "built\nshipped\n"
    assert "The run asks nothing." in attractor("answer", folder).err


def test_runs_and_show_tell_what_a_run_waits_for(attractor: Callable[..., Any], pipeline: Path) -> None:
    folder = detach(attractor, pipeline)
    listed = attractor("runs", "--logs", pipeline.parent)
    assert "waiting" in listed.out
    assert "    q1  gate  Ship it?" in listed.out
    shown = attractor("show", folder)
    assert "asks    q1  gate  Ship it?" in shown.out
    assert any(line.startswith("  build ") and "█" in line for line in shown.out.splitlines())
    (record,) = json.loads(attractor("runs", "--logs", pipeline.parent, "--json").out)
    assert (record["status"], record["questions"][0]["qid"]) == ("waiting", "q1")
    result = json.loads(attractor("resume", folder, "--json", "--quiet").out)
    assert (result["status"], result["questions"][0]["qid"]) == ("waiting", "q1")


def test_logs_print_events_as_lines_and_as_json(attractor: Callable[..., Any], pipeline: Path) -> None:
    folder = detach(attractor, pipeline)
    lines = attractor("logs", folder).out.splitlines()
    assert 'InterviewStarted          question="Ship it?"  stage=gate  qid=q1' in "\n".join(lines)
    assert lines[-1].split()[2] == "PipelineWaiting"
    records = [json.loads(line) for line in attractor("logs", folder, "--json", "--after", "2").out.splitlines()]
    assert [record["sequence"] for record in records] == list(range(3, len(lines) + 1))
    assert attractor("logs", folder, "--follow").out.splitlines() == lines
    missing = attractor("logs", pipeline.parent / "nowhere")
    assert (missing.code, "does not exist" in missing.err) == (2, True)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_followed_logs_end_with_the_run_and_another_process_answers_a_console(
    start: Callable[..., "subprocess.Popen[str]"],
    terminal: Callable[..., Any],
    attractor: Callable[..., Any],
    pipeline: Path,
) -> None:
    folder = pipeline.parent / "run"
    console = terminal("run", pipeline, "--logs", folder, "--workdir", pipeline.parent / "work")
    console.wait_for("Select:")
    following = start("logs", folder, "--follow", "--json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["type"] == "PipelineStarted"
    answered = attractor("answer", folder, "Y")
    assert (answered.code, answered.err) == (0, "")
    assert console.wait() == 0
    assert "Answered by attractor answer: [Y] Yes" in console.shown
    rest, _ = following.communicate(timeout=30)
    assert following.returncode == 0
    assert json.loads(rest.splitlines()[-1])["type"] == "PipelineCompleted"
    assert (pipeline.parent / "log").read_text() == "built\nshipped\n"


def test_followed_logs_of_a_killed_run_end(
    start: Callable[..., "subprocess.Popen[str]"],
    terminal: Callable[..., Any],
    pipeline: Path,
) -> None:
    folder = pipeline.parent / "run"
    console = terminal("run", pipeline, "--logs", folder, "--workdir", pipeline.parent / "work")
    console.wait_for("Select:")
    following = start("logs", folder, "--follow")
    os.kill(console.pid, 9)
    _, told = following.communicate(timeout=30)
    assert following.returncode == 0
    assert "The run was interrupted" in told


def test_an_answer_given_before_a_kill_holds_after_it(
    terminal: Callable[..., Any],
    attractor: Callable[..., Any],
    pipeline: Path,
) -> None:
    folder = pipeline.parent / "run"
    console = terminal("run", pipeline, "--logs", folder, "--workdir", pipeline.parent / "work")
    console.wait_for("Select:")
    os.kill(console.pid, 9)
    console.wait()
    assert [asked.id for asked in QuestionStore(folder).list_open()] == ["q1"]
    assert attractor("answer", folder, "N").code == 0
    resumed = attractor("resume", folder, "--quiet")
    assert resumed.code == 0
    assert isinstance(list(read_events(folder))[-1], PipelineCompleted)
    assert (pipeline.parent / "log").read_text() == "built\n"
    assert len(QuestionStore(folder).list_all()) == 1


def test_ctrl_c_at_a_prompt_stops_and_says_how_to_go_on(
    terminal: Callable[..., Any],
    attractor: Callable[..., Any],
    pipeline: Path,
) -> None:
    folder = pipeline.parent / "run"
    console = terminal("run", pipeline, "--logs", folder, "--workdir", pipeline.parent / "work")
    console.wait_for("Select:")
    console.press("\x03")
    assert console.wait() == 130
    assert f"attractor resume {folder}" in console.shown.replace("\r\n", "")
    assert [asked.id for asked in QuestionStore(folder).list_open()] == ["q1"]
    attractor("answer", folder, "Y")
    assert attractor("resume", folder, "--quiet").code == 0
