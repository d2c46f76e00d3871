"""A pipeline whose stages are told how the person works."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from agent_loop.personalization import JsonFileStore, create_initial_state

STATE = create_initial_state([{"label": "Planning", "description": "thinks before acting"}])
SOURCE = 'digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; ask [prompt="Why?"]; start -> ask -> exit }\n'


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    anyio.run(JsonFileStore(tmp_path / "memory.json").save, STATE)
    return tmp_path / "memory.json"


@pytest.fixture
def provider(chat_server: object, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "k")
    return chat_server


def test_the_block_stands_before_the_prompt_and_resume_remembers_it(
    attractor: Callable, provider: object, memory: Path, tmp_path: Path
) -> None:
    (tmp_path / "g.dot").write_text(SOURCE)
    flags = ("--provider", "openai_compatible", "--backend", "llm", "--model", "m")
    ended = attractor("run", tmp_path / "g.dot", "--logs", tmp_path / "run", "--memory", memory, *flags)
    assert ended.code == 0, ended.err
    prompt = provider.requests[0]["messages"][-1]["content"]
    assert prompt.startswith("<personal_context>\n")
    assert "Planning [50% →]: thinks before acting" in prompt
    assert prompt.endswith("</personal_context>\n\nWhy?")
    assert (tmp_path / "run/ask/prompt.md").read_text().strip() == "Why?"
    options = json.loads((tmp_path / "run/manifest.json").read_text())["options"]
    assert options["memory"] == str(memory)


def test_a_damaged_memory_stops_before_anything_runs(
    attractor: Callable, provider: object, memory: Path, tmp_path: Path
) -> None:
    (tmp_path / "g.dot").write_text(SOURCE)
    memory.write_text("{}")
    flags = ("--provider", "openai_compatible", "--backend", "llm", "--model", "m")
    ended = attractor("run", tmp_path / "g.dot", "--memory", memory, *flags)
    assert ended.code == 2
    assert "is damaged, or no memory at all" in ended.err
    assert provider.requests == []
