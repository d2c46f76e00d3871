"""What the agent's loop costs beside the model and the tools, and what its tools cost beside bare programs."""

import shutil
import statistics
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
from agent_loop import (
    AssistantTurn,
    GrepOptions,
    LocalExecutionEnvironment,
    RegisteredTool,
    Session,
    SessionConfig,
    ToolDefinition,
    Turn,
    UserTurn,
    create_anthropic_profile,
    truncate_tool_output,
)
from agent_loop.loop import build_request
from unified_llm import Client, Response, Usage
from unified_llm.testing import ScriptedAdapter, respond

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""

TOOL_ROUNDS = 200
FILES = 50_000
SEARCHES = 9
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def no_operation() -> RegisteredTool:
    async def executor(arguments: dict[str, int], environment: LocalExecutionEnvironment) -> str:
        return "done"

    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    return RegisteredTool(ToolDefinition(name="noop", description="Does nothing.", parameters=schema), executor)


def earlier(turns: int) -> list[Turn]:
    """A conversation of so many turns."""
    pairs = [
        (UserTurn(f"Question {number}.", NOW), AssistantTurn.from_response(respond(f"Answer {number}."), NOW))
        for number in range(turns // 2)
    ]
    return [turn for pair in pairs for turn in pair]


async def measure_rounds(turns: int) -> tuple[float, float]:
    """CPU milliseconds per tool round on top of a history, and those of them that building a request takes."""
    steps: list[Response | str] = [respond(tool_calls=[("noop", {"number": number})]) for number in range(TOOL_ROUNDS)]
    profile = create_anthropic_profile("test-model")
    profile.tool_registry.register(no_operation())
    client = Client({"anthropic": ScriptedAdapter(*steps, "Done.")})
    config = SessionConfig(stream=False)
    with tempfile.TemporaryDirectory() as directory:
        environment = LocalExecutionEnvironment(directory)
        async with Session(profile, environment, client=client, config=config, history=earlier(turns)) as session:
            # An earlier conversation is turned into messages once.
            build_request(session)
            begun = time.process_time()
            await session.submit("go")
            whole = time.process_time() - begun
            # What was built lately is known to it by now, as it is from round to round.
            begun = time.process_time()
            for _ in range(TOOL_ROUNDS):
                build_request(session)
            building = time.process_time() - begun
            assert session.usage == sum((respond().usage for _ in range(TOOL_ROUNDS + 1)), Usage())
    return whole / TOOL_ROUNDS * 1000, building / TOOL_ROUNDS * 1000


def loop_rows() -> Iterator[Row]:
    few, many = [], []
    for _ in range(5):
        few.append(anyio.run(measure_rounds, 10))
        many.append(anyio.run(measure_rounds, 1_000))
    round_of_few = min(whole for whole, _ in few)
    yield "agent: CPU per tool round", round_of_few, "ms", None, 1.0
    # The history grows while it is measured, so that a request takes what it takes half-way.
    apart_few = statistics.median(whole - building for whole, building in few)
    apart_many = statistics.median(whole - building for whole, building in many)
    yield "agent: building a request, 1,000 turns", min(building for _, building in many), "ms", None, None
    # The scripted adapter keeps every request with its list of messages, which takes a little more the longer it is.
    yield "agent: round but for that, 1,000 turns to 10", apart_many, "ms", apart_many / apart_few, 1.5


def make_tree(root: Path) -> None:
    for number in range(FILES):
        folder = root / str(number // 500)
        if number % 500 == 0:
            folder.mkdir()
        (folder / f"{number}.py").write_text(f"value = {number}\n" + ("needle\n" if number % 1_000 == 0 else ""))


async def measure_searches(root: Path, ripgrep: str) -> tuple[float, float]:
    """Medians in milliseconds: ripgrep alone, and the environment's grep."""
    environment = LocalExecutionEnvironment(root)
    await environment.initialize()
    command = [ripgrep, "--no-config", "--no-ignore", "--hidden", "--line-number", "needle", "."]
    alone, ours = [], []
    for _ in range(SEARCHES):
        begun = time.perf_counter()
        await anyio.to_thread.run_sync(lambda: subprocess.run(command, cwd=root, capture_output=True, check=True))
        alone.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        found = await environment.grep("needle", ".", GrepOptions())
        ours.append(time.perf_counter() - begun)
        assert found.count("\n") == FILES // 1_000 - 1
    await environment.cleanup()
    return statistics.median(alone) * 1000, statistics.median(ours) * 1000


def search_rows() -> Iterator[Row]:
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        make_tree(Path(directory))
        alone, ours = anyio.run(measure_searches, Path(directory), ripgrep)
    yield "rg over 50,000 files", alone, "ms", None, None
    yield "grep over 50,000 files", ours, "ms", ours / alone, 1.2


def truncation_rows() -> Iterator[Row]:
    """The memory that a cut needs beside the text; a second copy would be 100 MB."""
    for name, text in (("lines", "some line of output\n" * 5_000_000), ("one line", "x" * 100_000_000)):
        tracemalloc.start()
        begun = time.process_time()
        cut = truncate_tool_output(text, "shell")
        milliseconds = (time.process_time() - begun) * 1000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(cut) < 31_000
        yield f"agent: cutting 100 MB of output, {name}", milliseconds, "ms", None, 10.0
        yield f"agent: memory for that, {name}", peak / 1024**2, "MB", None, 1.0


def rows() -> Iterator[Row]:
    """The loop, the search, the cut."""
    yield from loop_rows()
    yield from search_rows()
    yield from truncation_rows()
