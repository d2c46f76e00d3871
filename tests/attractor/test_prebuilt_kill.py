"""Python graphs that are killed at any moment end as those that were left alone, and each effect as its policy says.

Takes ATTRACTOR_KILL_SECONDS, by default a few.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from attractor.errors import RunDirectoryError
from attractor.prebuilt import START, Graph, State
from attractor.state.journal import has_checkpoint, read_steps

SECONDS = float(os.environ.get("ATTRACTOR_KILL_SECONDS", "4"))
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prebuilt_kill")]

# Forks a run for each line on stdin, `folder seconds`, which ends without warning after so many; 0 lets it be.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from typing import Annotated, Any
import anyio
from attractor.effects import IdempotentOp, SqliteEffectStore
from attractor.errors import IncompleteEffectError
from attractor.prebuilt import END, START, Graph, InterruptError, State, add, append, with_retry

class Work(State):
    items: Annotated[list[Any], append]
    rounds: Annotated[int, add]

def note(folder, *words):
    fd = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (" ".join(map(str, words)) + "\\n").encode())
    os.close(fd)

def build(folder):
    op = IdempotentOp(SqliteEffectStore(folder / "effects.db"), "pay")
    failed = set()

    async def work(state, ctx):
        note(folder, os.getpid(), ctx.node, state.get("rounds", 0))
        await anyio.sleep(0.001)
        return {"items": [ctx.node]}

    async def flaky(state, ctx):
        if (ctx.node, state.get("rounds", 0)) not in failed:
            failed.add((ctx.node, state.get("rounds", 0)))
            raise ConnectionError
        return await work(state, ctx)

    async def pay(state, ctx):
        update = await work(state, ctx)
        key = [ctx.node, state.get("rounds", 0)]

        async def happen():
            note(folder, "paid", *key)
            await anyio.sleep(0.02)
            return "receipt"

        try:
            await op.run(key, happen, ctx.node)
        except IncompleteEffectError:
            note(folder, "refused", *key)
        return update

    async def ask(state, ctx):
        await work(state, ctx)
        return {"items": ctx.interrupt(state.get("rounds", 0))}

    async def join(state, ctx):
        return {**await work(state, ctx), "rounds": 1}

    graph = Graph(Work).add_node("flaky", with_retry(flaky, retries=1, backoff=0)).add_node(ask).add_node(join)
    graph.add_edge(START, "flaky").add_edge("flaky", "ask").add_edge("ask", "join")
    for name in ("skip", "rerun", "error"):
        graph.add_node(name, pay).add_node(name + "2", work)
        graph.add_edge("flaky", name).add_edge(name, name + "2").add_edge(name + "2", "join")
    graph.add_conditional_edges("join", lambda state: state["rounds"] < 3, {True: "flaky", False: END})
    return graph.compile(checkpointer=folder / "runs")

async def main(folder):
    compiled = build(folder)
    begun = (folder / "runs" / "r" / "manifest.json").exists()
    go_on = compiled.resume(run_id="r") if begun else compiled.invoke({}, run_id="r")
    while True:
        try:
            result = await go_on
            break
        except InterruptError as error:
            go_on = compiled.resume(["answer", error.payload], run_id="r")
    (folder / "result").write_text(json.dumps(result))

if __name__ == "__main__":
    for line in sys.stdin:
        folder, seconds = line.split()
        pid = os.fork()
        if pid == 0:
            if float(seconds):
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, float(seconds))
            anyio.run(main, Path(folder))
            os._exit(0)
        print(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@dataclass
class Zygote:
    process: "subprocess.Popen[str]"

    def run(self, folder: Path, seconds: float = 0.0) -> tuple[int, int]:
        """The process id, and how it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{folder} {seconds:.4f}\n")
        self.process.stdin.flush()
        pid, code = self.process.stdout.readline().split()
        return int(pid), int(code)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield Zygote(process)
    process.communicate(timeout=30)


def read_log(folder: Path) -> list[list[str]]:
    path = folder / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def count_completed(folder: Path) -> Counter[str]:
    """How often each node is recorded as completed in the run's journal."""
    run_dir = folder / "runs" / "r"
    if not has_checkpoint(run_dir):
        return Counter()
    return Counter(entry.step.node_id for entry, _ in read_steps(run_dir) if entry.step.outcome is not None)


def test_killed_at_any_moment_it_ends_as_if_left_alone(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    begun = time.monotonic()
    assert zygote.run(tmp_path / "alone")[1] == 0
    took = time.monotonic() - begun
    expected = (tmp_path / "alone" / "result").read_text()
    chance = random.Random(os.environ.get("ATTRACTOR_KILL_SEED"))
    kills, until = 0, time.monotonic() + SECONDS
    for number in range(1000):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        code = 1
        for _ in range(200):
            completed = count_completed(folder)
            before = len(read_log(folder))
            pid, code = zygote.run(folder, chance.uniform(0.002, took))
            for entry in read_log(folder)[before:]:
                if entry[0] == str(pid):
                    assert int(entry[2]) >= completed[entry[1]], f"{entry} ran again, {completed}"
            if code == 0:
                break
            assert code == -signal.SIGALRM
            kills += 1
        assert code == 0
        assert (folder / "result").read_text() == expected
        happened = Counter((name, key) for what, name, key in read_log(folder) if what == "paid")
        refused = {(name, key) for what, name, key in read_log(folder) if what == "refused"}
        for key in "012":
            assert happened["rerun", key] >= 1
            assert happened["skip", key] <= 1
            assert happened["error", key] <= 1
            assert happened["error", key] == 1 or ("error", key) in refused
        if time.monotonic() > until:
            break
    assert kills > 0


def test_of_two_processes_one_is_kept_off(tmp_path: Path) -> None:
    program = """
import sys, anyio
from attractor.errors import RunDirectoryError
from attractor.prebuilt import START, Graph, State
class Work(State):
    done: str
def wait(state):
    print("at work", flush=True)
    sys.stdin.readline()
    return {"done": "yes"}
graph = Graph(Work).add_node(wait).add_edge(START, "wait").compile(checkpointer=sys.argv[1])
try:
    print(anyio.run(lambda: graph.invoke({}, run_id="r")))
except RunDirectoryError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "at work\n"
        second = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=60)
        assert str(tmp_path / "r") in second.stdout
        assert "at work" not in second.stdout

        class Work(State):
            done: str

        graph = Graph(Work).add_node("wait", lambda state: None).add_edge(START, "wait").compile(checkpointer=tmp_path)

        async def resume() -> object:
            return await graph.resume(run_id="r")

        with pytest.raises(RunDirectoryError, match="in use by another process"):
            anyio.run(resume)
        out, _ = first.communicate("\n", timeout=60)
        assert out == "{'done': 'yes'}\n"
