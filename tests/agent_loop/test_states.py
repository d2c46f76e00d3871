"""Every transition of section 2.3."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import (
    LocalExecutionEnvironment,
    RegisteredTool,
    Session,
    SessionConfig,
    SessionError,
    SessionState,
    StopReason,
    ToolDefinition,
    create_anthropic_profile,
)
from unified_llm import AuthenticationError, Client, ContextLengthError, RequestTimeoutError, RetryPolicy, ServerError
from unified_llm.testing import ScriptedAdapter, respond

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
LOOK = respond(tool_calls=[("look", {})])
HANG = respond(tool_calls=[("hang", {})])


class Watched:
    """A session whose tools note the state that they are called in."""

    def __init__(self, directory: Path, *steps: Any, **config: Any) -> None:
        self.seen: list[SessionState] = []
        self.hanging = anyio.Event()
        profile = create_anthropic_profile("test-model")
        for name, executor in (("look", self.look), ("hang", self.hang)):
            definition = ToolDefinition(name=name, description=name, parameters={"type": "object"})
            profile.tool_registry.register(RegisteredTool(definition, executor))
        self.session = Session(
            profile,
            LocalExecutionEnvironment(directory),
            client=Client({"anthropic": ScriptedAdapter(*steps)}),
            config=SessionConfig(**config),
            retry_policy=RetryPolicy(max_retries=0),
        )

    async def look(self, arguments: dict[str, Any], environment: Any) -> str:
        self.seen.append(self.session.state)
        return "seen"

    async def hang(self, arguments: dict[str, Any], environment: Any) -> str:
        self.hanging.set()
        await anyio.sleep_forever()
        return ""


async def test_idle_processing_idle(tmp_path: Path) -> None:
    watched = Watched(tmp_path, LOOK, LOOK, "Done.")
    assert watched.session.state is SessionState.IDLE
    await watched.session.submit("go")
    assert watched.seen == [SessionState.PROCESSING] * 2
    assert watched.session.state is SessionState.IDLE
    await watched.session.close()
    assert watched.session.state is SessionState.CLOSED


async def test_a_question_awaits_input_and_the_answer_goes_on(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "Which one?", LOOK, "Done.", "Sure?")
    assert (await watched.session.submit("go")).stop_reason is StopReason.AWAITING_INPUT
    assert watched.session.state is SessionState.AWAITING_INPUT
    await watched.session.submit("the first")
    assert watched.seen == [SessionState.PROCESSING]
    assert watched.session.state is SessionState.IDLE
    await watched.session.submit("on")
    assert watched.session.state is SessionState.AWAITING_INPUT
    await watched.session.abort()
    assert watched.session.state is SessionState.CLOSED


@pytest.mark.parametrize("limit", ["max_turns", "max_tool_rounds_per_input"])
async def test_a_limit_leads_back_to_idle(tmp_path: Path, limit: str) -> None:
    watched = Watched(tmp_path, LOOK, **{limit: 1})
    await watched.session.submit("go")
    assert watched.session.state is SessionState.IDLE
    await watched.session.close()


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (AuthenticationError("no"), SessionState.CLOSED),
        (ServerError("busy"), SessionState.IDLE),
        (ContextLengthError("too long"), SessionState.IDLE),
        (RequestTimeoutError("silence"), SessionState.IDLE),
    ],
    ids=["key", "server", "context", "time"],
)
async def test_errors_of_the_model_call(tmp_path: Path, error: Exception, state: SessionState) -> None:
    watched = Watched(tmp_path, error)
    assert (await watched.session.submit("go")).stop_reason is StopReason.ERROR
    assert watched.session.state is state
    await watched.session.close()


@pytest.mark.parametrize("end", ["abort", "close"])
async def test_an_abort_closes_from_processing(tmp_path: Path, end: str) -> None:
    watched = Watched(tmp_path, HANG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.session.submit, "go")
        await watched.hanging.wait()
        assert watched.session.state is SessionState.PROCESSING
        with pytest.raises(SessionError, match="still processing"):
            await watched.session.submit("another")
        await getattr(watched.session, end)()
    assert watched.session.state is SessionState.CLOSED
    with pytest.raises(SessionError, match="closed"):
        await watched.session.submit("again")
