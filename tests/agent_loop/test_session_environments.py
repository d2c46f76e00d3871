"""Nothing survives a session, wherever it works: after a timeout, an abort, a close (sections 5.4 and 9.11)."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import LocalExecutionEnvironment, Session, ToolResultsTurn, create_openai_profile
from agent_loop.environments import (
    ExecutionEnvironment,
    ExecutionEnvironmentError,
    LoggingExecutionEnvironment,
    ReadOnlyExecutionEnvironment,
    SandboxExecutionEnvironment,
)
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter, respond

ENVIRONMENTS: dict[str, Callable[[Path], ExecutionEnvironment]] = {
    "local": LocalExecutionEnvironment,
    "logging": lambda path: LoggingExecutionEnvironment(LocalExecutionEnvironment(path)),
    "read-only": lambda path: ReadOnlyExecutionEnvironment(LocalExecutionEnvironment(path)),
    "bubblewrap": lambda path: SandboxExecutionEnvironment(path, backend="bubblewrap"),
    "landlock": lambda path: SandboxExecutionEnvironment(path, backend="landlock"),
}


@pytest.fixture(params=ENVIRONMENTS)
async def environment(request: pytest.FixtureRequest, tmp_path: Path) -> ExecutionEnvironment:
    made = ENVIRONMENTS[request.param](tmp_path)
    try:
        await made.initialize()
    except ExecutionEnvironmentError as error:
        pytest.skip(str(error))
    await made.cleanup()
    return made


def start(environment: ExecutionEnvironment, command: str, *, timeout_ms: int = 600_000) -> Session:
    call = respond(tool_calls=[("shell", {"command": command, "timeout_ms": timeout_ms})])
    client = Client({"openai": ScriptedAdapter(call, "done", name="openai")})
    return Session(create_openai_profile("m"), environment, client=client)


def count(mark: str) -> int:
    """Living processes of this machine with the mark in their command line."""
    found = 0
    for process in Path("/proc").iterdir():
        try:
            found += process.name.isdigit() and mark.encode() in (process / "cmdline").read_bytes()
        except OSError:
            continue
    return found


async def wait_for(number: int, mark: str) -> None:
    with anyio.fail_after(20):
        while count(mark) < number:
            await anyio.sleep(0.01)


@pytest.fixture
def mark() -> str:
    """Seconds to sleep, of which no other process has as many."""
    return f"1{uuid.uuid4().int % 10**8:08}"


TREE = "sleep {mark} & setsid sleep {mark} & sh -c 'sleep {mark}; :' & sleep {mark}"


async def test_close_ends_what_was_left_in_the_background(environment: ExecutionEnvironment, mark: str) -> None:
    session = start(environment, f"sleep {mark} & setsid sleep {mark} >/dev/null 2>&1 & echo left")
    await session.submit("go")
    await wait_for(2, mark)
    results = [turn for turn in session.history if isinstance(turn, ToolResultsTurn)]
    assert "left" in str(results[0])
    await session.close()
    assert count(mark) == 0


async def test_abort_ends_what_runs(environment: ExecutionEnvironment, mark: str) -> None:
    session = start(environment, TREE.format(mark=mark))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "go")
        await wait_for(4, mark)
        with anyio.fail_after(3):
            await session.abort()
        assert count(mark) == 0


async def test_a_timeout_and_the_close_after_it(environment: ExecutionEnvironment, mark: str) -> None:
    session = start(environment, TREE.format(mark=mark), timeout_ms=1_500)
    async with anyio.create_task_group() as tasks:

        async def see() -> None:
            await wait_for(4, mark)

        tasks.start_soon(see)
        await session.submit("go")
    results: list[Any] = [turn for turn in session.history if isinstance(turn, ToolResultsTurn)]
    assert "Command timed out after 1500ms" in str(results[0])
    await session.close()
    assert count(mark) == 0
