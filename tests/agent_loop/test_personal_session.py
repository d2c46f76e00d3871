"""A session that knows how its person works, and takes the conversation in when it closes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from agent_loop import (
    EventKind,
    LocalExecutionEnvironment,
    Session,
    SessionConfig,
    UserTurn,
    create_anthropic_profile,
)
from agent_loop.personalization import JsonFileStore, MemoryStore, PersonalMemory, create_initial_state
from unified_llm import Client, ServerError
from unified_llm.testing import ScriptedAdapter, events_of, respond

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
STATE = create_initial_state([{"label": "Planning", "description": "thinks before acting"}])
SUMMARY = json.dumps({"summary": "They planned a move.", "vibes": ["calm"]})
GROW = json.dumps({"basin_updates": [{"id": "planning", "weight_delta": 0.1}]})


def session_of(adapter: ScriptedAdapter, tmp_path: Path, memory: PersonalMemory | None, **options: object) -> Session:
    return Session(
        create_anthropic_profile("claude-sonnet-4-5"),
        LocalExecutionEnvironment(tmp_path),
        client=Client({"anthropic": adapter}, "anthropic"),
        config=SessionConfig(user_instructions="Answer in French.", stream=False),
        personalization=memory,
        **options,
    )


async def warnings_of(session: Session) -> list[str]:
    return [event.data["message"] async for event in session.events() if event.kind is EventKind.WARNING]


async def test_the_block_stands_between_project_and_user_instructions(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    memory = PersonalMemory(store=MemoryStore())
    await memory.store.save(STATE)
    with ScriptedAdapter("Bonjour.") as adapter:
        async with session_of(adapter, tmp_path, memory) as session:
            await session.submit("Hello")
    prompt = adapter.requests[0].messages[0].text
    places = [prompt.index(part) for part in ("Use tabs.", "<personal_context>", "</personal_context>", "in French.")]
    assert places == sorted(places)
    assert "Planning [50% →]: thinks before acting" in prompt
    assert await warnings_of(session) == []
    assert await memory.store.load() == STATE, "nobody asked to take it in"


@BOTH_LOOPS
async def test_closing_takes_the_conversation_in(tmp_path: Path) -> None:
    memory = PersonalMemory(store=MemoryStore(), ingest_on_close=True)
    await memory.store.save(STATE)
    tools = respond(tool_calls=[("shell", {"command": "echo secret-output"})])
    with ScriptedAdapter(tools, "Three boxes, then the van.", SUMMARY, GROW) as adapter:
        earlier = [UserTurn("From long ago", datetime(2026, 1, 1, tzinfo=UTC))]
        async with session_of(adapter, tmp_path, memory, history=earlier) as session:
            await session.submit("Plan my move")
    asked = adapter.requests[2].messages[1].text
    assert "Person: Plan my move" in asked
    assert "Assistant: (uses shell)" in asked
    assert "Assistant: Three boxes, then the van." in asked
    assert "From long ago" not in asked
    assert "secret-output" not in asked
    state = await memory.load()
    assert state.basins[0].weight == pytest.approx(0.6)
    [snapshot] = (await memory.store.history())[1:]
    assert snapshot.by is not None
    assert (snapshot.by.engine, snapshot.by.model) == ("anthropic", "claude-sonnet-4-5")
    assert await warnings_of(session) == []


@pytest.mark.parametrize("answer", [ServerError("down", retryable=False), "no JSON at all"])
async def test_a_failure_never_fails_the_close(answer: object, tmp_path: Path) -> None:
    memory = PersonalMemory(store=MemoryStore(), ingest_on_close=True)
    await memory.store.save(STATE)
    with ScriptedAdapter("Done.", answer) as adapter:
        async with session_of(adapter, tmp_path, memory) as session:
            await session.submit("Plan my move")
    [warning] = await warnings_of(session)
    assert warning.startswith("The conversation was not taken into the memory: anthropic gave no")
    assert await memory.store.load() == STATE


async def test_a_damaged_memory_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text("{")
    memory = PersonalMemory(store=JsonFileStore(tmp_path / "memory.json"))
    with ScriptedAdapter("Bonjour.") as adapter:
        async with session_of(adapter, tmp_path, memory) as session:
            assert (await session.submit("Hello")).text == "Bonjour."
    [warning] = await warnings_of(session)
    assert "is damaged" in warning


@BOTH_LOOPS
async def test_a_slow_engine_is_given_up(tmp_path: Path) -> None:
    memory = PersonalMemory(store=MemoryStore(), ingest_on_close=True, close_seconds=0.05)
    await memory.store.save(STATE)
    with ScriptedAdapter("Done.", [anyio.sleep_forever]) as adapter:
        async with session_of(adapter, tmp_path, memory) as session:
            await session.submit("Plan my move")
    assert await warnings_of(session) == [
        "The conversation was not taken into the memory: it took more than 0.05 seconds"
    ]


async def test_nothing_said_is_nothing_taken_in(tmp_path: Path) -> None:
    memory = PersonalMemory(store=MemoryStore(), ingest_on_close=True)
    await memory.store.save(STATE)
    with ScriptedAdapter() as adapter:
        async with session_of(adapter, tmp_path, memory):
            pass
    assert await memory.store.load() == STATE


@BOTH_LOOPS
async def test_whoever_closes_second_waits_for_what_is_taken_in(tmp_path: Path) -> None:
    memory = PersonalMemory(store=MemoryStore(), ingest_on_close=True)
    await memory.store.save(STATE)
    asked, answer = anyio.Event(), anyio.Event()

    async def think() -> None:
        asked.set()
        await answer.wait()

    with ScriptedAdapter("Done.", [think, *events_of(respond(SUMMARY))], GROW) as adapter:
        session = session_of(adapter, tmp_path, memory)
        await session.submit("Plan my move")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.close)
            await asked.wait()
            async with anyio.create_task_group() as second:
                second.start_soon(session.abort)
                await anyio.wait_all_tasks_blocked()
                answer.set()
            kinds = [event.kind async for event in session.events()]
            assert kinds[-1] is EventKind.SESSION_END
    assert (await memory.load()).basins[0].weight == pytest.approx(0.6)
