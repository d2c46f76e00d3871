"""The model backend: model resolution, and what becomes of answers and errors (sections 1.4, 4.5 and 8.5)."""

from pathlib import Path
from typing import Any

import pytest
from agent_loop import SessionConfig
from attractor.backends.agent import AgentBackend
from attractor.backends.llm import LlmBackend
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.context import Context
from unified_llm import AuthenticationError, Client, ConfigurationError, RateLimitError, get_latest_model
from unified_llm.testing import ScriptedAdapter, respond

DOT = """digraph g { goal="rhyme"
    start [shape=Mdiamond]; exit [shape=Msquare]
    a [prompt="Answer $goal", max_retries=1, retry_policy=linear, llm_model=m1]
    start -> a -> exit; a -> fix [condition="outcome=fail"]
    fix [shape=parallelogram, tool_command=true]; fix -> exit }"""


async def test_a_stage_is_one_call_to_the_model(tmp_path: Path) -> None:
    with ScriptedAdapter("An answer.") as adapter:
        backend = LlmBackend(Client({"s": adapter}, "s"), system="Be brief", max_tokens=50)
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run").run(DOT)
    assert result.status == "success"
    assert result.context["last_response"] == "An answer."
    request = adapter.requests[0]
    assert (request.model, request.max_tokens, request.reasoning_effort) == ("m1", 50, None)
    assert [message.text for message in request.messages] == ["Be brief", "Answer rhyme"]
    assert (tmp_path / "run" / "a" / "response.md").read_text() == "An answer."


async def test_transient_errors_use_the_retries_of_the_stage(tmp_path: Path) -> None:
    with ScriptedAdapter(RateLimitError("slow down"), "Now it works.") as adapter:
        result = await PipelineRunner(backend=LlmBackend(Client({"s": adapter}, "s")), logs_root=tmp_path / "run").run(
            DOT
        )
    assert (result.status, len(adapter.requests)) == ("success", 2)


async def test_authentication_errors_are_terminal_and_routed(tmp_path: Path) -> None:
    with ScriptedAdapter(AuthenticationError("wrong key")) as adapter:
        result = await PipelineRunner(backend=LlmBackend(Client({"s": adapter}, "s")), logs_root=tmp_path / "run").run(
            DOT
        )
    assert result.completed_nodes == ("start", "a", "fix", "exit")
    assert "wrong key" in result.node_outcomes["a"].failure_reason
    assert result.node_outcomes["a"].terminal


async def test_an_answer_that_was_cut_short_fails() -> None:
    with ScriptedAdapter(respond("half an ans", finish_reason="length")) as adapter:
        outcome = await LlmBackend(Client({"s": adapter}, "s"), model="m").run(Node("n"), "p", Context())
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.notes) == ("fail", "half an ans")
    assert "token limit" in outcome.failure_reason


async def test_reasoning_effort_of_the_node_is_sent() -> None:
    with ScriptedAdapter("x") as adapter:
        node = Node("n", {"reasoning_effort": "low"})
        await LlmBackend(Client({"s": adapter}, "s"), model="m").run(node, "p", Context())
    assert adapter.requests[0].reasoning_effort == "low"


@pytest.mark.parametrize(
    ("node", "graph", "defaults", "expected"),
    [
        ({"llm_model": "n", "llm_provider": "s"}, {"llm_model": "g"}, {"model": "d"}, ("n", "s")),
        ({}, {"llm_model": "g"}, {"model": "d"}, ("g", "")),
        ({}, {}, {"model": "d", "provider": "t"}, ("d", "t")),
        ({"llm_provider": "t"}, {}, {"model": "d", "provider": "s"}, ("d", "t")),
    ],
)
def test_model_resolution_order(
    node: dict[str, str], graph: dict[str, str], defaults: dict[str, str], expected: tuple[str, str]
) -> None:
    adapters = {"s": ScriptedAdapter(), "t": ScriptedAdapter()}
    backend = LlmBackend(Client(adapters, "s"), **defaults)  # type: ignore[arg-type]
    context = Context({f"graph.{key}": value for key, value in graph.items()})
    assert backend.resolve_model(Node("n", node), context) == expected


def test_without_a_model_the_newest_of_the_provider_is_taken() -> None:
    latest = get_latest_model("anthropic")
    assert latest is not None
    client = Client({"anthropic": ScriptedAdapter(name="anthropic"), "s": ScriptedAdapter()}, "s")
    assert LlmBackend(client, provider="anthropic").resolve_model(Node("n"), Context()) == (latest.id, "anthropic")
    assert LlmBackend(client, model=latest.id).resolve_model(Node("n"), Context()) == (latest.id, "anthropic")
    with pytest.raises(ConfigurationError, match="names no model"):
        LlmBackend(client).resolve_model(Node("n"), Context())


PAIR = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; %s
    a [prompt="First."]; b [prompt="Second."]; start -> a -> b; b -> exit [condition="outcome=success"]
    b -> fix [condition="outcome=needs_work"]; fix [shape=parallelogram, tool_command=true]; fix -> exit }"""


async def run_agents(tmp_path: Path, *steps: Any, attrs: str = "", **options: Any) -> tuple[RunResult, ScriptedAdapter]:
    with ScriptedAdapter(*steps) as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=tmp_path, **options)
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run").run(PAIR % attrs)
    return result, adapter


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_agent_works_through_tools_and_its_last_text_is_the_response(tmp_path: Path) -> None:
    call = respond(tool_calls=[("write_file", {"file_path": str(tmp_path / "made.txt"), "content": "hello"})])
    result, adapter = await run_agents(tmp_path, call, "Wrote it.", "All well?")
    assert (tmp_path / "made.txt").read_text() == "hello"
    assert result.completed_nodes == ("start", "a", "b", "exit")
    assert (tmp_path / "run" / "a" / "response.md").read_text() == "Wrote it."
    assert "- a: success" in adapter.requests[2].messages[-1].text, "the second stage is told of the first"
    assert len(adapter.requests[2].messages) == 2, "and begins a fresh conversation"


async def test_what_an_agent_changes_in_files_is_kept_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\u2028still two\nthree")
    (tmp_path / "same.txt").write_text("same")
    (tmp_path / "blob").write_bytes(b"\xff\xfe\x00")
    calls = [
        ("edit_file", {"file_path": "old.txt", "old_string": "one", "new_string": "ONE"}),
        ("write_file", {"file_path": str(tmp_path / "new.txt"), "content": "hello\n"}),
        ("write_file", {"file_path": "same.txt", "content": "same"}),
        ("write_file", {"file_path": "blob", "content": "text now"}),
    ]
    await run_agents(tmp_path, respond(tool_calls=calls), "Did it.", "Nothing to do.")
    assert (tmp_path / "run" / "a" / "changes.diff").read_text() == (
        "Files a/blob and b/blob differ\n"
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"
        "--- a/old.txt\n+++ b/old.txt\n@@ -1,3 +1,3 @@\n-one\n+ONE\n two\u2028still two\n three\n"
        "\\ No newline at end of file\n"
    )
    assert not (tmp_path / "run" / "b" / "changes.diff").exists()


async def test_an_agent_reports_its_outcome_with_a_tool(tmp_path: Path) -> None:
    nonsense = respond(tool_calls=[("report_outcome", {"outcome": "success", "context_updates": "x"})])
    report = {"outcome": "needs_work", "notes": "two bugs", "context_updates": {"bugs": 2}}
    result, adapter = await run_agents(
        tmp_path, "Done.", nonsense, respond(tool_calls=[("report_outcome", report)]), "It says success."
    )
    assert result.completed_nodes == ("start", "a", "b", "fix", "exit")
    assert (result.node_outcomes["b"].word, result.context["bugs"]) == ("needs_work", 2)
    assert (tmp_path / "run" / "b" / "response.md").read_text() == "It says success."
    tool = next(tool for tool in adapter.requests[1].tools or [] if tool.name == "report_outcome")
    assert "outcome=needs_work" in str(tool.parameters)


async def test_an_agent_reports_through_the_status_file(tmp_path: Path) -> None:
    command = """printf '{"outcome": "needs_work"}' > "$ATTRACTOR_STAGE_DIR/status.json" """
    result, _ = await run_agents(tmp_path, "Done.", respond(tool_calls=[("shell", {"command": command})]), "Finished.")
    assert result.completed_nodes == ("start", "a", "b", "fix", "exit")


async def test_an_agent_that_is_cut_short_fails_its_stage(tmp_path: Path) -> None:
    call = respond(tool_calls=[("shell", {"command": "true"})])
    result, _ = await run_agents(tmp_path, call, config=SessionConfig(max_tool_rounds_per_input=1))
    assert result.status == "fail"
    assert "limit of tool rounds" in result.failure_reason


async def test_stages_of_full_fidelity_carry_one_conversation_on(tmp_path: Path) -> None:
    _, adapter = await run_agents(tmp_path, "One.", "Two.", attrs='default_fidelity=full; thread_id="t"; ')
    assert [message.text for message in adapter.requests[1].messages[1:]] == ["First.", "One.", "Second."]


async def test_an_error_of_the_model_fails_the_stage_for_good(tmp_path: Path) -> None:
    result, _ = await run_agents(tmp_path, AuthenticationError("wrong key"))
    assert result.status == "fail"
    assert "wrong key" in result.failure_reason
    assert result.node_outcomes["a"].terminal
