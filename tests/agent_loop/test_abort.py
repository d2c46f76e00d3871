"""Stopping: abort, close, cancellation. Nothing runs on, and the model isn't asked again (sections 2.8, 9.11)."""

import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import (
    EventKind,
    LocalExecutionEnvironment,
    RegisteredTool,
    Session,
    SessionError,
    SessionState,
    StopReason,
    SubmitResult,
    ToolDefinition,
    ToolResultsTurn,
    create_openai_profile,
)
from unified_llm import AuthenticationError, Client
from unified_llm.testing import ScriptedAdapter, events_of, respond

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def start(directory: Path, *steps: Any) -> tuple[Session, ScriptedAdapter]:
    adapter = ScriptedAdapter(*steps, name="openai")
    client = Client({"openai": adapter})
    return Session(create_openai_profile("m"), LocalExecutionEnvironment(directory), client=client), adapter


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def read_pid(path: Path) -> int:
    with anyio.fail_after(5):
        while not (found := path.read_text().strip() if path.exists() else ""):
            await anyio.sleep(0.01)
    return int(found)


LONG = respond(tool_calls=[("shell", {"command": "sleep 300 & echo $! > pid; wait", "timeout_ms": 600_000})])
STUBBORN = respond(
    tool_calls=[
        ("shell", {"command": "trap '' TERM; (sleep 300 & echo $! > background) ; sleep 300 & echo $! > pid; wait"})
    ]
)


@pytest.mark.parametrize("step", [LONG, STUBBORN], ids=["willing", "stubborn"])
async def test_abort_kills_the_tool_and_asks_the_model_no_more(tmp_path: Path, step: Any) -> None:
    session, adapter = start(tmp_path, step)
    results: list[SubmitResult] = []

    async def submit() -> None:
        results.append(await session.submit("go"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submit)
        pid = await read_pid(tmp_path / "pid")
        started = time.monotonic()
        await session.abort()
        assert time.monotonic() - started < 3
        assert not is_alive(pid)
    if (tmp_path / "background").exists():
        assert not is_alive(int((tmp_path / "background").read_text()))
    assert results[0].stop_reason is StopReason.ABORTED
    assert session.state is SessionState.CLOSED
    assert len(adapter.requests) == 1
    kinds = [event.kind async for event in session.events()]
    assert kinds.count(EventKind.SESSION_END) == 1
    assert kinds[-3:] == [EventKind.TOOL_CALL_END, EventKind.PROCESSING_END, EventKind.SESSION_END]


async def test_what_runs_in_the_background_is_ended_meanwhile_not_afterwards(tmp_path: Path) -> None:
    """Both take the two seconds of grace, at the same time."""
    deaf = "trap '' TERM; echo $$ > {0}; while :; do sleep 0.1; done"
    background = f"setsid sh -c '{deaf.format('background').replace(chr(39), chr(34))}' >/dev/null 2>&1 &"
    session, _ = start(tmp_path, respond(tool_calls=[("shell", {"command": f"{background} {deaf.format('pid')}"})]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "go")
        pids = [await read_pid(tmp_path / name) for name in ("background", "pid")]
        started = time.monotonic()
        await session.abort()
        assert 2 <= time.monotonic() - started < 3.5
        assert not any(map(is_alive, pids))


async def test_abort_closes_the_stream(tmp_path: Path) -> None:
    streaming = anyio.Event()

    async def hang() -> None:
        streaming.set()
        await anyio.sleep_forever()

    session, adapter = start(tmp_path, [*events_of(respond("Half of it"))[:3], hang])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "go")
        await streaming.wait()
        assert adapter.open_streams == 1
        await session.abort()
    assert adapter.open_streams == 0
    assert session.state is SessionState.CLOSED


async def test_a_tool_may_abort_its_session(tmp_path: Path) -> None:
    session, adapter = start(tmp_path, respond(tool_calls=[("stop", {})]))

    async def stop(arguments: dict[str, Any], environment: Any) -> str:
        await session.abort()
        return "unreachable"

    session.provider_profile.tool_registry.register(
        RegisteredTool(ToolDefinition(name="stop", description="stop"), stop)
    )
    with anyio.fail_after(5):
        result = await session.submit("go")
    assert result.stop_reason is StopReason.ABORTED
    assert session.state is SessionState.CLOSED
    assert len(adapter.requests) == 1


async def test_closing_ends_background_processes(tmp_path: Path) -> None:
    session, _ = start(
        tmp_path, respond(tool_calls=[("shell", {"command": "setsid sleep 300 & echo $! > pid"})]), "Ok."
    )
    async with session:
        await session.submit("go")
        pid = await read_pid(tmp_path / "pid")
        assert is_alive(pid)
    assert not is_alive(pid)
    await session.close()
    assert [event.kind async for event in session.events()].count(EventKind.SESSION_END) == 1


async def test_cancelling_the_submit_kills_and_leaves_a_usable_session(tmp_path: Path) -> None:
    session, adapter = start(tmp_path, LONG, "Still here.")
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.submit, "go")
            pid = await read_pid(tmp_path / "pid")
            tasks.cancel_scope.cancel()
        assert not is_alive(pid)
        assert session.state is SessionState.IDLE
        turn = session.history[-1]
        assert isinstance(turn, ToolResultsTurn)
        assert turn.results[0].is_error
        assert (await session.submit("and now?")).text == "Still here."
    assert len(adapter.requests) == 2


async def test_aborting_an_idle_session_closes_it(tmp_path: Path) -> None:
    session, _ = start(tmp_path)
    await session.abort()
    assert session.state is SessionState.CLOSED
    assert [event.kind async for event in session.events()] == [EventKind.SESSION_START, EventKind.SESSION_END]


async def test_two_may_abort_at_once(tmp_path: Path) -> None:
    session, _ = start(tmp_path, LONG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "go")
        await read_pid(tmp_path / "pid")
        tasks.start_soon(session.abort)
        tasks.start_soon(session.close)
    assert [event.kind async for event in session.events()].count(EventKind.SESSION_END) == 1


async def test_a_session_that_is_ending_takes_nothing_more(tmp_path: Path) -> None:
    # The command's background process withstands SIGTERM, so that ending takes two seconds.
    leaves = respond(tool_calls=[("shell", {"command": "(trap '' TERM; sleep 300; sleep 300) & echo started"})])
    session, adapter = start(tmp_path, leaves, AuthenticationError("wrong key", provider="openai"), "never asked")
    refused: list[str] = []

    async def come_too_late() -> None:
        async with aclosing(session.events()) as events:
            async for event in events:
                if event.kind is EventKind.PROCESSING_END:
                    break
        assert session.state is not SessionState.CLOSED
        for late in (session.steer, session.follow_up):
            with pytest.raises(SessionError, match="closed"):
                late("too late")
            refused.append(late.__name__)
        with pytest.raises(SessionError, match="closed"):
            await session.submit("too late")
        refused.append("submit")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(come_too_late)
        result = await session.submit("Go.")
    assert (result.stop_reason, result.text) == (StopReason.ERROR, "")
    assert refused == ["steer", "follow_up", "submit"]
    assert len(adapter.requests) == 2
    assert session.state is SessionState.CLOSED
