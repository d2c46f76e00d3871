"""What a pipeline node costs: CPU of this process per node, with the durable checkpoint after each.

The floors are what no engine can do without: a loop that appends a line of JSON per node, with and without syncing it,
one that writes the whole checkpoint anew and renames it, and a bare task group whose tasks leave what a branch leaves.
Rows about a whole run have all of it: transforms, lint, the run directory and every file in it.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import anyio
import anyio.lowlevel
from attractor.dot import parse_dot
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state.context import Context

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""

ROUNDS = 5
BRANCHES = 100
VALUES = {f"key{number:02}": f"{number}: ".ljust(200, "x") for number in range(50)}
"""A context of some size: each snapshot writes it anew."""
_fdatasync = getattr(os, "fdatasync", os.fsync)


@cache
def find_root() -> str:
    """Where all runs of this process lie, until it ends: TMPDIR, or else the place where files are made soonest.

    For minutes ext4 passes over each inode of a folder's neighbourhood that was freed, one by one: of runs that delete
    what the last one wrote, each would pay for those before it, and so would a benchmark where tests just deleted
    thousands of files. Ours makes two inodes a stage, a snapshot but one.
    """
    given = os.environ.get("TMPDIR")
    places = [given] if given else [tempfile.gettempdir(), "/var/tmp", Path(__file__).parents[2]]
    roots = [
        tempfile.TemporaryDirectory(prefix=".bench-engine-", dir=place) for place in places if os.access(place, os.W_OK)
    ]
    for root in roots:
        atexit.register(root.cleanup)
    return min((root.name for root in roots), key=measure_creation)


def measure_creation(root: str) -> float:
    """Seconds of CPU that some folders with a file each take there."""
    begun = time.process_time()
    for number in range(50):
        os.mkdir(f"{root}/{number}")
        Path(f"{root}/{number}/file").touch()
    return time.process_time() - begun


def make_folder() -> Path:
    """An empty directory."""
    return Path(tempfile.mkdtemp(dir=find_root()))


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


def make_fan_out(branches: int) -> Graph:
    """start -> fan -> b0, b1, ... -> join -> exit."""
    edges = "; ".join(f"fan -> b{number} -> join" for number in range(branches))
    return parse_dot(
        "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; join [shape=tripleoctagon]; "
        f"fan [shape=component, max_parallel={branches}]; start -> fan; join -> exit; {edges} }}"
    )


def measure(nodes: int, large: str = "") -> Cost:
    """The engine between the first and the last node: without lint, and what a run does but once."""
    graph = make_chain(nodes)
    times: list[float] = []

    class Clocked(Count):
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            if node.id in ("n0", f"n{nodes - 1}"):
                times.extend((time.process_time(), time.perf_counter()))
            return await super().execute(node, context, graph, logs_root)

    folder = make_folder()
    logs_root = folder / "run"
    context = {"large": large} if large else {}
    runner = PipelineRunner(handlers={"codergen": Clocked()}, logs_root=logs_root, context=context)
    result = anyio.run(runner.run, graph)
    assert result.context["count"] == nodes
    size = (logs_root / "journal.jsonl").stat().st_size - len(large)
    begun_cpu, begun_wall, ended_cpu, ended_wall = times
    steps = nodes - 1
    return Cost((ended_cpu - begun_cpu) / steps * 1000, (ended_wall - begun_wall) / steps * 1000, size / nodes)


def measure_run(graph: Graph) -> float:
    """Milliseconds of CPU a node that a whole run takes."""
    folder = make_folder()
    runner = PipelineRunner(handlers={"codergen": Count()}, logs_root=folder / "run", context=VALUES)
    begun = time.process_time()
    result = anyio.run(runner.run, graph)
    ended = time.process_time()
    assert result.status == "success", result.failure_reason
    return (ended - begun) / len(graph.nodes) * 1000


def measure_floor(nodes: int, *, sync: bool) -> Cost:
    """A line of JSON per node, appended to a file."""
    folder = make_folder()
    descriptor = os.open(folder / "log.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    begun_cpu, begun_wall = time.process_time(), time.perf_counter()
    for number in range(nodes):
        os.write(descriptor, json.dumps({"node": f"n{number}", "changes": {"count": number}}).encode() + b"\n")
        if sync:
            _fdatasync(descriptor)
    ended_cpu, ended_wall = time.process_time(), time.perf_counter()
    os.close(descriptor)
    return Cost((ended_cpu - begun_cpu) / nodes * 1000, (ended_wall - begun_wall) / nodes * 1000, 0.0)


def measure_snapshots(nodes: int) -> float:
    """Milliseconds of CPU a node: the whole checkpoint as JSON, written aside, synced and renamed."""
    context, completed = {**VALUES, "count": 0}, list[str]()
    folder = make_folder()
    path, aside = f"{folder}/checkpoint.json", f"{folder}/checkpoint.json.tmp"
    begun = time.process_time()
    for number in range(nodes):
        context["count"] = number
        completed.append(f"n{number}")
        text = json.dumps({"current_node": completed[-1], "completed_nodes": completed, "context": context})
        with open(aside, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    return (time.process_time() - begun) / nodes * 1000


def measure_tasks(branches: int) -> float:
    """Milliseconds of CPU a branch: tasks that leave a synced line, three events and a status.json each, as ours do."""
    folder = make_folder()
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    journal, events = (os.open(f"{folder}/{name}.jsonl", flags) for name in ("journal", "events"))

    async def branch(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        changes = {"count": number}
        for kind in ("StageStarted", "StageCompleted", "CheckpointSaved"):
            line = json.dumps({"type": kind, "time": time.time(), "name": f"b{number}"})
            os.write(events, line.encode() + b"\n")
        os.write(journal, json.dumps({"node": f"b{number}", "context": changes}).encode() + b"\n")
        _fdatasync(journal)
        os.mkdir(f"{folder}/b{number}")
        status = os.open(f"{folder}/b{number}/status.json", os.O_CREAT | os.O_WRONLY)
        os.write(status, json.dumps({"outcome": "success", "context_updates": changes}).encode())
        os.close(status)

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(branches):
                tasks.start_soon(branch, number)

    begun = time.process_time()
    anyio.run(run)
    ended = time.process_time()
    os.close(journal)
    os.close(events)
    return (ended - begun) / branches * 1000


def read_peak() -> float:
    """MB that this process held at most, itself: `ru_maxrss` starts from what its parent held."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure_memory(nodes: int) -> float:
    """MB that a process holds at most in which a chain of that many nodes is parsed and run."""
    done = subprocess.run([sys.executable, __file__, str(nodes)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def rows() -> Iterator[Row]:
    """The measurements, taken in turns so that a busy moment hits all of them."""
    yield from node_rows()
    yield from run_rows()
    few, many = measure_memory(100), measure_memory(5000)
    yield "engine: memory for 5,000 nodes over that for 100", many - few, "MB", None, 20.0


def node_rows() -> Iterator[Row]:
    """Between the first and the last node; the best of some each."""
    rounds = [
        (
            measure_floor(1000, sync=False),
            measure_floor(1000, sync=True),
            measure(100),
            measure(1000),
            measure(100, "x" * 100_000),
        )
        for _ in range(ROUNDS)
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


def run_rows() -> Iterator[Row]:
    """Whole runs. The middle of the ratios of rounds, as both sides of a round meet the same disk."""
    hundred, thousands, fan_out = make_chain(100), make_chain(5000), make_fan_out(BRANCHES)
    rounds = [
        (
            measure_snapshots(100),
            measure_run(hundred),
            measure_run(thousands) if number < 2 else None,
            measure_tasks(BRANCHES),
            measure_run(fan_out),
        )
        for number in range(ROUNDS)
    ]
    run = median(own for _, own, _, _, _ in rounds)
    to_snapshot = median(own / floor for floor, own, _, _, _ in rounds)
    growth = min(long for _, _, long, _, _ in rounds if long is not None) / min(own for _, own, _, _, _ in rounds)
    branch = median(own for _, _, _, _, own in rounds)
    to_tasks = median(own / floor for _, _, _, floor, own in rounds)
    yield "engine: floor, the whole checkpoint renamed and synced", median(row[0] for row in rounds), "ms", None, None
    yield "engine: whole run of 100 nodes, to that snapshot", run, "ms", to_snapshot, 1.5
    yield "engine: whole run, 5,000 nodes to 100", run * growth, "ms", growth, 1.15
    yield "engine: floor, a bare task group", median(row[3] for row in rounds), "ms", None, None
    yield "engine: fan-out to 100 branches, to that task group", branch, "ms", to_tasks, 2.0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure_run(make_chain(int(sys.argv[1])))
        print(read_peak())
    else:
        for name, value, unit, ratio, limit in rows():
            print(f"{name}: {value:.4f} {unit}" + (f" ({ratio:.2f}x, limit {limit})" if ratio else ""))
