"""The command line in bad company: places that can't be used, odd locales, ignored signals, closed stdin."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attractor.cli import failure

HELLO = """digraph hello {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    hello [prompt="Say hello", max_tokens=8]
    start -> hello -> exit
}
"""
GATE = """digraph gate {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    gate  [shape=hexagon, label="Größe 😀?"]
    "größe" [shape=parallelogram, tool_command="true"]
    start -> gate
    gate -> "größe" [label="[J] Jä"]
    "größe" -> exit
}
"""


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    path = tmp_path / "hello.dot"
    path.write_text(HELLO)
    return path


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate.dot"
    path.write_text(GATE)
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", ""],
        ["run", "HELLO", "--logs", ""],
        ["run", "HELLO", "--workdir", ""],
        ["run", "HELLO", "--script", ""],
        ["resume", ""],
        ["show", ""],
        ["logs", ""],
        ["answer", ""],
        ["runs", "--logs", ""],
        ["init", ""],
        ["lint", ""],
        ["fmt", ""],
        ["graph", "HELLO", "-o", ""],
        ["graph", "--run", ""],
        ["serve", "--logs", ""],
        ["memory", "show", "--memory", ""],
    ],
    ids=" ".join,
)
def test_an_empty_name_is_not_the_current_directory(
    attractor: Callable, hello: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """A shell makes one of a variable that isn't set."""
    monkeypatch.chdir(tmp_path)
    ended = attractor(*(str(hello) if word == "HELLO" else word for word in arguments))
    assert (ended.code, ended.out) == (2, "")
    assert "is empty" in ended.err
    assert os.listdir(tmp_path) == ["hello.dot"]


@pytest.mark.parametrize("command", ["resume", "show", "logs", "answer", "runs --logs", "graph --run"])
def test_a_place_that_can_not_be_looked_at_is_no_unexpected_error(
    attractor: Callable, command: str, tmp_path: Path
) -> None:
    ended = attractor(*command.split(), tmp_path / ("a" * 300))
    assert (ended.code, ended.out) == (2, "")
    assert "can't be read or written: File name too long." in ended.err


def test_a_missing_permission_is_told_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "runs/one/events.jsonl")
    assert failure.report_failure(error, debug=False) == 2
    assert capsys.readouterr().err == "error: runs/one/events.jsonl can't be read or written: Permission denied.\n"


def test_run_mixes_its_files_with_no_others(attractor: Callable, hello: Path, tmp_path: Path) -> None:
    ended = attractor("run", hello, "--simulate", "--logs", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path} is neither new nor empty: name another directory with --logs." in ended.err
    assert os.listdir(tmp_path) == ["hello.dot"]


@pytest.mark.parametrize("amount", ["nan", "inf", "-1", "much", ""])
def test_an_amount_that_is_none(attractor: Callable, hello: Path, amount: str) -> None:
    ended = attractor("run", hello, "--simulate", "--max-cost", amount)
    assert (ended.code, ended.out) == (2, "")
    assert f"{amount!r} is not an amount in US dollars, such as 2.50." in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["logs", ".", "--after", "x"], "'x' is not a whole number of 0 or more."),
        (["serve", "--port", "70000"], "'70000' is not a whole number from 0 to 65535."),
    ],
)
def test_a_number_that_is_none(attractor: Callable, arguments: list[str], says: str) -> None:
    ended = attractor(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


def test_fmt_goes_on_after_a_file_that_it_can_not_read(attractor: Callable, hello: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.dot").write_text("digraph {")
    ended = attractor("fmt", tmp_path / "absent.dot", tmp_path / "broken.dot", hello)
    assert (ended.code, ended.out) == (2, "")
    assert ["does not exist" in ended.err, "broken.dot:1:" in ended.err] == [True, True]
    assert f"reformatted {hello}" in ended.err
    assert attractor("fmt", "--check", hello).code == 0


def test_a_byte_order_mark_is_not_shown(attractor: Callable, tmp_path: Path) -> None:
    path = tmp_path / "marked.dot"
    path.write_text("\ufeff" + HELLO.replace("\n", " "), "utf-8")
    assert "\ufeff" not in attractor("lint", path).out


def test_what_is_to_be_typed_is_quoted(attractor: Callable, gate: Path, tmp_path: Path) -> None:
    run = tmp_path / "my runs/it's one"
    ended = attractor("run", gate, "--detach", "--quiet", "--logs", run)
    quoted = f"'{tmp_path}/my runs/it'\"'\"'s one'"
    assert ended.code == 3
    assert ended.err == f"To answer: attractor answer {quoted} KEY\nTo go on then: attractor resume {quoted}\n"
    assert attractor("answer", run, "J").err == f"Answered. To go on: attractor resume {quoted}\n"


@pytest.mark.parametrize("command", ["parse {}", "lint --json {}", "lint --sarif {}", "fmt - < {}"])
def test_data_is_utf_8_in_every_locale(gate: Path, environment: dict[str, str], command: str) -> None:
    line = f"{sys.executable} -m attractor {command.format(gate)}"
    ended = subprocess.run(
        ["sh", "-c", line], env=environment | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    written = ended.stdout.decode("utf-8")
    assert "größe" in written
    assert "\\xf6" not in written
    if "fmt" not in command:
        json.loads(written)


def test_a_closed_stdin_is_an_empty_one(environment: dict[str, str]) -> None:
    line = f"{sys.executable} -m attractor memory seed - <&-; {sys.executable} -m attractor parse - <&-"
    ended = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ["is not JSON" in ended.stderr, "the file is empty" in ended.stderr] == [True, True]
    assert "did not expect" not in ended.stderr


@pytest.mark.parametrize(
    ("attrs", "exit_code", "said"),
    [
        ("", 3, "The question is left for later. (--detach leaves questions for later"),
        (', "human.default_choice"=J', 0, "The gate's default is taken"),
        (', "human.default_choice"=J, "human.timeout"="300ms"', 0, "can still answer until the gate's time is over"),
        (', "human.timeout"="300ms"', 1, "--auto-approve takes first choices"),
    ],
)
def test_a_gate_without_anybody_says_what_to_do(
    gate: Path, environment: dict[str, str], attrs: str, exit_code: int, said: str
) -> None:
    """Nor does it fail for the want of a person, as long as there is another way."""
    gate.write_text(gate.read_text().replace("shape=hexagon", f"shape=hexagon{attrs}"))
    logs = gate.parent / "run"
    line = [sys.executable, "-m", "attractor", "run", str(gate), "--quiet", "--logs", str(logs)]
    ended = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (ended.returncode, said in ended.stderr) == (exit_code, True), ended.stderr
    if exit_code:
        line = [sys.executable, "-m", "attractor", "resume", str(logs), "--quiet"]
        resumed = subprocess.run(line, env=environment, input="J\n", capture_output=True, text=True, check=False)
        assert (resumed.returncode, "[?]" in resumed.stderr) == (0, True)


def test_hanging_up_stops_a_run_unless_nohup_said_otherwise(
    start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    source = tmp_path / "slow.dot"
    source.write_text(HELLO.replace('prompt="Say hello"', 'shape=parallelogram, tool_command="echo up > up; sleep 60"'))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ignoring = start("run", source, "--workdir", tmp_path, "--logs", tmp_path / "ignoring")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ignoring.stderr is not None
    while "hello" not in ignoring.stderr.readline():
        pass
    ignoring.send_signal(signal.SIGHUP)
    ignoring.send_signal(signal.SIGTERM)
    _, told = ignoring.communicate(timeout=30)
    # Two signals that count would have killed it at once.
    assert ["Killed" in told, "interrupted" in told, "attractor resume" in told] == [False, False, True]
    assert ignoring.returncode == 130


def test_serve_says_where_it_can_not_keep_runs(attractor: Callable, hello: Path) -> None:
    ended = attractor("serve", "--port", "0", "--logs", hello / "runs")
    assert (ended.code, ended.out) == (2, "")
    assert "choose another place with --logs" in ended.err
    assert "Serving" not in ended.err


def test_a_memory_begins_with_a_basin_at_least(attractor: Callable, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.json"
    seeds.write_text("[]")
    assert "holds an empty list" in attractor("memory", "seed", seeds).err
    seeds.write_text('[{"label": "Planning"}]')
    assert attractor("memory", "seed", seeds).code == 0
    again = attractor("memory", "seed", seeds)
    assert (again.code, "add --force" in again.err) == (2, True)


def test_doctor_tells_versions(attractor: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {"git": "echo git version 2.51.3", "rg": "exit 1", "docker": "echo Docker version 99.1, build abc"}
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    details = {found["name"]: found["detail"] for found in json.loads(attractor("doctor", "--json").out)}
    assert details["git"] == f"2.51.3  {tmp_path}/git"
    assert details["docker"] == f"99.1  {tmp_path}/docker"
    assert details["rg"] == f"{tmp_path}/rg"


def test_show_tells_tokens_and_cost(
    attractor: Callable, hello: Path, tmp_path: Path, chat_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    run = tmp_path / "run"
    ended = attractor("run", hello, "--backend", "llm", "--model", "gpt-5.2", "--logs", run, "--quiet")
    assert ended.code == 0, ended
    shown = attractor("show", run).out
    record = json.loads(attractor("show", run, "--json").out)
    used, (stage,) = record["usage"], [one for one in record["stages"] if one["stage"] == "hello"]
    assert [used["input_tokens"], used["output_tokens"]] == [17, 6]
    assert stage["usage"] == used
    assert used["cost"] > 0
    assert f"used    23 tokens, ${used['cost']:.4f}" in shown
    assert any("hello" in line and "23 tokens" in line for line in shown.splitlines())


def test_a_failed_command_takes_the_way_of_failure(attractor: Callable, tmp_path: Path) -> None:
    source = tmp_path / "ways.dot"
    for command, says in (("exit 3", "3"), ("no-such-program-anywhere", "127")):
        source.write_text(
            f"""digraph ways {{
                start [shape=Mdiamond]; exit [shape=Msquare]
                work [shape=parallelogram, tool_command="echo told >&2; {command}"]
                done [shape=parallelogram, tool_command="true"]
                fix  [shape=parallelogram, tool_command="true"]
                start -> work
                work -> done [condition="outcome=success"]
                work -> fix  [condition="outcome=fail"]
                done -> exit; fix -> exit
            }}"""
        )
        run = tmp_path / f"run {says}"
        ended = attractor("run", source, "--json", "--quiet", "--logs", run)
        assert (ended.code, json.loads(ended.out)["completed_nodes"]) == (0, ["start", "work", "fix", "exit"])
        assert says in json.loads((run / "work/status.json").read_text())["failure_reason"]
        assert "told" in (run / "work/tool_output.txt").read_text()


def test_resume_tries_the_failed_stage_again(attractor: Callable, tmp_path: Path) -> None:
    source, run = tmp_path / "heals.dot", tmp_path / "run"
    source.write_text(HELLO.replace('prompt="Say hello"', 'shape=parallelogram, tool_command="test -e healed"'))
    assert attractor("run", source, "--workdir", tmp_path, "--logs", run).code == 1
    assert attractor("resume", run).code == 1
    (tmp_path / "healed").touch()
    ended = attractor("resume", run, "--json")
    assert (ended.code, json.loads(ended.out)["completed_nodes"][-2:]) == (0, ["hello", "exit"])
    assert [stage["visits"] for stage in json.loads(attractor("show", run, "--json").out)["stages"]][:2] == [1, 3]


@pytest.mark.parametrize(("command", "end"), [("true", "PipelineCompleted"), ("false", "PipelineFailed")])
def test_following_a_run_that_ended_ends(attractor: Callable, tmp_path: Path, command: str, end: str) -> None:
    source, run = tmp_path / "ended.dot", tmp_path / "run"
    source.write_text(HELLO.replace('prompt="Say hello"', f'shape=parallelogram, tool_command="{command}"'))
    attractor("run", source, "--workdir", tmp_path, "--logs", run)
    events = [json.loads(line) for line in attractor("logs", run, "--follow", "--json").out.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["PipelineStarted", end]
    after = attractor("logs", run, "--follow", "--json", "--after", str(events[-1]["sequence"]))
    assert (after.code, after.out) == (0, "")
