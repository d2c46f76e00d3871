"""What goes wrong on the command line is told in one clear sentence, with an exit code, and never as a traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attractor.cli import app, failure

HELLO = """digraph hello {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    hello [prompt="Say hello", max_tokens=8]
    start -> hello -> exit
}
"""
SHELL = """digraph shell {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    work  [shape=parallelogram, tool_command="%s"]
    start -> work -> exit
}
"""


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    path = tmp_path / "hello.dot"
    path.write_text(HELLO)
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], Path]:
    def write(command: str) -> Path:
        path = tmp_path / "shell.dot"
        path.write_text(SHELL % command.replace('"', '\\"'))
        return path

    return write


@pytest.mark.parametrize("command", ["run", "lint", "parse"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent.dot", "does not exist"),
        ("folder", "is a directory"),
        ("latin.dot", "is not UTF-8 text (line 2, byte 0xe9)"),
        ("plain.dot/below.dot", "can't be read"),
        ("nul\0.dot", "can't be read"),
    ],
)
def test_unreadable_input(attractor: Callable, tmp_path: Path, command: str, name: str, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.dot").write_bytes(b'digraph latin {\n a [label="caf\xe9"]\n}')
    (tmp_path / "plain.dot").write_text(HELLO)
    ended = attractor(command, f"{tmp_path}/{name}")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission(attractor: Callable, hello: Path) -> None:
    hello.chmod(0)
    ended = attractor("run", hello, "--simulate")
    assert ended.code == 2
    assert "Permission denied" in ended.err


@pytest.mark.parametrize("command", [["run"], ["parse"]])
def test_syntax_error_shows_the_place(attractor: Callable, tmp_path: Path, command: list[str]) -> None:
    path = tmp_path / "broken.dot"
    path.write_text("digraph broken {\n    a -- b\n}\n")
    ended = attractor(*command, path)
    assert ended.code == 2
    lines = ended.err.splitlines()
    assert f"{path}:2:7:" in lines[0]
    assert lines[1].index("--") == lines[2].index("^")
    assert "hint:" in lines[3]


def test_run_refused_by_lint_shows_all_findings(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "bad.dot"
    path.write_text('digraph bad { start [shape=Mdiamond]; a; b; start -> a; a -> a [condition="="] }')
    ended = attractor("run", path, "--simulate", "--logs", tmp_path / "run")
    assert ended.code == 1
    for rule in ("terminal_node", "reachability", "condition_syntax"):
        assert f"[{rule}]" in ended.err
    assert ended.err.count("[terminal_node]") == 1
    assert "was not run" in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "goal"], "'goal' is not KEY=VALUE"),
        (["--set", "=x"], "is not KEY=VALUE"),
        (["--workdir", "/nonexistent/folder"], "does not exist"),
        (["--backend", "nope"], "'nope' is not"),
        (["--simulate", "--provider", "local"], "call no model"),
        (["--bogus"], "No such option"),
    ],
)
def test_bad_usage(attractor: Callable, hello: Path, arguments: list[str], says: str) -> None:
    ended = attractor("run", hello, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "--help" in ended.err


def test_unknown_command(attractor: Callable) -> None:
    ended = attractor("resum")
    assert ended.code == 2
    assert "No such command 'resum'. Did you mean 'resume'?" in ended.err
    assert "error: No such command 'xyz'.\n" in attractor("xyz").err


def test_a_file_whose_name_is_nearly_right(attractor: Callable, hello: Path, tmp_path: Path) -> None:
    ended = attractor("lint", hello.with_name(hello.name[1:]))
    assert f"does not exist. Did you mean {hello}?" in ended.err
    assert "Did you mean" not in attractor("lint", tmp_path / "nowhere/near.dot").err


def test_no_key_names_the_ways_out(attractor: Callable, hello: Path, tmp_path: Path) -> None:
    ended = attractor("run", hello, "--logs", tmp_path / "run")
    assert ended.code == 2
    for way in ("ANTHROPIC_API_KEY", "OPENAI_COMPATIBLE_BASE_URL", "--provider local", "--simulate"):
        assert way in ended.err
    assert not (tmp_path / "run").exists()


def test_pipeline_without_model_stages_needs_no_key(attractor: Callable, shell: Callable) -> None:
    assert attractor("run", shell("true")).code == 0


def test_provider_that_is_not_configured(attractor: Callable, hello: Path) -> None:
    ended = attractor("run", hello, "--provider", "anthropic")
    assert ended.code == 2
    assert "ANTHROPIC_API_KEY" in ended.err


def test_unreachable_server_is_named(
    attractor: Callable, hello: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", "http://127.0.0.1:9/v1")
    ended = attractor("run", hello, "--model", "m", "--logs", tmp_path / "run")
    assert ended.code == 1
    assert "http://127.0.0.1:9/v1" in ended.err + ended.out
    assert f"attractor resume {tmp_path / 'run'}" in ended.err


def test_wrong_key(attractor: Callable, hello: Path, chat_server, monkeypatch: pytest.MonkeyPatch) -> None:
    chat_server.status, chat_server.error = 401, "Incorrect API key provided."
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "sk-hunter2")
    ended = attractor("run", hello, "--model", "m")
    assert ended.code == 1
    assert "Incorrect API key provided." in ended.out
    assert len(chat_server.requests) == 1, "a wrong key must not be tried again"
    assert "hunter2" not in ended.out + ended.err


def test_run_directory_that_can_not_be_made(attractor: Callable, shell: Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = attractor("run", shell("true"), "--logs", tmp_path / "file/run")
    assert ended.code == 2
    assert f"{tmp_path / 'file/run'}" in ended.err


def test_run_directory_that_holds_a_run(attractor: Callable, shell: Callable, tmp_path: Path) -> None:
    source = shell("echo once >> count")
    first = attractor("run", source, "--logs", tmp_path / "run", "--workdir", tmp_path)
    again = attractor("run", source, "--logs", tmp_path / "run", "--workdir", tmp_path)
    assert (first.code, again.code) == (0, 2)
    assert "resume" in again.err
    assert (tmp_path / "count").read_text() == "once\n"


def test_resume_of_nothing(attractor: Callable, tmp_path: Path) -> None:
    ended = attractor("resume", tmp_path / "absent")
    assert ended.code == 2
    assert "not a run directory" in ended.err


@pytest.mark.parametrize("damage", ['{"current_node": "wo', "", "[]", '{"format": 1}'])
def test_resume_of_a_corrupt_checkpoint(attractor: Callable, shell: Callable, tmp_path: Path, damage: str) -> None:
    run = tmp_path / "run"
    attractor("run", shell("echo ran >> count; exit 1"), "--logs", run, "--workdir", tmp_path)
    ran = (tmp_path / "count").read_text()
    (run / "checkpoint.json").write_text(damage)
    (run / "journal.jsonl").unlink()
    ended = attractor("resume", run)
    assert ended.code == 2
    assert "checkpoint.json" in ended.err
    assert "Traceback" not in ended.err
    assert (tmp_path / "count").read_text() == ran, "nothing may run again in silence"


def test_damaged_manifest(attractor: Callable, shell: Callable, tmp_path: Path) -> None:
    run = tmp_path / "run"
    attractor("run", shell("exit 1"), "--logs", run)
    for damage in ("{", json.dumps({"options": "x"}), json.dumps({"options": {"simulate": [], "assignments": 3}})):
        (run / "manifest.json").write_text(damage)
        ended = attractor("resume", run)
        assert ended.code == 2, ended
        assert "manifest.json" in ended.err


def test_reader_that_goes_away_is_no_failure(shell: Callable, environment: dict[str, str], tmp_path: Path) -> None:
    """`attractor parse | head -1`, and the same for a run whose progress nobody reads."""
    big = tmp_path / "big.dot"
    big.write_text("digraph big {" + "".join(f"a{i} -> a{i + 1};" for i in range(20_000)) + "}")
    attractor = f"{sys.executable} -m attractor"
    script = (
        f"{attractor} parse {big} | head -1; echo ${{PIPESTATUS[0]}};"
        f"{attractor} run {shell('touch done')} --workdir {tmp_path} 2>&1 | true; echo ${{PIPESTATUS[0]}}"
    )
    ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["{", "0", "0"]
    assert ended.stderr == ""
    assert (tmp_path / "done").exists()


def test_closed_streams(shell: Callable, environment: dict[str, str], tmp_path: Path) -> None:
    script = f"{sys.executable} -m attractor run {shell('touch done')} --workdir {tmp_path} <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", script], env=environment, check=False).returncode == 0
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("command", ["parse", "lint --json", "run --simulate --json --quiet", "--help", "--version"])
def test_full_disk_under_stdout(hello: Path, environment: dict[str, str], command: str) -> None:
    script = f"{sys.executable} -m attractor {command} {hello} > /dev/full"
    ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "error: the output can't be written: No space left on device." in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["--help", "run --help", "--version", "doctor"])
def test_help_that_nobody_reads_is_no_failure(environment: dict[str, str], command: str) -> None:
    script = f"{sys.executable} -m attractor {command} | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


class Boom(Exception):
    pass


@pytest.fixture
def broken_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise Boom("the unexpected")

    monkeypatch.setattr(app.LazyGroup, "get_command", explode)


def test_unexpected_error_is_one_sentence_and_a_file(
    attractor: Callable, broken_command: None, environment: dict[str, str]
) -> None:
    ended = attractor("lint", "x.dot")
    assert ended.code == 1
    assert "the unexpected" in ended.err
    assert "Traceback" not in ended.err
    (crash,) = Path(environment["XDG_STATE_HOME"]).rglob("attractor-crash-*.txt")
    assert str(crash) in ended.err
    assert "Traceback" in crash.read_text()
    assert "Boom" in crash.read_text()


def test_debug_shows_the_traceback(attractor: Callable, broken_command: None) -> None:
    assert "Traceback" in attractor("lint", "x.dot", "--debug").err


def test_error_in_a_group_of_one_is_told_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    error = ExceptionGroup("group", [ExceptionGroup("inner", [failure.CommandError("the reason.")])])
    assert failure.report_failure(error, debug=False) == 2
    assert capsys.readouterr().err == "error: the reason.\n"
