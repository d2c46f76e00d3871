"""Beginning with nothing: `attractor init`, and what a shell completes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GATE = """digraph release { start [shape=Mdiamond]; exit [shape=Msquare]
    gate [shape=hexagon, label="Ship it?"]; ship [shape=parallelogram, tool_command="true"]
    start -> gate; gate -> ship [label="[Y] Yes"]; gate -> exit [label="[N] No"]; ship -> exit }"""


def test_init_writes_a_pipeline_that_lints_clean_and_runs(attractor: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "new/my pipeline"
    written = attractor("init", folder)
    assert written.code == 0
    place = folder / "pipeline.dot"
    assert written.out.splitlines()[-2:] == [f"  attractor run '{place}' --simulate", f"  attractor run '{place}'"]
    linted = attractor("lint", place, "--strict")
    assert (linted.code, linted.err[:20]) == (0, "0 errors, 0 warnings")
    assert attractor("fmt", place, "--check").code == 0
    run = attractor("run", place, "--simulate", "--auto-approve", "--workdir", folder)
    assert run.code == 0, run
    assert (folder / "haiku.txt").read_text() == "[Simulated] Response for stage: draft"


def test_the_starter_runs_with_a_model_and_asks(
    terminal: Callable[..., Any], attractor: Callable[..., Any], chat_server: Any, tmp_path: Path
) -> None:
    attractor("init", tmp_path)
    run = terminal(
        *("run", tmp_path / "pipeline.dot", "--model", "m", "--backend", "llm", "--workdir", tmp_path),
        OPENAI_COMPATIBLE_BASE_URL=chat_server.url,
    )
    run.wait_for("Select: ")
    run.press("k\n")
    assert run.wait() == 0
    assert (tmp_path / "haiku.txt").read_text() == chat_server.answer


def test_init_overwrites_nothing(attractor: Callable[..., Any], tmp_path: Path) -> None:
    place = tmp_path / "pipeline.dot"
    place.write_text("mine")
    refused = attractor("init", tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert f"{place} exists already" in refused.err
    assert place.read_text() == "mine"
    onto_a_file = attractor("init", place)
    assert onto_a_file.code == 2
    assert "is a file" in onto_a_file.err
    assert "can't be written" in attractor("init", "/proc/nowhere").err


@pytest.fixture
def complete(environment: dict[str, str]) -> Callable[..., list[str]]:
    """What bash is told to complete the last word to."""

    def ask(*words: str | Path) -> list[str]:
        line = ["attractor", *map(str, words)]
        asked = {"_ATTRACTOR_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(words))}
        ended = subprocess.run(
            [sys.executable, "-c", "from attractor.cli import main; main()"],
            env=environment | asked,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stderr == ""
        return ended.stdout.split()

    return ask


@pytest.fixture
def waiting(attractor: Callable[..., Any], environment: dict[str, str], tmp_path: Path) -> Path:
    """A run that asks something, where runs are by default."""
    source = tmp_path / "release.dot"
    source.write_text(GATE)
    assert attractor("run", source, "--detach", "--quiet").code == 3
    (folder,) = (Path(environment["XDG_STATE_HOME"]) / "attractor/runs").iterdir()
    return folder


def test_completion_of_commands_and_options(complete: Callable[..., list[str]]) -> None:
    assert complete("re") == ["plain,resume"]
    assert "plain,--simulate" in complete("run", "--si")


@pytest.mark.parametrize("command", ["resume", "show", "logs", "answer"])
def test_completion_of_run_directories(complete: Callable[..., list[str]], waiting: Path, command: str) -> None:
    assert f"plain,{waiting}" in complete(command, waiting.name[:8])
    assert f"plain,{waiting}" in complete(command, str(waiting)[:-3])
    assert f"plain,{waiting}" not in complete(command, "elsewhere")


def test_completion_of_stages_answers_and_questions(complete: Callable[..., list[str]], waiting: Path) -> None:
    assert complete("resume", waiting, "--from", "s") == ["plain,start", "plain,ship"]
    assert complete("resume", "--from", "ex") == []
    assert complete("answer", waiting, "") == ["plain,Y", "plain,N"]
    assert complete("answer", waiting, "--question", "q") == ["plain,q1"]
    assert complete("answer", waiting.parent, "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(attractor: Callable[..., Any], shell: str) -> None:
    script = attractor("completion", shell)
    assert script.code == 0
    assert f"_ATTRACTOR_COMPLETE={shell}_complete" in script.out
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script.out, text=True, check=False).returncode == 0
    assert attractor("completion", "csh").code == 2
