"""What a run used of models: told by events, kept in the checkpoint, carried over (sections 5.3 and 9.6)."""

from pathlib import Path
from typing import Any

import pytest
from attractor.backends.agent import AgentBackend
from attractor.backends.llm import LlmBackend
from attractor.event_log import read_events
from attractor.events import StageCompleted, StageFailed
from attractor.pipeline import PipelineRunner
from attractor.state.checkpoint import Checkpoint
from attractor.state.usage import TokenUsage
from unified_llm import AuthenticationError, Client, Usage, cost_of
from unified_llm.testing import ScriptedAdapter, respond

PRICED = "claude-opus-4-6"
USED = Usage(input_tokens=1000, output_tokens=200, total_tokens=1200)
PAIR = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; retry_policy=linear
    a [prompt="First."]; b [prompt="Second."]; start -> a -> b -> exit }"""
FAN = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; split [shape=component]; join [shape=tripleoctagon]
    a [prompt="First."]; b [prompt="Second."]; start -> split; split -> a -> join; split -> b -> join; join -> exit }"""


def answer(text: str = "Done.") -> Any:
    return respond(text, usage=USED)


def llm(adapter: ScriptedAdapter, model: str = PRICED) -> LlmBackend:
    return LlmBackend(Client({"s": adapter}, "s"), model=model, provider="s", max_retries=0)


@pytest.mark.parametrize("dot", [PAIR, FAN])
async def test_the_run_adds_up_what_its_stages_used(tmp_path: Path, dot: str) -> None:
    with ScriptedAdapter(answer(), answer()) as adapter:
        result = await PipelineRunner(backend=llm(adapter), logs_root=tmp_path / "run").run(dot)
    price = cost_of(USED, PRICED)
    assert price is not None
    assert price > 0
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (2000, 400)
    assert result.cost == pytest.approx(2 * price)
    assert Checkpoint.load(tmp_path / "run").usage == result.usage
    told = {event.name: event.usage for event in read_events(tmp_path / "run") if isinstance(event, StageCompleted)}
    assert told["a"] == {"input_tokens": 1000, "output_tokens": 200, "cost": price}
    assert told["start"] is None


async def test_an_unknown_price_leaves_the_cost_unknown(tmp_path: Path) -> None:
    with ScriptedAdapter(answer(), answer()) as adapter:
        result = await PipelineRunner(backend=llm(adapter, "unheard-of"), logs_root=tmp_path / "run").run(PAIR)
    assert result.usage == TokenUsage(input_tokens=2000, output_tokens=400, cost=None)


async def test_a_resumed_run_carries_it_over(tmp_path: Path) -> None:
    with ScriptedAdapter(answer(), AuthenticationError("wrong key")) as adapter:
        first = await PipelineRunner(backend=llm(adapter), logs_root=tmp_path / "run").run(PAIR)
    assert first.status == "fail"
    # As a killed run leaves it: the journal alone says what was used.
    (tmp_path / "run" / "checkpoint.json").unlink()
    with ScriptedAdapter(answer()) as adapter:
        result = await PipelineRunner(backend=llm(adapter)).resume(tmp_path / "run")
    assert result.usage is not None
    assert result.usage.total_tokens == 2400


async def test_a_restart_carries_it_over(tmp_path: Path) -> None:
    dot = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt="Again?"]; start -> a -> exit
        a -> a [loop_restart=true, condition="outcome=fail"] }"""
    with ScriptedAdapter(respond("half", finish_reason="length", usage=USED), answer()) as adapter:
        result = await PipelineRunner(backend=llm(adapter), logs_root=tmp_path / "run").run(dot)
    assert result.restarts == 1
    assert result.usage is not None
    assert result.usage.total_tokens == 2400
    failed = [event for event in read_events(tmp_path / "run") if isinstance(event, StageFailed)]
    assert failed[0].usage is not None


async def test_an_agent_reports_all_its_calls_and_those_before_an_error(tmp_path: Path) -> None:
    call = respond(tool_calls=[("shell", {"command": "true"})], usage=USED)
    with ScriptedAdapter(call, answer(), call, AuthenticationError("wrong key")) as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model=PRICED, working_dir=tmp_path)
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run").run(PAIR)
    assert result.status == "fail"
    assert result.usage is not None
    assert result.usage.total_tokens == 3 * 1200


async def test_a_simulated_run_reports_none(tmp_path: Path) -> None:
    result = await PipelineRunner(logs_root=tmp_path / "run").run(PAIR)
    assert (result.usage, result.cost) == (None, None)
    assert Checkpoint.load(tmp_path / "run").usage is None
