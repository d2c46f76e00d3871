"""Section 11.13 in earnest: an agent that writes files and runs their tests, and a model on this machine.

The providers are played, each in its own wire format; adapters, sessions, tools, files and commands are real.
"""

import importlib.util
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attractor.backends.agent import AgentBackend
from attractor.pipeline import PipelineRunner
from attractor.state.checkpoint import Checkpoint

_spec = importlib.util.spec_from_file_location(
    "native_wire", Path(__file__).parent.parent / "unified_llm" / "native_wire.py"
)
assert _spec is not None
assert _spec.loader is not None
wire: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = wire
_spec.loader.exec_module(wire)

SMOKE = """
digraph test_pipeline {
    graph [goal="Create a hello world Python script"]

    start       [shape=Mdiamond]
    plan        [shape=box, prompt="Plan how to create a hello world script for: $goal"]
    implement   [shape=box, prompt="Write the code based on the plan", goal_gate=true]
    review      [shape=box, prompt="Review the code for correctness"]
    done        [shape=Msquare]

    start -> plan
    plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan   [condition="outcome=fail", label="Retry"]
    review -> done      [condition="outcome=success"]
    review -> implement [condition="outcome=fail", label="Fix"]
}
"""
PYTHON = shlex.quote(sys.executable)
CODE = 'def greet():\n    return "Helo, world!"\n\n\nif __name__ == "__main__":\n    print(greet())\n'
CHECK = 'from hello import greet\n\nassert greet() == "Hello, world!", greet()\nprint("1 passed")\n'


def write(provider: str, name: str, text: str) -> tuple[str, str, dict[str, Any]]:
    """How the provider's models make a file."""
    if provider != "openai":
        return ("w1", "write_file", {"file_path": name, "content": text})
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return ("w1", "apply_patch", {"patch": f"*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch"})


def mend(provider: str) -> tuple[str, str, dict[str, Any]]:
    """How they change one."""
    if provider != "openai":
        return ("e1", "edit_file", {"file_path": "hello.py", "old_string": "Helo", "new_string": "Hello"})
    patch = (
        "*** Begin Patch\n*** Update File: hello.py\n@@\n def greet():\n"
        '-    return "Helo, world!"\n+    return "Hello, world!"\n*** End Patch'
    )
    return ("e1", "apply_patch", {"patch": patch})


def shell(command: str) -> Any:
    return wire.Say(calls=[("s1", "shell", {"command": command})])


def report(outcome: str, **fields: Any) -> Any:
    return wire.Say(calls=[("r1", "report_outcome", {"outcome": outcome, **fields})])


def was_told(text: str, answer: Any) -> Callable[[Any], Any]:
    """The answer, to a request that has the text in it."""

    def check(sent: Any) -> Any:
        assert text in json.dumps(sent.body), f"{text!r} is not in {sent.body}"
        return answer

    return check


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
async def test_an_agent_writes_tests_and_mends(provider: str, tmp_path: Path) -> None:
    project, logs_root = tmp_path / "project", tmp_path / "run"
    project.mkdir()
    server = wire.NativeServer(
        provider,
        # plan
        wire.Say(text="1. hello.py with greet(). 2. A check."),
        # implement: a bug, which its check doesn't see yet
        was_told("Write the code based on the plan", wire.Say(calls=[write(provider, "hello.py", CODE)])),
        wire.Say(text="hello.py is written."),
        # review: writes a check, runs it, and refuses
        was_told("Review the code", wire.Say(calls=[write(provider, "check_hello.py", CHECK)])),
        shell(f"{PYTHON} check_hello.py"),
        was_told("AssertionError: Helo, world!", report("fail", notes="greet() says Helo.")),
        wire.Say(text="It is misspelt."),
        # implement again: mends, and proves it
        was_told("greet() says Helo.", wire.Say(calls=[mend(provider)])),
        shell(f"{PYTHON} check_hello.py"),
        was_told("1 passed", report("success", context_updates={"checks_passed": 1})),
        wire.Say(text="Mended."),
        # review again
        was_told("Review the code", wire.Say(text="Correct.")),
    )
    client = server.client()
    backend = AgentBackend(client, working_dir=project, model=wire.model_of(provider))
    result = await PipelineRunner(backend=backend, logs_root=logs_root, working_dir=project).run(SMOKE)
    await client.close()

    assert result.status == "success", result.failure_reason
    assert " ".join(result.completed_nodes) == "start plan implement review implement review done"
    assert "Hello, world!" in (project / "hello.py").read_text()
    assert sorted(path.name for path in project.glob("*.py")) == ["check_hello.py", "hello.py"]
    for node in ("plan", "implement", "review"):
        assert all((logs_root / node / name).stat().st_size for name in ("prompt.md", "response.md", "status.json"))
    assert result.node_outcomes["implement"].status.is_success, "the goal gate is satisfied"
    assert result.context["checks_passed"] == 1
    assert Checkpoint.load(logs_root).current_node == "done"
    assert result.usage is not None
    assert result.usage.input_tokens == 100 * len(server.sent)


@pytest.mark.slow
def test_the_smoke_test_on_the_model_on_board(attractor: Callable, local_model: None, tmp_path: Path) -> None:
    """The small model says what it says; an answer that it doesn't finish is asked for again."""
    source = tmp_path / "smoke.dot"
    source.write_text(SMOKE.replace('script"]', 'script", default_max_retries=3]'))
    ended = attractor("run", source, "--provider", "local", "--logs", tmp_path / "run")
    assert ended.code == 0, ended
    checkpoint = Checkpoint.load(tmp_path / "run")
    assert checkpoint.current_node == "done"
    assert {"plan", "implement", "review"} <= set(checkpoint.completed_nodes)
    for node in ("plan", "implement", "review"):
        answer = (tmp_path / "run" / node / "response.md").read_text()
        assert answer.strip()
        assert "[Simulated]" not in answer
