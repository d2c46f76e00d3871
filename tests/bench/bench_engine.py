"""What a pipeline node costs: CPU of this process per node, with the durable checkpoint after each.

The floor is what no engine can do without: a loop that appends a line of JSON per node, with and without syncing it.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anyio
from attractor.dot import parse_dot
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state.context import Context

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""


class Cost(NamedTuple):
    """Milliseconds of CPU and of wall time a node, and bytes of journal a node."""

    cpu: float
    wall: float
    journal: float


class Count:
    """The least work that changes the context."""

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        return Outcome.success(context_updates={"count": context.get("count", 0) + 1})


def make_chain(nodes: int) -> Graph:
    """start -> n0 -> ... -> exit."""
    chain = " -> ".join(f"n{number}" for number in range(nodes))
    return parse_dot(f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; start -> {chain} -> exit }}")


def measure(nodes: int, large: str = "") -> Cost:
    """The engine, without parsing and lint."""
    graph = make_chain(nodes)
    times: list[float] = []

    class Clocked(Count):
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            if node.id in ("n0", f"n{nodes - 1}"):
                times.extend((time.process_time(), time.perf_counter()))
            return await super().execute(node, context, graph, logs_root)

    with tempfile.TemporaryDirectory() as folder:
        logs_root = Path(folder) / "run"
        context = {"large": large} if large else {}
        runner = PipelineRunner(handlers={"codergen": Clocked()}, logs_root=logs_root, context=context)
        result = anyio.run(runner.run, graph)
        assert result.context["count"] == nodes
        size = (logs_root / "journal.jsonl").stat().st_size - len(large)
    begun_cpu, begun_wall, ended_cpu, ended_wall = times
    steps = nodes - 1
    return Cost((ended_cpu - begun_cpu) / steps * 1000, (ended_wall - begun_wall) / steps * 1000, size / nodes)


def measure_floor(nodes: int, *, sync: bool) -> Cost:
    """A line of JSON per node, appended to a file."""
    with tempfile.TemporaryDirectory() as folder:
        descriptor = os.open(Path(folder) / "log.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        begun_cpu, begun_wall = time.process_time(), time.perf_counter()
        for number in range(nodes):
            os.write(descriptor, json.dumps({"node": f"n{number}", "changes": {"count": number}}).encode() + b"\n")
            if sync:
                getattr(os, "fdatasync", os.fsync)(descriptor)
        ended_cpu, ended_wall = time.process_time(), time.perf_counter()
        os.close(descriptor)
    return Cost((ended_cpu - begun_cpu) / nodes * 1000, (ended_wall - begun_wall) / nodes * 1000, 0.0)


def rows() -> Iterator[Row]:
    """The measurements, the best of some each, taken in turns so that a busy moment hits all of them."""
    rounds = [
        (
            measure_floor(1000, sync=False),
            measure_floor(1000, sync=True),
            measure(100),
            measure(1000),
            measure(100, "x" * 100_000),
        )
        for _ in range(5)
    ]
    line, synced, few, many, large = (min(costs) for costs in zip(*rounds, strict=True))
    yield "engine: floor, append a line", line.cpu, "ms", None, None
    yield "engine: floor, append a line and sync it", synced.cpu, "ms", None, None
    yield "engine: CPU per node, to the appended line", many.cpu, "ms", many.cpu / line.cpu, None
    yield "engine: CPU per node, to the synced line", many.cpu, "ms", many.cpu / synced.cpu, 6.0
    yield "engine: wall per node, to the synced line", many.wall, "ms", many.wall / synced.wall, 4.0
    yield "engine: CPU per node, 1,000 nodes to 100", many.cpu, "ms", many.cpu / few.cpu, 1.5
    yield "engine: CPU per node, with a 100 KB value", large.cpu, "ms", large.cpu / few.cpu, 1.5
    yield "engine: journal per node", many.journal, "bytes", None, 300.0


if __name__ == "__main__":
    for name, value, unit, ratio, limit in rows():
        print(f"{name}: {value:.4f} {unit}" + (f" ({ratio:.2f}x, limit {limit})" if ratio else ""))
