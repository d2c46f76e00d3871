"""What a command costs through the local execution environment, beside the standard library's own call."""

import statistics
import subprocess
import time
from collections.abc import Iterator

import anyio
from agent_loop.environments import LocalExecutionEnvironment

Row = tuple[str, float, str, float | None, float | None]
COMMAND = "echo hello"
ROUNDS = 150


def bare() -> float:
    begun = time.perf_counter()
    subprocess.run(["/bin/bash", "-c", COMMAND], capture_output=True, stdin=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begun) * 1000


async def measure() -> tuple[float, float]:
    """Medians in milliseconds, of rounds that take turns so that both see the same machine."""
    environment = LocalExecutionEnvironment(".")
    await environment.initialize()
    without, within = [], []
    for _ in range(ROUNDS):
        without.append(bare())
        begun = time.perf_counter()
        await environment.exec_command(COMMAND, 10_000)
        within.append((time.perf_counter() - begun) * 1000)
    await environment.cleanup()
    return statistics.median(without), statistics.median(within)


def rows() -> Iterator[Row]:
    """On each event loop; a command must stay under 1.5 times of the bare call."""
    for backend in ("asyncio", "trio"):
        without, within = anyio.run(measure, backend=backend)
        yield f"subprocess.run, {backend}", without, "ms", None, None
        yield f"exec_command, {backend}", within, "ms", within / without, 1.5
