"""What a node of a graph written in Python costs, beside the same chain written in DOT: one engine runs both."""

import atexit
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Annotated

import anyio
from attractor.graph import Graph as Pipeline
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.prebuilt import START, Graph, State, add, append
from attractor.state.context import Context

Row = tuple[str, float, str, float | None, float | None]
NODES, ROUNDS = 500, 5


class Work(State):
    count: Annotated[int, add]
    items: Annotated[list[int], append]


class Count:
    """What `count` does, as a handler."""

    async def execute(self, node: Node, context: Context, graph: Pipeline, logs_root: Path) -> Outcome:
        return Outcome.success(context_updates={"count": context.get("count", 0) + 1})


async def count(state: Work) -> dict[str, int]:
    return {"count": 1}


async def gather(state: Work) -> dict[str, int]:
    return {"items": 1}


@cache
def find_root() -> str:
    """Kept until the process ends, see bench_engine.py."""
    root = tempfile.TemporaryDirectory(prefix="bench-prebuilt-")
    atexit.register(root.cleanup)
    return root.name


def make_folder() -> Path:
    return Path(tempfile.mkdtemp(dir=find_root()))


def measure_dot() -> float:
    """Microseconds of CPU a node."""
    names = " -> ".join(f"n{number}" for number in range(NODES))
    source = f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; start -> {names} -> exit }}"
    runner = PipelineRunner(handlers={"codergen": Count()}, logs_root=make_folder() / "run")
    begun = time.process_time()
    result = anyio.run(runner.run, source)
    assert result.context["count"] == NODES
    return (time.process_time() - begun) / NODES * 1e6


def measure_graph(function: object) -> float:
    """The same for a graph whose nodes all are that function."""
    assert callable(function)
    graph = Graph(Work)
    last = START
    for number in range(NODES):
        graph.add_node(f"n{number}", function).add_edge(last, f"n{number}")
        last = f"n{number}"
    compiled = graph.compile(checkpointer=make_folder())
    begun = time.process_time()
    state = anyio.run(compiled.invoke, {})
    assert NODES in (state.get("count"), len(state.get("items", ())))
    return (time.process_time() - begun) / NODES * 1e6


def rows() -> Iterator[Row]:
    """In turns, so that a busy moment hits all."""
    rounds = [(measure_dot(), measure_graph(count), measure_graph(gather)) for _ in range(ROUNDS)]
    yield "prebuilt: a node of a pipeline in DOT", median(row[0] for row in rounds), "us", None, None
    for place, what, limit in (
        (1, "a node in Python, to one in DOT", 1.5),
        (2, "the same, adding to a list of 500", 4.0),
    ):
        cost, ratio = median(row[place] for row in rounds), median(row[place] / row[0] for row in rounds)
        yield f"prebuilt: {what}", cost, "us", ratio, limit
