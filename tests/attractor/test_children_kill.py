"""A parent whose process is killed while its child runs goes on with the child, and runs no completed node again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from attractor.state.checkpoint import Checkpoint

PROGRAM = r"""
import os, shutil, sys
from pathlib import Path
import anyio
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state.usage import TokenUsage

CHILD = '''digraph child { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> b -> inner -> c -> exit
    inner [type=pipeline, "stack.child_dotfile"="inner.dot"] }'''
INNER = '''digraph inner { start [shape=Mdiamond]; exit [shape=Msquare]; start -> x -> y -> exit }'''
PARENT = '''digraph parent { start [shape=Mdiamond]; exit [shape=Msquare]; "stack.child_dotfile"="child.dot"
    sub [%s]; start -> before -> sub -> after -> exit }'''

class Work:
    async def execute(self, node, context, graph, logs_root):
        fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, node.id.encode() + b"\n")
        os.close(fd)
        context.run.add_usage(TokenUsage(input_tokens=1))
        await anyio.sleep(0.01)
        return Outcome.success(context_updates={f"by.{node.id}": len(node.id)})

async def main():
    root = Path(sys.argv[1])
    (root.parent / "child.dot").write_text(CHILD)
    (root.parent / "inner.dot").write_text(INNER)
    runner = PipelineRunner(logs_root=root, working_dir=root.parent, handlers={"codergen": Work()})
    print("begun", flush=True)
    begun = (root / "checkpoint.json").exists()
    if not begun:
        # Killed before the first state was written.
        shutil.rmtree(root, ignore_errors=True)
    result = await (runner.resume(root) if begun else runner.run(PARENT % sys.argv[3]))
    assert result.status == "success", result.failure_reason

anyio.run(main)
"""
KINDS = {"sub-pipeline": "type=pipeline", "manager": 'shape=house, "manager.poll_interval"="5ms"'}


def start(folder: Path, kind: str) -> "subprocess.Popen[bytes]":
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", PROGRAM, str(folder / "run"), str(folder / "ran"), KINDS[kind]]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split() if (folder / "ran").exists() else []


@pytest.mark.parametrize("kind", list(KINDS))
def test_killed_parent_goes_on_with_its_child(tmp_path: Path, kind: str) -> None:
    chance = random.Random(int.from_bytes(os.urandom(4)))
    with start(tmp_path / "whole", kind) as process:
        assert process.stdout is not None
        process.stdout.readline()
        begun = time.monotonic()
        assert process.wait(60) == 0
    alone = time.monotonic() - begun
    kills = 0
    while True:
        with start(tmp_path / "killed", kind) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                # Later kills are patient enough to get on, however slow the machine is.
                process.wait(chance.uniform(0, alone) + alone / 5 * kills)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait(60)
                kills += 1
                continue
            assert process.returncode == 0
            break
    whole, killed = (Checkpoint.load(tmp_path / name / "run") for name in ("whole", "killed"))
    assert killed.completed_nodes == whole.completed_nodes
    assert {key for key in killed.context_values if ".by." in key} == {
        key for key in whole.context_values if ".by." in key
    }
    for pattern in ("run/sub/child-*", "run/sub/child-*/inner/child-*"):
        [child] = (tmp_path / "killed").glob(pattern)
        twin = next((tmp_path / "whole").glob(pattern))
        assert Checkpoint.load(child).completed_nodes == Checkpoint.load(twin).completed_nodes
    counts = Counter(ran(tmp_path / "killed"))
    assert set(counts) == set(ran(tmp_path / "whole"))
    assert sum(counts.values()) <= 7 + kills, "a kill costs the node that was at work, and no other"
    assert whole.usage is not None
    assert killed.usage == whole.usage, "what killed attempts used is lost, and nothing is counted twice"


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_kill_in_the_middle_of_the_child(tmp_path: Path, kind: str) -> None:
    with start(tmp_path / "run", kind) as process:
        while "x" not in ran(tmp_path / "run"):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    before = ran(tmp_path / "run")
    assert before[:4] == ["before", "a", "b", "x"]
    with start(tmp_path / "run", kind) as process:
        assert process.wait(60) == 0
    after = ran(tmp_path / "run")[len(before) :]
    assert not {"before", "a", "b"} & set(after)
    # The kill comes at x, or a little later where the machine is busy.
    rest = ["x", "y", "c", "after"]
    assert after == rest[-len(after) :]
