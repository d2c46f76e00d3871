"""What `attractor run` shows: stage by stage on stderr, the result on stdout, and a moving line at a terminal."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = """digraph show {
    graph [goal="be seen", label="Shown"]
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    ask   [label="Ask someone", prompt="Well?"]
    flaky [shape=parallelogram, max_retries=1, tool_command="mkdir tried || exit 0; echo 'not yet' >&2; exit 1"]
    start -> ask -> flaky -> exit
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "show.dot"
    path.write_text(SOURCE)
    return path


def test_progress_goes_to_stderr_and_the_result_to_stdout(attractor: Callable, source: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = attractor("run", source, "--simulate", "--workdir", tmp_path, "--logs", run)
    assert ended.code == 0
    assert "Shown: be seen" in ended.err
    assert "Ask someone" in ended.err
    assert "not yet" in ended.err
    assert "attempt 2" in ended.err
    assert ended.err.index("FAIL") < ended.err.index("retry") < ended.err.rindex("ok")
    assert "\x1b" not in ended.err + ended.out
    assert ended.out.startswith("[Simulated] Response for stage: ask\n")
    assert "success in" in ended.out
    assert str(run) in ended.out


def test_quiet(attractor: Callable, source: Path, tmp_path: Path) -> None:
    ended = attractor("run", source, "--simulate", "--quiet", "--workdir", tmp_path)
    assert (ended.code, ended.err) == (0, "")


def test_default_run_directory(attractor: Callable, source: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    attractor("run", source, "--simulate", "--workdir", tmp_path)
    (run,) = (Path(environment["XDG_STATE_HOME"]) / "attractor/runs").iterdir()
    assert (run / "checkpoint.json").exists()
    assert (run / "ask/response.md").read_text()


def test_failure_says_why_and_how_to_go_on(attractor: Callable, source: Path, tmp_path: Path) -> None:
    source.write_text(SOURCE.replace("mkdir tried || exit 0; ", ""))
    run = tmp_path / "run"
    ended = attractor("run", source, "--simulate", "--workdir", tmp_path, "--logs", run)
    assert ended.code == 1
    assert "not yet" in ended.out
    assert f"attractor resume {run}" in ended.err


def test_script_decides_outcomes(attractor: Callable, source: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"ask": {"status": "fail", "failure_reason": "as written"}}))
    ended = attractor("run", source, "--script", script, "--workdir", tmp_path, "--json")
    assert ended.code == 1
    assert "as written" in json.loads(ended.out)["failure_reason"]


def test_set_reaches_goal_and_context(attractor: Callable, source: Path, tmp_path: Path) -> None:
    source.write_text(
        """digraph set {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            ask   [prompt="Do: $goal"]
            yes   [shape=parallelogram, tool_command="echo $goal > yes"]
            no    [shape=parallelogram, tool_command="echo $goal > no"]
            start -> ask
            ask -> yes [condition="context.mode=fast"]
            ask -> no  [condition="context.mode!=fast"]
            yes -> exit
            no  -> exit
        }"""
    )
    run = tmp_path / "run"
    arguments = ("run", source, "--simulate", "--workdir", tmp_path, "--logs", run)
    assert attractor(*arguments, "--set", "mode=fast", "--set", "goal=a=b c").code == 0
    assert (tmp_path / "yes").read_text() == "a=b c\n"
    assert "Do: a=b c" in (run / "ask/prompt.md").read_text()


def test_source_from_stdin(environment: dict[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "attractor", "run", "-", "--simulate", "--workdir", tmp_path],
        input=SOURCE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended


def test_terminal_shows_what_is_going_on(terminal: Callable, tmp_path: Path) -> None:
    source = tmp_path / "slow.dot"
    source.write_text(
        """digraph slow {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            work  [shape=parallelogram, label="Slow work", tool_command="while [ ! -e go ]; do sleep 0.05; done"]
            start -> work -> exit
        }"""
    )
    run = terminal("run", source, "--workdir", tmp_path, "--logs", tmp_path / "run")
    run.wait_for("1 s  work   Slow work")
    assert "\x1b[" in run.shown
    (tmp_path / "go").touch()
    assert run.wait() == 0
    assert "success in" in run.shown
    assert run.shown.rstrip().rfind("\x1b[?25l") < run.shown.rfind("\x1b[?25h"), "the cursor is back"


def test_ctrl_c_at_a_terminal(terminal: Callable, tmp_path: Path) -> None:
    source = tmp_path / "endless.dot"
    source.write_text(
        """digraph endless {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            work  [shape=parallelogram, label="Endless", tool_command="while :; do sleep 0.05; done"]
            start -> work -> exit
        }"""
    )
    run = terminal("run", source, "--workdir", tmp_path, "--logs", tmp_path / "run")
    run.wait_for("Endless")
    run.press("\x03")
    assert run.wait() == 130
    assert f"attractor resume {tmp_path / 'run'}" in run.shown
    assert "Traceback" not in run.shown


GATE = """digraph gate {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    gate  [shape=hexagon, label="Ship it?"]
    yes   [shape=parallelogram, tool_command="touch shipped"]
    no    [shape=parallelogram, tool_command="touch fixed"]
    start -> gate
    gate -> yes [label="[S] Ship"]
    gate -> no  [label="[F] Fix"]
    yes -> exit
    no -> exit
}
"""


def test_human_gate_at_a_terminal(terminal: Callable, tmp_path: Path) -> None:
    source = tmp_path / "gate.dot"
    source.write_text(GATE)
    run = terminal("run", source, "--workdir", tmp_path)
    run.wait_for("Select: ")
    assert "Ship it?" in run.shown
    run.press("nonsense\n")
    run.wait_for("nonsense")
    run.press("f\n")
    assert run.wait() == 0
    assert (tmp_path / "fixed").exists()
    assert not (tmp_path / "shipped").exists()


def test_human_gate_approved_by_nobody(attractor: Callable, tmp_path: Path) -> None:
    source = tmp_path / "gate.dot"
    source.write_text(GATE)
    assert attractor("run", source, "--auto-approve", "--workdir", tmp_path).code == 0
    assert (tmp_path / "shipped").exists()


def test_human_gate_answered_through_a_pipe(environment: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "gate.dot"
    source.write_text(GATE)
    command = [sys.executable, "-m", "attractor", "run", source, "--workdir", tmp_path]
    for answer, code in (("f\n", 0), ("", 3)):
        ended = subprocess.run(command, input=answer, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == code, ended
    assert (tmp_path / "fixed").exists()
    assert "The question is left for later." in ended.stderr


def test_answers_can_not_drive_the_terminal(terminal: Callable, tmp_path: Path) -> None:
    source = tmp_path / "escape.dot"
    source.write_text(
        """digraph escape {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            work  [shape=parallelogram, tool_command="printf '\\\\033]0;owned\\\\007' >&2; exit 1"]
            start -> work -> exit
        }"""
    )
    run = terminal("run", source, "--workdir", tmp_path, "--logs", tmp_path / "run")
    assert run.wait() == 1
    assert "owned" in run.shown
    assert "\x1b]0;" not in run.shown


def test_answers_can_not_drive_the_terminal_that_shows_a_log_later(
    attractor: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "escape.dot"
    source.write_text(
        """digraph escape {
            start [shape=Mdiamond]
            exit  [shape=Msquare]
            work  [shape=parallelogram, tool_command="printf '\\033]0;owned\\007'"]
            gate  [shape=hexagon, label="Go \x1b[2J on?"]
            start -> work -> gate
            gate -> exit [label="Go\x1b[1A"]
        }"""
    )
    run_dir = tmp_path / "run"
    monkeypatch.setattr("sys.stdin", io.StringIO("G\n"))
    ran = attractor("run", source, "--workdir", tmp_path, "--logs", run_dir)
    shown = [ran, attractor("show", run_dir), attractor("logs", run_dir), attractor("lint", source)]
    assert ran.code == 0, ran.err
    assert "Go \\x1b[2J on?" in ran.err
    assert not any("\x1b" in ended.out + ended.err for ended in shown)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
    assert "\x1b[1A" in attractor("fmt", "-").out, "a file goes on as it is"


def test_help_imports_little() -> None:
    """Whoever asks for help waits for nothing that only a run needs."""
    program = (
        "import sys, contextlib\n"
        "from attractor.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print('imported', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = ended.stdout.split("imported", 1)[1].split()
    heavy = {"httpx", "jsonschema", "pydantic", "rich", "unified_llm", "agent_loop"}
    assert not heavy.intersection(imported)


def test_a_run_without_models_imports_no_client() -> None:
    """What only a model's stages need isn't loaded for a run that has none of them."""
    program = "import attractor, sys; print(*sys.modules); import attractor.cli.run; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    alone, running = (set(line.split()) for line in ended.stdout.splitlines())
    assert not alone & {"lark", "anyio", "attractor.dot", "attractor.pipeline"}
    assert not running & {"unified_llm", "pydantic", "agent_loop.session", "agent_loop.environments.docker", "rich"}
