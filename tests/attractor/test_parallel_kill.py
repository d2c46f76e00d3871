"""A fan-out whose process is killed at random goes on to the result of one that was left alone."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from attractor.state.checkpoint import Checkpoint

PROGRAM = r"""
import os, sys
from pathlib import Path
import anyio
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner

BRANCHES = "".join(f"fork -> a{n} -> b{n} -> c{n} -> join; c{n} -> d{n} [condition=\"outcome=fail\"]; d{n} -> join;"
                   for n in range(6))
INNER = "fork -> in_fork; in_fork [shape=component]; in_fork -> x -> y -> in_join; in_fork -> z -> in_join -> join;"
DOT = f'''digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; start -> before -> fork; join -> after -> exit
    fork [shape=component, max_parallel=3]; join [shape=tripleoctagon]; in_join [shape=tripleoctagon]
    {INNER} {BRANCHES} }}'''

class Work:
    async def execute(self, node, context, graph, logs_root):
        fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, node.id.encode() + b"\n")
        os.close(fd)
        await anyio.sleep(0.01)
        if node.id == "c2":
            return Outcome.fail("c2 fails")
        return Outcome.success(context_updates={f"by.{node.id}": len(context.snapshot()), "last": node.id})

async def main():
    root = Path(sys.argv[1])
    runner = PipelineRunner(logs_root=root, handlers={"codergen": Work()})
    print("begun", flush=True)
    result = await (runner.resume(root) if (root / "checkpoint.json").exists() else runner.run(DOT))
    assert result.status == "success", result.failure_reason

anyio.run(main)
"""


def start(folder: Path, name: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", PROGRAM, str(folder / name), str(folder / f"{name}.ran")]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_killed_fan_out_resumes_to_the_result_of_an_uninterrupted_one(tmp_path: Path) -> None:
    chance = random.Random(int.from_bytes(os.urandom(4)))
    with start(tmp_path, "whole") as process:
        assert process.wait(60) == 0
    kills = 0
    while True:
        with start(tmp_path, "killed") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            try:
                process.wait(chance.uniform(0.02, 0.12) if kills < 6 else 60)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            code = process.wait()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
        if not (tmp_path / "killed" / "checkpoint.json").exists():
            subprocess.run(["rm", "-rf", str(tmp_path / "killed")], check=True)
    whole, killed = (Checkpoint.load(tmp_path / name) for name in ("whole", "killed"))
    assert killed.completed_nodes == whole.completed_nodes
    assert killed.context_values == whole.context_values
    assert killed.node_outcomes == whole.node_outcomes
    assert (killed.visits, killed.executions) == (whole.visits, whole.executions)
    ran = Counter((tmp_path / "killed.ran").read_text().split()) - Counter((tmp_path / "whole.ran").read_text().split())
    # At most those that were under way at a kill: three branches, one of them two in its own.
    assert ran.total() <= 4 * kills
    assert {path.parent.name for path in (tmp_path / "killed").glob("*/status.json")} == set(whole.completed_nodes)
