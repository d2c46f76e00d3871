"""docs/examples/demo.dot runs to success: simulated, on the model on board, and against a server over real sockets."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "docs/examples"
DEMO = EXAMPLES / "demo.dot"


def events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def check_demo_run(run: Path, workdir: Path) -> None:
    """All that the demo is meant to show has happened, and lies on disk."""
    checkpoint = json.loads((run / "checkpoint.json").read_text())
    assert checkpoint["current_node"] == "exit"
    assert checkpoint["completed_nodes"] == ["start", "ask", "check", "good", "publish", "exit"]
    assert [event["name"] for event in events(run) if event["type"] == "StageRetrying"] == ["publish"]
    assert json.loads((run / "check/status.json").read_text())["status"] == "success"
    answer = (run / "ask/response.md").read_text()
    assert answer.strip()
    assert (workdir / "answer.md").read_text() == answer
    assert "What is the capital of France" in (run / "ask/prompt.md").read_text()


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.dot")), ids=lambda path: path.name)
def test_examples_are_clean(attractor: Callable, example: Path) -> None:
    ended = attractor("lint", example, "--strict")
    assert ended.code == 0, ended


def test_simulated(attractor: Callable, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--simulate", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 0, ended
    check_demo_run(run, tmp_path)
    for place in (run, run / "ask/response.md"):
        assert str(place) in ended.out
    assert "[Simulated]" in ended.out


def test_dry_run_executes_nothing(attractor: Callable, tmp_path: Path) -> None:
    ended = attractor("run", DEMO, "--dry-run", "--logs", tmp_path / "run", "--workdir", tmp_path)
    assert ended.code == 0, ended
    assert not (tmp_path / "answer.md").exists()


def test_against_a_server(attractor: Callable, chat_server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Any server that speaks Chat Completions will do, with nothing but its address and a model's name."""
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--backend", "llm", "--model", "scripted", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 0, ended
    check_demo_run(run, tmp_path)
    assert chat_server.answer in ended.out
    (request,) = chat_server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["model"] == "scripted"
    assert (run / "ask/response.md").read_text() == chat_server.answer


def test_as_work_for_an_agent(
    attractor: Callable, chat_server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--model", "scripted", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 0, ended
    check_demo_run(run, tmp_path)
    assert "report_outcome" in {tool["function"]["name"] for tool in chat_server.requests[0]["tools"]}


def test_goal_gate_holds_the_demo_back(
    attractor: Callable, chat_server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An answer without a word fails the check; the diamond sends the run back to ask again, until it gives up."""
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    chat_server.answer = "..."
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--backend", "llm", "--model", "scripted", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 1
    assert len(chat_server.requests) > 1
    assert not (tmp_path / "answer.md").exists()


def test_on_the_model_on_board(attractor: Callable, local_model: None, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--provider", "local", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 0, ended
    check_demo_run(run, tmp_path)


def test_anthropic_protocol_on_the_model_on_board(
    attractor: Callable, local_model_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none is needed here")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", local_model_url)
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--backend", "llm", "--logs", run, "--workdir", tmp_path)
    assert ended.code == 0, ended
    check_demo_run(run, tmp_path)


def test_json_result(attractor: Callable, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ended = attractor("run", DEMO, "--simulate", "--json", "--quiet", "--logs", run, "--workdir", tmp_path)
    result = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert result["status"] == "success"
    assert result["run_directory"] == str(run)
    assert result["completed_nodes"][-1] == "exit"
