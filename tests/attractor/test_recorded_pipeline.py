"""A pipeline whose model calls were recorded runs again offline, with no provider at all."""

from pathlib import Path

import pytest
from attractor.backends.agent import AgentBackend
from attractor.backends.base import CodergenBackend
from attractor.backends.llm import LlmBackend
from attractor.pipeline import PipelineRunner
from unified_llm import Client
from unified_llm.client.middlewares import RecordingMiddleware
from unified_llm.testing import ScriptedAdapter

DOT = """digraph g { goal="rhyme"
    start [shape=Mdiamond]; exit [shape=Msquare]
    plan [prompt="Plan $goal", llm_model=m1]
    write [prompt="Write $goal", llm_model=m1]
    start -> plan -> write -> exit }"""


def last_message(request: dict[str, object]) -> object:
    """An agent's system prompt tells the directory and the date; what counts is what it is asked."""
    messages = request["messages"]
    assert isinstance(messages, list)
    return messages[-1]


def backend_of(kind: str, client: Client, folder: Path) -> CodergenBackend:
    if kind == "llm":
        return LlmBackend(client)
    return AgentBackend(client, working_dir=folder)


@pytest.mark.parametrize("kind", ["llm", "agent"])
async def test_a_recorded_pipeline_runs_offline(tmp_path: Path, kind: str) -> None:
    cassette = tmp_path / "cassette.json"
    with ScriptedAdapter("A plan.", "A rhyme.") as adapter:
        recording = RecordingMiddleware(cassette, "record")
        client = Client({"anthropic": adapter}, "anthropic", [recording])
        first = await PipelineRunner(backend=backend_of(kind, client, tmp_path), logs_root=tmp_path / "first").run(DOT)
    assert first.status == "success"

    playing = RecordingMiddleware(cassette, match_on=last_message)
    nobody = ScriptedAdapter()
    client = Client({"anthropic": nobody}, "anthropic", [playing])
    second = await PipelineRunner(backend=backend_of(kind, client, tmp_path), logs_root=tmp_path / "second").run(DOT)
    assert second.status == "success"
    assert second.context["last_response"] == first.context["last_response"] == "A rhyme."
    assert playing.unplayed == 0
    assert not nobody.requests
