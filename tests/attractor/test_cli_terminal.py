"""`attractor run` at a terminal: rows that move, lines that stay, questions between them, and Ctrl-C."""

import io
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attractor import Graph, Node
from attractor.cli.progress import Progress
from attractor.cli.terminal import TerminalScreen
from attractor.events import (
    ChildProgressed,
    Event,
    InterviewTimeout,
    PipelineStarted,
    StageActivity,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
)

_CODE = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|\x1b[=>]|(\r)|(\n)|([^\x1b\r\n])")


def draw(shown: str, columns: int) -> list[str]:
    """What stands on a terminal of that width in the end."""
    rows: list[str] = [""]
    at, column = 0, 0
    for code in _CODE.finditer(shown):
        number, letter, back, down, character = code.groups()
        if letter == "A":
            at = max(at - int(number or 1), 0)
        elif letter == "K":
            rows[at] = "" if number == "2" else rows[at][:column]
        elif back:
            column = 0
        elif down or character:
            if down or column == columns:
                at, column = at + 1, 0
                rows += [""] * (at + 1 - len(rows))
            if character:
                rows[at] = rows[at][:column].ljust(column) + character + rows[at][column + 1 :]
                column += 1
    return [row.rstrip() for row in rows]


def is_alive(workdir: Path) -> bool:
    """Whether a command works in this directory."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd") == str(workdir):
                return True
        except OSError:
            continue
    return False


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


BRANCHES = """digraph branches {
    start [shape=Mdiamond]; exit [shape=Msquare]
    node  [shape=parallelogram]
    fan   [shape=component]
    left  [label="On the left", tool_command="while [ ! -e go ]; do sleep 0.05; done"]
    right [label="On the right, with a label that is far longer than a narrow terminal is wide",
           tool_command="while [ ! -e go ]; do sleep 0.05; done"]
    join  [shape=tripleoctagon]
    start -> fan; fan -> left -> join; fan -> right -> join; join -> exit
}"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    path = tmp_path / "branches.dot"
    path.write_text(BRANCHES)
    return path


@pytest.mark.parametrize("columns", [100, 32])
def test_branches_have_a_row_each_and_leave_no_trace(
    terminal: Callable[..., Any], branches: Path, workdir: Path, columns: int
) -> None:
    run = terminal("run", branches, "--workdir", workdir, "--logs", workdir / "run", columns=columns)
    run.wait_for("1 s  left   On the left")
    moving = draw(run.shown, columns)
    assert sum("left   On the left" in row for row in moving) == 1
    assert sum("right  On the right" in row for row in moving) == 1
    assert all(len(row) <= columns for row in moving)
    (workdir / "go").touch()
    assert run.wait() == 0
    rows = "\n".join(draw(run.shown, columns))
    assert re.search(r"ok    left   On the left\s+\d", rows)
    assert "success in" in rows
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", rows), rows


def test_a_terminal_that_gets_narrower(terminal: Callable[..., Any], branches: Path, workdir: Path) -> None:
    run = terminal("run", branches, "--workdir", workdir, "--logs", workdir / "run", columns=100)
    run.wait_for("right, with a label")
    run.resize(40)
    time_shown = len(run.shown)
    run.wait_for("2 s  left")
    frames = run.shown[time_shown:].rpartition("\x1b[2K")[0].split("\x1b[2K")[-4:]
    assert all(len(draw(frame, 1000)[0]) <= 40 for frame in frames), frames
    (workdir / "go").touch()
    assert run.wait() == 0


def test_no_color(terminal: Callable[..., Any], branches: Path, workdir: Path) -> None:
    (workdir / "go").touch()
    arguments = ("run", branches, "--workdir", workdir)
    coloured = terminal(*arguments)
    assert coloured.wait() == 0
    plain = terminal(*arguments, NO_COLOR="1")
    assert plain.wait() == 0
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d(?:;\d+)*m")
    assert colour.search(coloured.shown)
    assert not colour.search(plain.shown)


def test_a_dumb_terminal_gets_plain_lines(terminal: Callable[..., Any], branches: Path, workdir: Path) -> None:
    (workdir / "go").touch()
    run = terminal("run", branches, "--workdir", workdir, TERM="dumb")
    assert run.wait() == 0
    assert "\x1b" not in run.shown
    assert "... left   On the left" in run.shown
    assert "ok    left   On the left" in run.shown


BESIDE_A_GATE = """digraph gate {
    start [shape=Mdiamond]; exit [shape=Msquare]
    fan   [shape=component]; join [shape=tripleoctagon]
    gate  [shape=hexagon, label="Ship it?"]
    node  [shape=parallelogram]
    one   [tool_command="while [ ! -e go ]; do sleep 0.05; done"]
    two   [tool_command="touch done; while [ ! -e stop ]; do sleep 0.05; done"]
    yes   [tool_command="touch shipped"]
    start -> fan; fan -> gate -> yes -> join; fan -> one -> two -> join; join -> exit
    gate -> join [label="[N] No"]; gate -> yes [label="[Y] Yes"]
}"""


def test_nothing_runs_into_what_is_typed_at_a_question(
    terminal: Callable[..., Any], tmp_path: Path, workdir: Path
) -> None:
    source = tmp_path / "gate.dot"
    source.write_text(BESIDE_A_GATE.replace("fan -> gate -> yes -> join", "fan -> gate; yes -> join"))
    run = terminal("run", source, "--workdir", workdir, "--logs", tmp_path / "run")
    run.wait_for("Select: ")
    run.press("y")
    (workdir / "go").touch()
    wait_until((workdir / "done").exists)
    run.wait_for("Select: y")
    # The other branch has gone on, and would have been drawn several times by now.
    assert run.stays_silent(0.5)
    run.press("\n")
    run.wait_for("ok    one")
    run.wait_for("two")
    (workdir / "stop").touch()
    assert run.wait() == 0
    rows = draw(run.shown, 100)
    assert rows.index("Select: y") < rows.index("  Ship it? [Y] Yes")
    assert (workdir / "shipped").exists()


def test_what_happened_before_a_question_stands_above_it(
    terminal: Callable[..., Any], tmp_path: Path, workdir: Path
) -> None:
    source = tmp_path / "gate.dot"
    source.write_text(
        """digraph gate { start [shape=Mdiamond]; exit [shape=Msquare]
        build [shape=parallelogram, tool_command="echo built"]; gate [shape=hexagon, label="Ship it?"]
        start -> build -> gate -> exit }"""
    )
    run = terminal("run", source, "--workdir", workdir)
    run.wait_for("Select: ")
    rows = draw(run.shown, 100)
    assert [row.split()[0] for row in rows if row][-4:] == ["ok", "[?]", "[E]", "Select:"]
    run.press("\x03")
    assert run.wait() == 130


STUBBORN = """digraph stubborn {
    start [shape=Mdiamond]; exit [shape=Msquare]
    node  [shape=parallelogram]
    first [tool_command="echo first >> ran"]
    second [label="Stubborn",
            tool_command="trap '' TERM INT HUP; echo second >> ran; while [ ! -e go ]; do sleep 0.05; done"]
    start -> first -> second -> exit
}"""


@pytest.fixture
def stubborn(tmp_path: Path) -> Path:
    path = tmp_path / "stubborn.dot"
    path.write_text(STUBBORN)
    return path


def ran(workdir: Path) -> list[str]:
    return (workdir / "ran").read_text().split() if (workdir / "ran").exists() else []


def test_ctrl_c_stops_a_stage_that_ignores_it(
    terminal: Callable[..., Any], attractor: Callable[..., Any], stubborn: Path, workdir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    run = terminal("run", stubborn, "--workdir", workdir, "--logs", folder, columns=300)
    wait_until(lambda: ran(workdir) == ["first", "second"])
    run.press("\x03")
    run.wait_for("Stopping. Ctrl-C once more kills at once.")
    assert run.wait() == 130
    assert f"attractor resume {folder}" in run.shown
    assert run.shown.rfind("\x1b[?25l") < run.shown.rfind("\x1b[?25h"), "the cursor is back"
    assert "first" in json.loads((folder / "checkpoint.json").read_text())["completed_nodes"]
    wait_until(lambda: not is_alive(workdir))
    (workdir / "go").touch()
    assert attractor("resume", folder, "--quiet").code == 0
    assert ran(workdir) == ["first", "second", "second"]


def test_ctrl_c_twice_kills_at_once_and_says_how_to_go_on(
    terminal: Callable[..., Any], attractor: Callable[..., Any], stubborn: Path, workdir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    run = terminal("run", stubborn, "--workdir", workdir, "--logs", folder, columns=300)
    wait_until(lambda: ran(workdir) == ["first", "second"])
    run.press("\x03")
    run.wait_for("Stopping.")
    begun = time.monotonic()
    run.press("\x03")
    assert run.wait() == 130
    assert time.monotonic() - begun < 1.9, "the stage has two seconds to end; the second Ctrl-C doesn't wait for them"
    assert f"Killed. To go on: attractor resume {folder}" in run.shown
    assert run.shown.rfind("\x1b[?25l") < run.shown.rfind("\x1b[?25h"), "the cursor is back"
    wait_until(lambda: not is_alive(workdir))
    (workdir / "go").touch()
    assert attractor("resume", folder, "--quiet").code == 0
    assert ran(workdir) == ["first", "second", "second"]


def test_a_closed_window_leaves_a_run_to_go_on_with(
    terminal: Callable[..., Any], attractor: Callable[..., Any], stubborn: Path, workdir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    run = terminal("run", stubborn, "--workdir", workdir, "--logs", folder)
    wait_until(lambda: ran(workdir) == ["first", "second"])
    run.hang_up()
    assert run.wait() == 130
    wait_until(lambda: not is_alive(workdir))
    assert "cancelled" in attractor("runs", "--logs", tmp_path).out
    (workdir / "go").touch()
    assert attractor("resume", folder, "--quiet").code == 0


class Terminal(io.StringIO):
    """A terminal of this process."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_rows_say_what_a_stage_does_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    screen = TerminalScreen(shown, clock=lambda: 65.0)
    progress = Progress(screen, Graph("g", {"work": Node("work", {"label": "Hard work"})}, ()))

    def happen(*events: Event, shows: str) -> None:
        for event in events:
            progress.show(event)
        wait_until(lambda: shows in shown.getvalue())

    usage = {"input_tokens": 1000, "output_tokens": 200, "cost": 0.0031}
    try:
        happen(PipelineStarted(name="g", id="1"), StageStarted(name="work", index=0), shows="0 s  work  Hard work")
        happen(StageActivity(name="work", index=0, activity="tool_start", text="grep foo"), shows="Hard work  grep foo")
        happen(StageFailed(name="work", index=0, error="no", will_retry=True), shows="FAIL  work  Hard work  no")
        happen(StageRetrying(name="work", index=0, attempt=2, delay=0.5), shows="Hard work, attempt 2")
        happen(
            ChildProgressed(name="work", cycle=1, status="running", active_stage="a", completed=2), shows="2 done  a"
        )
        happen(
            InterviewTimeout(question="Well?", stage="q", duration=90), shows="Well? nobody answered within 1 min 30 s"
        )
        happen(StageCompleted(name="work", index=0, duration=3, usage=usage), shows="3.0 s  1200 tokens, $0.0031")
        happen(StageStarted(name="work", index=1), shows="  1 done  1200 tokens, $0.0031  0 s")
    finally:
        screen.close()
