"""What an agent is doing now reaches observers, and a budget stops it between two calls of its model."""

import threading
from pathlib import Path

import pytest
from attractor.backends.agent import AgentBackend
from attractor.event_log import read_events
from attractor.events import Event, StageActivity
from attractor.pipeline import PipelineRunner
from unified_llm import Client, Usage
from unified_llm.testing import ScriptedAdapter, respond

DOT = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; %s
    work [prompt="Go.", max_retries=2]; start -> work -> exit }"""
USED = Usage(input_tokens=900, output_tokens=100, total_tokens=1000)
CALL = respond(tool_calls=[("shell", {"command": "echo hello"})], usage=USED)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_tool_calls_and_answers_are_told_as_short_lines(tmp_path: Path) -> None:
    seen: list[Event] = []
    with ScriptedAdapter(CALL, "Said\n" + "hello " * 100) as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=tmp_path)
        runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")
        runner.on_event = seen.append
        result = await runner.run(DOT % "")
    assert result.status == "success"
    told = [event for event in read_events(tmp_path / "run") if isinstance(event, StageActivity)]
    assert [event for event in seen if isinstance(event, StageActivity)] == told
    assert [(event.name, event.activity) for event in told[:2]] == [("work", "tool_start"), ("work", "tool_end")]
    assert [event.text for event in told[:2]] == ["shell echo hello", "shell"]
    assert all(len(event.text) <= 160 and "\n" not in event.text for event in told)


async def test_an_observer_that_raises_or_hangs_does_not_hold_the_agent_up(tmp_path: Path) -> None:
    hang = threading.Event()

    def observe(event: Event) -> None:
        if isinstance(event, StageActivity):
            hang.wait(0.2)
            raise RuntimeError("observer")

    with ScriptedAdapter(CALL, "Done.") as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=tmp_path)
        runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")
        runner.on_event = observe
        assert (await runner.run(DOT % "")).status == "success"


async def test_a_budget_stops_an_agent_between_two_calls(tmp_path: Path) -> None:
    with ScriptedAdapter(*[CALL] * 3) as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=tmp_path)
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run").run(DOT % "max_tokens=2500;")
    assert result.status == "fail"
    assert "stage 'work' was stopped: the run used 3000 tokens of its max_tokens of 2500" in result.failure_reason
    assert len(adapter.requests) == 3
    assert result.usage is not None
    assert result.usage.total_tokens == 3000
