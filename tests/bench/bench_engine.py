"""What a pipeline node costs: CPU of this process per node, with the durable checkpoint after each."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
from attractor.dot import parse_dot
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state.context import Context

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""


class Count:
    """The least work that changes the context."""

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        return Outcome.success(context_updates={"count": context.get("count", 0) + 1})


def make_chain(nodes: int) -> Graph:
    """start -> n0 -> ... -> exit."""
    chain = " -> ".join(f"n{number}" for number in range(nodes))
    return parse_dot(f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; start -> {chain} -> exit }}")


def measure(nodes: int, large: str = "") -> tuple[float, float, float]:
    """Milliseconds of CPU and of wall time a node, and bytes of journal a node; without parsing and lint."""
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
    return (ended_cpu - begun_cpu) / steps * 1000, (ended_wall - begun_wall) / steps * 1000, size / nodes


def rows() -> Iterator[Row]:
    """The measurements, the best of three each."""
    few = min(measure(100) for _ in range(3))
    many = min(measure(1000) for _ in range(3))
    large = min(measure(100, "x" * 100_000) for _ in range(3))
    yield "engine: CPU per node, chain of 100", few[0], "ms", None, None
    yield "engine: CPU per node, chain of 1,000", many[0], "ms", many[0] / few[0], 1.15
    yield "engine: CPU per node, with a 100 KB value", large[0], "ms", large[0] / few[0], 1.2
    yield "engine: wall time per node, chain of 1,000", many[1], "ms", None, None
    yield "engine: journal per node", many[2], "bytes", None, 300.0


if __name__ == "__main__":
    for name, value, unit, ratio, limit in rows():
        print(f"{name}: {value:.3f} {unit}" + (f" ({ratio:.2f}x, limit {limit})" if ratio else ""))
