"""What other coding agents use of models: counted also where they are ended, and held against the run's budget."""

import json
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from attractor.backends.cli_agent import CliAgentBackend
from attractor.graph import Node
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.context import Context
from attractor.state.usage import TokenUsage

HEAD = """\
#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
sys.stdin.read()
def say(**event):
    print(json.dumps(event), flush=True)
def call(id, *used):
    for tokens in used:
        usage = {{"input_tokens": tokens, "cache_read_input_tokens": 100, "output_tokens": 1}}
        say(type="assistant", session_id="s", message={{"id": id, "model": "claude-sonnet-4-5", "content": [],
            "usage": usage}})
"""
DOT = """digraph g { %s start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt="Work", %s]; start -> a -> exit }"""
HANGS = "call('m1', 10, 20); call('m2', 400); sys.stderr.write('x' * 5000); call('m3', 500)\ntime.sleep(600)"
RESULT = "say(type='result', subtype='success', is_error=False, result='Done.', session_id='s', %s)"


@pytest.fixture
def claude(tmp_path: Path) -> Callable[[str], CliAgentBackend]:
    def make(body: str) -> CliAgentBackend:
        program = tmp_path / "claude"
        program.write_text(HEAD.format(python=sys.executable) + textwrap.dedent(body))
        program.chmod(0o755)
        environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        return CliAgentBackend("claude", environ=environ, working_dir=tmp_path)

    return make


async def run(tmp_path: Path, backend: CliAgentBackend, graph: str = "", a: str = "max_retries=0") -> RunResult:
    with anyio.fail_after(60):
        return await PipelineRunner(backend=backend, logs_root=tmp_path / "run").run(DOT % (graph, a))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("limit", "said"),
    [("max_tokens=900;", "tokens of its max_tokens of 900"), ("max_cost=0.002;", "max_cost of $0.002")],
)
async def test_over_budget_it_is_stopped_at_work(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path, limit: str, said: str
) -> None:
    result = await run(tmp_path, claude(HANGS), limit, "max_retries=5")
    assert "stage 'a' was stopped: the run" in result.failure_reason
    assert said in result.failure_reason
    assert result.usage is not None
    assert result.usage.total_tokens == 121 + 501 + 601
    assert result.usage.cost is not None
    assert 0.002 < result.usage.cost < 0.01


async def test_what_it_used_before_a_timeout_is_counted(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path
) -> None:
    result = await run(tmp_path, claude(HANGS), a="timeout=1500ms")
    assert "timeout" in result.failure_reason
    assert result.usage is not None
    assert result.usage.total_tokens == 121 + 501 + 601


async def test_what_it_used_before_it_was_killed_is_counted(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path
) -> None:
    result = await run(tmp_path, claude("call('m1', 10); call('m1', 30); os.kill(os.getpid(), 9)"))
    assert "exited with code 137" in result.failure_reason
    assert result.usage is not None
    assert result.usage.total_tokens == 131


async def test_the_closing_event_counts_alone(claude: Callable[[str], CliAgentBackend], tmp_path: Path) -> None:
    body = "call('m1', 10)\n" + RESULT % "total_cost_usd=0.5, usage={'input_tokens': 7, 'output_tokens': 3}"
    result = await run(tmp_path, claude(body), "max_tokens=500;")
    assert (result.status, result.usage) == ("success", TokenUsage(input_tokens=7, output_tokens=3, cost=0.5))


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ("total_cost_usd=float('nan'), usage={'input_tokens': 7}", TokenUsage(input_tokens=7, cost=None)),
        ("total_cost_usd=-3, usage={'input_tokens': 7}", TokenUsage(input_tokens=7, cost=None)),
        ("total_cost_usd=True, usage={'input_tokens': 7}", TokenUsage(input_tokens=7, cost=None)),
        ("total_cost_usd='much', usage={'input_tokens': 7}", TokenUsage(input_tokens=7, cost=None)),
        ("total_cost_usd=1, usage={'input_tokens': float('inf'), 'output_tokens': -2}", TokenUsage(cost=1.0)),
        ("total_cost_usd=1, usage=[1, 2]", TokenUsage(cost=1.0)),
        ("total_cost_usd=1", TokenUsage(cost=1.0)),
        ("usage={'input_tokens': None}", None),
    ],
)
async def test_odd_counts_and_costs_end_no_run(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path, fields: str, counted: TokenUsage | None
) -> None:
    result = await run(tmp_path, claude(RESULT % fields))
    assert (result.status, result.usage) == ("success", counted)


async def test_a_stage_that_removes_its_directory_has_its_files_all_the_same(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path
) -> None:
    body = "import shutil; shutil.rmtree(os.environ['ATTRACTOR_STAGE_DIR'])\n" + RESULT % "total_cost_usd=0"
    assert (await run(tmp_path, claude(body))).status == "success"
    assert (tmp_path / "run/a/response.md").read_text() == "Done."
    assert json.loads((tmp_path / "run/a/status.json").read_text())["outcome"] == "success"


async def test_a_flood_beside_the_events_hides_none_of_them(claude: Callable[[str], CliAgentBackend]) -> None:
    body = """
        say(type="user", message={"content": "y" * 3_000_000})
        sys.stderr.write("x" * 3_000_000)
    """
    answer = await claude(textwrap.dedent(body) + RESULT % "total_cost_usd=0").run(Node("n"), "p", Context())
    assert answer == "Done."


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_one_that_answered_and_does_not_end_is_ended(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path
) -> None:
    backend = claude(RESULT % "total_cost_usd=0.5, usage={'input_tokens': 7}" + "\ntime.sleep(600)")
    patient = CliAgentBackend("claude", executable=str(tmp_path / "claude"), working_dir=tmp_path, linger=0.2)
    result = await run(tmp_path, patient)
    assert (result.status, result.context["last_response"]) == ("success", "Done.")
    assert result.usage == TokenUsage(input_tokens=7, cost=0.5)
    with anyio.move_on_after(1.5) as scope:
        await backend.run(Node("n"), "p", Context())
    assert scope.cancelled_caught, "a minute is what it has to end by itself"


async def test_a_cost_told_before_a_timeout_is_counted(
    claude: Callable[[str], CliAgentBackend], tmp_path: Path
) -> None:
    body = RESULT % "total_cost_usd=0.5, usage={'input_tokens': 7}" + "\ntime.sleep(600)"
    result = await run(tmp_path, claude(body), a="timeout=1500ms")
    assert ("timeout" in result.failure_reason, result.usage) == (True, TokenUsage(input_tokens=7, cost=0.5))
