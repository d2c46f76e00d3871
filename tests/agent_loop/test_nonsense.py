"""A model that answers nonsense: the loop finishes or stops at a limit, and the session stays whole."""

import json
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import (
    AssistantTurn,
    EventKind,
    LocalExecutionEnvironment,
    Session,
    SessionConfig,
    SessionState,
    StopReason,
    ToolResultsTurn,
    create_gemini_profile,
    create_openai_compatible_profile,
    create_openai_profile,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from unified_llm import AdapterTimeout, Client, OpenAICompatibleAdapter, Response
from unified_llm.testing import ScriptedAdapter, respond

NAMES = ["read_file", "write_file", "edit_file", "apply_patch", "grep", "glob", "list_dir", "read_many_files", "wait"]
KEYS = ["file_path", "content", "old_string", "new_string", "patch", "pattern", "path", "include", "agent_id", "limit"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["f", ".", "*", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5) | st.text(max_size=20)
CALLS = st.lists(st.tuples(st.sampled_from(NAMES) | st.text(max_size=6), ARGUMENTS), min_size=1, max_size=3)
ANSWERS = st.lists(CALLS | st.text(max_size=20), min_size=1, max_size=4)


def answer(step: Any) -> str | Response:
    return step if isinstance(step, str) else respond(tool_calls=step)


async def converse(steps: list[Any], directory: str) -> None:
    profile = create_gemini_profile()
    apply_patch = create_openai_profile().tool_registry.get("apply_patch")
    assert apply_patch is not None
    profile.tool_registry.register(apply_patch)
    profile.tool_registry.unregister("shell")
    client = Client({"gemini": ScriptedAdapter(*map(answer, steps), *["Enough."] * 5)})
    config = SessionConfig(max_tool_rounds_per_input=3, stream=False)
    async with Session(profile, LocalExecutionEnvironment(directory), client=client, config=config) as session:
        result = await session.submit("go")
        assert result.error is None
        assert session.state in (SessionState.IDLE, SessionState.AWAITING_INPUT)
    for turn, following in zip(session.history, session.history[1:], strict=False):
        if isinstance(turn, AssistantTurn) and turn.tool_calls:
            assert isinstance(following, ToolResultsTurn)
            assert [result.tool_call_id for result in following.results] == [call.id for call in turn.tool_calls]
    # What is sent next time, whatever was said, is valid JSON.
    for message in session.history_view.update(session.history):
        json.dumps(message.model_dump(mode="json"), allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(ANSWERS)
def test_whatever_a_model_calls_the_loop_goes_on(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        anyio.run(converse, steps, directory)


@pytest.mark.slow
@pytest.mark.xdist_group("local model")
async def test_a_small_model_that_understands_little_ends_at_a_limit(local_model_url: str, tmp_path: Path) -> None:
    profile = create_openai_compatible_profile("smollm2", context_window_size=4096, subagents=False)
    profile.options = {"openai_compatible": {"max_tokens": 48, "temperature": 0.0, "seed": 1}}
    for name in ("edit_file", "grep", "glob", "shell"):
        profile.tool_registry.unregister(name)
    adapter = OpenAICompatibleAdapter(
        base_url=f"{local_model_url}/v1", timeout=AdapterTimeout(request=300, stream_read=300)
    )
    config = SessionConfig(max_turns=3, max_tool_rounds_per_input=2)
    async with Client({"openai_compatible": adapter}) as client:
        environment = LocalExecutionEnvironment(tmp_path)
        async with Session(profile, environment, client=client, config=config) as session:
            for task in ("Write the word hello to hello.txt.", "Read hello.txt."):
                result = await session.submit(task)
                assert result.error is None
                assert result.stop_reason in (
                    StopReason.COMPLETED,
                    StopReason.AWAITING_INPUT,
                    StopReason.ROUND_LIMIT,
                    StopReason.TURN_LIMIT,
                )
        kinds = [event.kind async for event in session.events()]
    assert session.turn_count >= 1
    assert session.usage.output_tokens > 0
    assert kinds[0] is EventKind.SESSION_START
    assert kinds[-1] is EventKind.SESSION_END
    assert EventKind.ERROR not in kinds
