"""Other coding agents as backends (section 1.4): stand-ins that speak the formats of their command lines.

Each stand-in is a real program: it notes how it was called, and then does what the test says.
"""

import json
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.backends.cli_agent import CLI_FORMATS, CliAgentBackend
from attractor.errors import PipelineConfigurationError
from attractor.graph import Node
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.context import Context

CLIS = ["claude", "codex", "gemini"]
HEAD = """\
#!{python}
import json, os, pathlib, subprocess, sys, time
calls = pathlib.Path(__file__).with_name("calls.jsonl")
prompt = sys.stdin.read()
with calls.open("a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "prompt": prompt, "cwd": os.getcwd()}}) + "\\n")
number = len(calls.read_text().splitlines())
stage = pathlib.Path(os.environ["ATTRACTOR_STAGE_DIR"]) if "ATTRACTOR_STAGE_DIR" in os.environ else None
def say(**event):
    print(json.dumps(event), flush=True)
"""
GOOD = {
    "claude": """
        say(type="system", subtype="init", session_id="s-1", model="claude-sonnet-4-5", tools=["Bash"])
        say(type="assistant", session_id="s-1", message={"content": [{"type": "text", "text": "Let me look."}]})
        say(type="assistant", session_id="s-1", message={"content": [{"type": "tool_use", "name": "Bash"}]})
        say(type="user", session_id="s-1", message={"content": [{"type": "tool_result", "content": "ok"}]})
        say(type="result", subtype="success", is_error=False, result="All done.", session_id="s-1", num_turns=2,
            total_cost_usd=0.25, usage={"input_tokens": 10, "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 90, "output_tokens": 50})
    """,
    "codex": """
        say(type="thread.started", thread_id="s-1")
        say(type="turn.started")
        say(type="item.completed", item={"id": "i0", "type": "reasoning", "text": "hmm"})
        say(type="item.completed", item={"id": "i1", "type": "agent_message", "text": "Let me look."})
        say(type="item.started", item={"id": "i2", "type": "command_execution", "status": "in_progress"})
        say(type="error", message="Reconnecting... 1/5")
        say(type="item.completed", item={"id": "i3", "type": "agent_message", "text": "All done."})
        say(type="turn.completed", usage={"input_tokens": 1000 * number, "cached_input_tokens": 900 * number,
            "output_tokens": 50 * number})
    """,
    "gemini": """
        say(type="init", timestamp="t", session_id="s-1", model="gemini-2.5-pro")
        say(type="message", timestamp="t", role="user", content=prompt)
        say(type="message", timestamp="t", role="assistant", content="Let me look.", delta=True)
        say(type="tool_use", timestamp="t", tool_name="ls", tool_id="1", parameters={})
        say(type="tool_result", timestamp="t", tool_id="1", status="success", output="ok")
        say(type="message", timestamp="t", role="assistant", content="All ", delta=True)
        say(type="message", timestamp="t", role="assistant", content="done.", delta=True)
        stats = {"total_tokens": 1050, "input_tokens": 1000, "output_tokens": 20, "cached": 900, "input": 100}
        say(type="result", timestamp="t", status="success",
            stats={**stats, "duration_ms": 5, "tool_calls": 1, "models": {"gemini-2.5-pro": stats}})
    """,
}
DOT = """digraph g {{ goal="order"; {graph}
    start [shape=Mdiamond]; exit [shape=Msquare]
    a [prompt="Tidy up: $goal" {a}]; b [prompt="Go on" {b}]
    start -> a -> b -> exit; a -> fix [condition="outcome=fail"]; fix [shape=diamond]; fix -> exit
}}"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str, str], Path]:
    """Puts a program of that name and behaviour into a directory of its own, which it returns."""

    def make(name: str, body: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(HEAD.format(python=sys.executable) + textwrap.dedent(body))
        program.chmod(0o755)
        return folder

    return make


def backend(name: str, folder: Path, **options: Any) -> CliAgentBackend:
    environ = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return CliAgentBackend(name, environ=environ, working_dir=folder.parent, **options)


async def run(
    tmp_path: Path, backend: CliAgentBackend, *, graph: str = "", a: str = "", b: str = "", name: str = "run"
) -> RunResult:
    source = DOT.format(graph=graph, a=f", {a}" if a else "", b=f", {b}" if b else "")
    return await PipelineRunner(backend=backend, logs_root=tmp_path / name).run(source)


def calls(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", CLIS)
async def test_the_final_text_is_the_answer(name: str, stand_in: Callable, tmp_path: Path) -> None:
    folder = stand_in(name, GOOD[name])
    result = await run(tmp_path, backend(name, folder))
    assert (result.status, result.context["last_response"]) == ("success", "All done.")
    assert (tmp_path / "run/a/response.md").read_text() == "All done."
    assert "Let me look." in (tmp_path / "run/a/cli_output.txt").read_text()
    first = calls(folder)[0]
    assert first["prompt"].startswith("Tidy up: order")
    assert str(tmp_path / "run/a/status.json") in first["prompt"]
    assert "outcome=fail" in first["prompt"]
    assert (tmp_path / "run/a/prompt.md").read_text() == "Tidy up: order"
    assert first["cwd"] == str(tmp_path)
    assert str(tmp_path / "run/a") in first["argv"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", CLIS)
async def test_it_works_without_a_run(name: str, stand_in: Callable) -> None:
    """On both event loops, and where there is no stage directory."""
    answer = await backend(name, stand_in(name, GOOD[name])).run(Node("n"), "Hello", Context())
    assert answer == "All done."


@pytest.mark.parametrize(
    ("name", "model", "cost"), [("claude", "", 0.25), ("codex", "gpt-5.2", None), ("gemini", "", None)]
)
async def test_usage_and_cost_are_counted(
    name: str, model: str, cost: float | None, stand_in: Callable, tmp_path: Path
) -> None:
    result = await run(tmp_path, backend(name, stand_in(name, GOOD[name]), model=model), b='class="x"')
    used = result.usage
    assert used is not None
    assert used.input_tokens == (2000 if name != "codex" else 1000 + 2000)
    assert used.output_tokens == (100 if name != "codex" else 50 + 100)
    assert used.cost is not None
    if cost is not None:
        assert used.cost == pytest.approx(2 * cost)
    else:
        assert 0 < used.cost < 1


async def test_a_cost_that_nobody_knows_is_unknown(stand_in: Callable, tmp_path: Path) -> None:
    result = await run(tmp_path, backend("codex", stand_in("codex", GOOD["codex"])))
    assert result.usage is not None
    assert result.usage.cost is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("claude", ["--resume", "s-1"]),
        ("codex", ["resume", "s-1", "-"]),
        ("gemini", ["--resume", "s-1"]),
    ],
)
async def test_full_fidelity_resumes_the_session(
    name: str, arguments: list[str], stand_in: Callable, tmp_path: Path
) -> None:
    folder = stand_in(name, GOOD[name])
    thread = 'fidelity=full, thread_id="t"'
    result = await run(tmp_path, backend(name, folder, model="gpt-5.2"), a=thread, b=thread)
    assert result.status == "success"
    first, second = (call["argv"] for call in calls(folder))
    assert not set(arguments) - {"-"} & set(first)
    where = second.index(arguments[0])
    assert second[where : where + len(arguments)] == arguments
    # Codex tells what the whole conversation used so far; no token is counted twice.
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (2000, 100)


@pytest.mark.parametrize("name", CLIS)
async def test_other_threads_and_other_modes_begin_anew(name: str, stand_in: Callable, tmp_path: Path) -> None:
    folder = stand_in(name, GOOD[name])
    await run(tmp_path, backend(name, folder), a="fidelity=full, thread_id=t", b="fidelity=full, thread_id=u")
    await run(tmp_path, backend(name, folder), a="fidelity=full, thread_id=t", b="fidelity=compact", name="other")
    assert not [call for call in calls(folder) if {"--resume", "resume"} & set(call["argv"])]


async def test_a_session_that_is_gone_is_not_asked_for_again(stand_in: Callable, tmp_path: Path) -> None:
    body = """
        if "--resume" in sys.argv:
            say(type="result", subtype="error_during_execution", is_error=True, session_id="s-2",
                errors=["No conversation found with session ID: s-1"])
            sys.exit(1)
    """
    folder = stand_in("claude", textwrap.dedent(body) + textwrap.dedent(GOOD["claude"]))
    result = await run(
        tmp_path,
        backend("claude", folder),
        a="fidelity=full, thread_id=t",
        b="fidelity=full, thread_id=t, max_retries=1",
    )
    assert result.status == "success"
    assert ["--resume" in call["argv"] for call in calls(folder)] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude", ["--model", "m-1", "--effort", "high", "--x", "y"]),
        ("codex", ["--model", "m-1", "--config", 'model_reasoning_effort="high"', "--x", "y"]),
        ("gemini", ["--model", "m-1", "--x", "y"]),
    ],
)
async def test_model_effort_and_options_are_passed_on(
    name: str, expected: list[str], stand_in: Callable, tmp_path: Path
) -> None:
    folder = stand_in(name, GOOD[name])
    await run(
        tmp_path,
        backend(name, folder, model="m-0", options=["--x", "y"]),
        a='llm_model="m-1", reasoning_effort=high',
        graph=f'llm_provider="{CLI_FORMATS[name].provider}"',
    )
    first, second = (call["argv"] for call in calls(folder))
    assert [word for word in first if word in expected] == expected
    assert second[second.index("--model") + 1] == "m-0"
    assert not {"--effort", "--config"} & set(second)


@pytest.mark.parametrize("name", CLIS)
async def test_the_status_file_decides(name: str, stand_in: Callable, tmp_path: Path) -> None:
    report = """
        (stage / "status.json").write_text(json.dumps({"outcome": "fail", "notes": "It is broken.",
            "context_updates": {"found": 3}}))
    """
    folder = stand_in(name, textwrap.dedent(report) + textwrap.dedent(GOOD[name]))
    result = await run(tmp_path, backend(name, folder))
    assert result.completed_nodes == ("start", "a", "fix", "exit")
    outcome = result.node_outcomes["a"]
    assert (outcome.status, outcome.failure_reason, result.context["found"]) == ("fail", "It is broken.", 3)


AUTHENTICATION = {
    "claude": """
        say(type="system", subtype="init", session_id="s-1")
        say(type="assistant", error="authentication_failed", session_id="s-1",
            message={"content": [{"type": "text", "text": "Invalid API key · Please run /login"}]})
        say(type="result", subtype="success", is_error=True, result="Invalid API key · Please run /login",
            session_id="s-1", total_cost_usd=0, usage={})
        sys.exit(1)
    """,
    "codex": """
        say(type="thread.started", thread_id="s-1")
        say(type="turn.failed", error={"message": "unexpected status 401 Unauthorized: Missing bearer authentication"})
        sys.exit(1)
    """,
    "gemini": """
        print("Please set an Auth method in your settings.json", file=sys.stderr)
        sys.exit(41)
    """,
}


@pytest.mark.parametrize("name", CLIS)
async def test_nobody_logged_in_is_terminal_and_says_what_to_do(name: str, stand_in: Callable, tmp_path: Path) -> None:
    folder = stand_in(name, AUTHENTICATION[name])
    outcome = (await run(tmp_path, backend(name, folder), a="max_retries=3")).node_outcomes["a"]
    assert outcome.status == "fail"
    assert outcome.terminal
    assert CLI_FORMATS[name].login in outcome.failure_reason
    assert len(calls(folder)) == 1


@pytest.mark.parametrize(
    ("name", "body", "reason", "terminal"),
    [
        (
            "claude",
            'say(type="result", subtype="error_max_turns", is_error=True, usage={}, total_cost_usd=1.5)',
            "limit of turns",
            False,
        ),
        (
            "claude",
            'say(type="result", subtype="success", is_error=True, result="API Error: 529 overloaded", session_id="s")',
            "529 overloaded",
            False,
        ),
        (
            "claude",
            'say(type="assistant", error="billing_error", message={"content": []}); '
            'say(type="result", subtype="success", is_error=True, result="Credit balance is too low")',
            "Credit balance",
            True,
        ),
        ("codex", 'say(type="turn.failed", error={"message": "You have hit your usage limit"})', "usage limit", True),
        ("codex", 'say(type="turn.failed", error={"message": "stream disconnected"})', "disconnected", False),
        ("codex", 'say(type="error", message="rate limit reached"); sys.exit(1)', "rate limit reached", False),
        (
            "gemini",
            'say(type="result", status="error", error={"type": "FatalTurnLimitedError", "message": "Reached max"})',
            "limit of turns",
            False,
        ),
        (
            "gemini",
            'say(type="error", severity="error", message="Maximum session turns exceeded"); '
            'say(type="result", status="success", stats={})',
            "Maximum session turns exceeded",
            False,
        ),
        (
            "gemini",
            'say(type="result", status="error", error={"type": "Error", "message": "Quota exceeded for the day"})',
            "Quota exceeded",
            True,
        ),
        ("gemini", 'print("No input provided via stdin.", file=sys.stderr); sys.exit(42)', "No input", True),
        ("claude", 'print("error: unknown option --effort", file=sys.stderr); sys.exit(1)', "unknown option", True),
        ("codex", "sys.exit(7)", "exited with code 7", False),
        ("gemini", "os.kill(os.getpid(), 9)", "exited with code 137", False),
        ("claude", "pass", "broke off", False),
        ("codex", 'say(type="thread.started", thread_id="s"); print("{\\"type\\": \\"item.comp")', "broke off", False),
        ("gemini", 'print("\\x00\\xff garbage [[[[ {{{{ " * 9)', "broke off", False),
        ("claude", 'print("[" * 200_000)', "broke off", False),
        (
            "codex",
            'say(type=["turn.completed"], usage=3, item="x"); say(type="item.completed", item=[1])',
            "broke off",
            False,
        ),
        (
            "gemini",
            'say(type="message", role="assistant", content={"a": 1}); say(type="init", session_id=9)',
            "broke off",
            False,
        ),
    ],
)
async def test_failures_are_clear_and_of_the_right_kind(
    name: str, body: str, reason: str, terminal: bool, stand_in: Callable, tmp_path: Path
) -> None:
    result = await run(tmp_path, backend(name, stand_in(name, body)))
    outcome = result.node_outcomes["a"]
    assert outcome.status == "fail"
    assert reason in outcome.failure_reason
    assert outcome.terminal is terminal
    assert "b" not in result.completed_nodes


async def test_transient_failures_are_tried_again(stand_in: Callable, tmp_path: Path) -> None:
    flaky = 'if number == 1: sys.exit("connection reset")'
    folder = stand_in("claude", flaky + "\n" + textwrap.dedent(GOOD["claude"]))
    result = await run(tmp_path, backend("claude", folder), a="max_retries=1")
    assert (result.status, len(calls(folder))) == ("success", 3)


async def test_money_that_a_failure_cost_is_counted(stand_in: Callable, tmp_path: Path) -> None:
    body = """
        say(type="result", subtype="error_max_turns", is_error=True, session_id="s", total_cost_usd=1.5,
            usage={"input_tokens": 5, "output_tokens": 6})
        sys.exit(1)
    """
    result = await run(tmp_path, backend("claude", stand_in("claude", body)))
    assert result.usage is not None
    assert result.usage.cost == 1.5


async def test_banners_and_unknown_events_are_passed_over(stand_in: Callable, tmp_path: Path) -> None:
    noise = 'print("Welcome!"); print("warning: {not json"); say(type="brand.new", x=1); print("[]"); print("null")\n'
    for name in CLIS:
        folder = stand_in(name, noise + textwrap.dedent(GOOD[name]))
        assert await backend(name, folder).run(Node("n"), "p", Context()) == "All done."


async def test_one_object_over_several_lines_is_read_too(stand_in: Callable) -> None:
    body = """
        print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "All done.",
            "session_id": "s", "total_cost_usd": 1}, indent=2))
    """
    assert await backend("claude", stand_in("claude", body)).run(Node("n"), "p", Context()) == "All done."


async def test_a_missing_program_is_a_clear_failure(tmp_path: Path) -> None:
    for name in CLIS:
        absent = CliAgentBackend(name, environ={"PATH": str(tmp_path)})
        with pytest.raises(PipelineConfigurationError, match=f"{name} is not installed.*npm install"):
            await absent.run(Node("n"), "p", Context())
    with pytest.raises(PipelineConfigurationError, match="known are claude, codex, gemini"):
        CliAgentBackend("copilot")


async def test_another_provider_is_refused(stand_in: Callable, tmp_path: Path) -> None:
    result = await run(tmp_path, backend("claude", stand_in("claude", GOOD["claude"])), a="llm_provider=openai")
    outcome = result.node_outcomes["a"]
    assert outcome.terminal
    assert "asks models of 'anthropic'" in outcome.failure_reason


HANG = """
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (pathlib.Path(__file__).with_name("pids")).write_text(f"{os.getpid()} {child.pid}")
    say(type="system", subtype="init", session_id="s-1")
    time.sleep(600)
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
async def test_a_timeout_ends_the_program_and_its_children(stand_in: Callable, tmp_path: Path) -> None:
    folder = stand_in("claude", HANG)
    result = await run(tmp_path, backend("claude", folder), a="timeout=1500ms")
    assert "timeout" in result.node_outcomes["a"].failure_reason
    assert all(gone(int(pid)) for pid in (folder / "pids").read_text().split())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancelling_ends_the_program_and_its_children(stand_in: Callable) -> None:
    folder = stand_in("codex", HANG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(backend("codex", folder).run, Node("n"), "p", Context())
        with anyio.fail_after(20):
            while not (folder / "pids").exists() or len((folder / "pids").read_text().split()) < 2:
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    assert all(gone(int(pid)) for pid in (folder / "pids").read_text().split())


async def test_a_flood_of_output_keeps_beginning_and_end(stand_in: Callable, tmp_path: Path) -> None:
    """More than is held in memory: the session of its first line and the answer of its last are still read."""
    flood = """
        say(type="system", subtype="init", session_id="s-1")
        for _ in range(300):
            sys.stdout.write(json.dumps({"type": "user", "filler": "x" * 100_000}) + "\\n")
            sys.stderr.write("y" * 10_000)
        say(type="result", subtype="success", is_error=False, result="All done.")
    """
    folder = stand_in("claude", flood)
    result = await run(
        tmp_path, backend("claude", folder), a="fidelity=full, thread_id=t", b="fidelity=full, thread_id=t"
    )
    assert (result.status, result.context["last_response"]) == ("success", "All done.")
    assert "--resume" in calls(folder)[1]["argv"]


async def test_large_prompts_and_odd_characters_arrive(stand_in: Callable) -> None:
    folder = stand_in("gemini", GOOD["gemini"])
    prompt = "é$goal `x` 'y' \"z\"\n" * 50_000
    await backend("gemini", folder).run(Node("n"), prompt + "\ud800", Context())
    assert calls(folder)[0]["prompt"] == prompt + "?"


@pytest.mark.parametrize("name", CLIS)
def test_from_the_command_line(
    name: str, attractor: Callable, stand_in: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = stand_in(name, GOOD[name])
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    source = tmp_path / "p.dot"
    source.write_text(DOT.format(graph="", a="", b=""))
    options = ("--model", "m-1", "--agent-options", "--allowed 'Bash Read'", "--workdir", tmp_path)
    ended = attractor("run", source, "--backend", name, *options, "--logs", tmp_path / "run")
    assert ended.code == 0, ended
    assert "All done." in ended.out
    first = calls(folder)[0]["argv"]
    assert first[first.index("--allowed") + 1] == "Bash Read"
    assert "m-1" in first


def test_the_command_line_refuses_what_cannot_work(
    attractor: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "p.dot"
    source.write_text(DOT.format(graph="", a="", b=""))
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = attractor("run", source, "--backend", "claude")
    assert ended.code == 2
    assert "claude is not installed" in ended.err
    ended = attractor("run", source, "--backend", "claude", "--provider", "openai")
    assert ended.code == 2
    assert "--provider" in ended.err
    ended = attractor("run", source, "--backend", "llm", "--agent-options", "-x")
    assert ended.code == 2
    assert "--agent-options" in ended.err
    ended = attractor("run", source, "--backend", "claude", "--agent-options", "'unclosed")
    assert ended.code == 2
    assert "--agent-options" in ended.err
