"""The model backend: model resolution, and what becomes of answers and errors (sections 1.4, 4.5 and 8.5)."""

from pathlib import Path

import pytest
from attractor.backends.llm import LlmBackend
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
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
