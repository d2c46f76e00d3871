"""Going on with a run that was killed, stopped or failed (section 5.3)."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from attractor.errors import CheckpointError, RunDirectoryError
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import load_checkpoint
from attractor.testing import Reply, ScriptedHandler

LINE = """digraph line { start [shape=Mdiamond]; exit [shape=Msquare]
    a [goal_gate=true]; start -> a -> b -> c -> exit }"""


async def run(
    folder: Path, script: dict[str, Reply | list[Reply]], text: str = LINE, *, resume: bool = False, from_node: str = ""
) -> tuple[RunResult, list[str]]:
    handler = ScriptedHandler(script)
    runner = PipelineRunner(logs_root=folder, handlers={"codergen": handler})
    result = await (runner.resume(folder, from_node=from_node) if resume else runner.run(text))
    return result, handler.calls


async def test_resume_of_a_finished_run_reports_its_result_and_runs_nothing(tmp_path: Path) -> None:
    first, _ = await run(tmp_path / "r", {})
    events = (tmp_path / "r" / "events.jsonl").read_bytes()
    again, calls = await run(tmp_path / "r", {}, resume=True)
    assert calls == []
    assert (again.status, again.completed_nodes, again.context, again.run_id) == (
        first.status,
        first.completed_nodes,
        first.context,
        first.run_id,
    )
    assert again.node_outcomes == first.node_outcomes
    assert (tmp_path / "r" / "events.jsonl").read_bytes() == events


async def test_resume_of_a_run_killed_at_its_very_end_writes_what_was_left_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    await run(folder, {})
    checkpoint, events, status = (folder / name for name in ("checkpoint.json", "events.jsonl", "exit/status.json"))
    whole, told = json.loads(checkpoint.read_bytes()), events.read_bytes().splitlines(keepends=True)
    # The journal has the last step; a kill came before all that follows it.
    checkpoint.write_text(json.dumps({**whole, "status": "running", "sequence": 2, "completed_nodes": ["start"]}))
    events.write_bytes(b"".join(told[:-1]))
    status.unlink()
    again, calls = await run(folder, {}, resume=True)
    assert (again.status, calls) == ("success", [])
    # The journal has the time to the millisecond.
    assert {**json.loads(checkpoint.read_bytes()), "timestamp": 0} == {**whole, "timestamp": 0}
    assert json.loads(status.read_bytes())["status"] == "success"
    kinds = [json.loads(line)["type"] for line in events.read_bytes().splitlines()]
    assert kinds == [json.loads(line)["type"] for line in told]
    written = events.read_bytes()
    await run(folder, {}, resume=True)
    assert events.read_bytes() == written


async def test_resume_of_a_failed_run_retries_the_failed_node(tmp_path: Path) -> None:
    failed, calls = await run(tmp_path / "r", {"b": "fail"})
    assert (failed.status, calls) == ("fail", ["a", "b"])
    resumed, calls = await run(tmp_path / "r", {}, resume=True)
    assert (resumed.status, calls) == ("success", ["b", "c"])


async def test_resume_of_a_failed_run_behind_a_diamond_retries_the_stage_not_the_diamond(tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; d [shape=diamond]
        start -> a -> b -> d; d -> c [condition="outcome=success"]; c -> exit }"""
    failed, _ = await run(tmp_path / "r", {"b": "fail"}, text)
    assert failed.status == "fail"
    resumed, calls = await run(tmp_path / "r", {}, resume=True)
    assert (resumed.status, calls) == ("success", ["b", "c"])


async def test_resume_from_a_node(tmp_path: Path) -> None:
    await run(tmp_path / "r", {})
    resumed, calls = await run(tmp_path / "r", {}, resume=True, from_node="b")
    assert (resumed.status, calls) == ("success", ["b", "c"])
    with pytest.raises(CheckpointError, match="no node 'nowhere'"):
        await run(tmp_path / "r", {}, resume=True, from_node="nowhere")


async def test_resume_after_a_visit_limit_gives_the_run_new_visits(tmp_path: Path) -> None:
    text = """digraph g { max_node_visits=3; start [shape=Mdiamond]; exit [shape=Msquare]
        start -> a -> b -> a; b -> exit [condition="context.go=1"] }"""
    failed, _ = await run(tmp_path / "r", {}, text)
    assert "visited more than 3 times" in failed.failure_reason
    again, calls = await run(tmp_path / "r", {}, resume=True)
    assert again.status == "fail"
    assert calls.count("a") == 3


@pytest.mark.parametrize("content", ['{"current_node": "pl', "", '{"format": 1}'])
async def test_resume_of_a_corrupt_checkpoint_is_an_error_and_runs_nothing(tmp_path: Path, content: str) -> None:
    await run(tmp_path / "r", {"b": "fail"})
    (tmp_path / "r" / "checkpoint.json").write_text(content)
    handler = ScriptedHandler()
    with pytest.raises(CheckpointError, match=r"checkpoint\.json is damaged.*(delete|start a new run)"):
        await PipelineRunner(handlers={"codergen": handler}).resume(tmp_path / "r")
    assert handler.calls == []


async def test_resume_of_a_changed_pipeline_is_an_error(tmp_path: Path) -> None:
    await run(tmp_path / "r", {"b": "fail"})
    (tmp_path / "r" / "pipeline.dot").write_text(LINE.replace("b -> c", "b -> a -> c"))
    with pytest.raises(CheckpointError, match="belongs to another pipeline"):
        await run(tmp_path / "r", {}, resume=True)


async def test_resume_of_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="has no manifest"):
        await PipelineRunner().resume(tmp_path)


PROGRAM = r"""
import os, sys, time
from pathlib import Path
import anyio
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner

DOT = '''digraph loop { goal=count; max_node_visits=1000; start [shape=Mdiamond]; exit [shape=Msquare]
    work [type=work]; check [type=check, goal_gate=true, retry_target=work]; more [shape=diamond]
    start -> work -> check -> more; more -> work [condition="context.count<150"]; more -> exit [label=Done] }'''

class Work:
    async def execute(self, node, context, graph, logs_root):
        fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, node.id.encode() + b"\n")
        os.close(fd)
        await anyio.sleep(0.001)
        count = context.get("count", 0) + (node.id == "work")
        return Outcome.success(f"round {count}", context_updates={"count": count, "large": "x" * 2000 * (count // 50)})

async def main():
    root = Path(sys.argv[1])
    runner = PipelineRunner(logs_root=root, handlers={"work": Work(), "check": Work()})
    print("begun", flush=True)
    result = await (runner.resume(root) if (root / "checkpoint.json").exists() else runner.run(DOT))
    print(result.status, flush=True)

anyio.run(main)
"""


def start(folder: Path, name: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", PROGRAM, str(folder / name), str(folder / f"{name}.ran")]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def count_runs(path: Path) -> Counter[str]:
    return Counter(path.read_text().split()) if path.exists() else Counter()


def test_killed_run_resumes_to_the_result_of_an_uninterrupted_one(tmp_path: Path) -> None:
    chance = random.Random(int.from_bytes(os.urandom(4)))
    with start(tmp_path, "whole") as process:
        assert process.wait(60) == 0
    interrupted: Counter[str] = Counter()
    kills = 0
    while True:
        with start(tmp_path, "killed") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            try:
                process.wait(chance.uniform(0.03, 0.15) if kills < 12 else 60)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            ended = process.wait()
        assert ended in (0, -signal.SIGKILL), f"after kill {kills}, the run ended by itself with {ended}"
        if ended == 0:
            break
        kills += 1
        if not (tmp_path / "killed" / "checkpoint.json").exists():
            # Too early for a checkpoint: nothing was executed, and the directory is of no use to anyone.
            assert not count_runs(tmp_path / "killed.ran")
            subprocess.run(["rm", "-r", str(tmp_path / "killed")], check=False)
            continue
        json.loads((tmp_path / "killed" / "checkpoint.json").read_bytes())
        state = load_checkpoint(tmp_path / "killed")
        completed = Counter(node for node in state.completed_nodes if node in ("work", "check"))
        under_way = count_runs(tmp_path / "killed.ran") - completed - interrupted
        assert under_way in (Counter(), Counter({state.next_node: 1})), f"after kill {kills}, a node ran without need"
        interrupted += under_way
    assert kills >= 2, "too quick to be killed"
    whole, killed = (Checkpoint.load(tmp_path / name) for name in ("whole", "killed"))
    assert killed.completed_nodes == whole.completed_nodes
    assert killed.context_values == whole.context_values
    assert killed.node_outcomes == whole.node_outcomes
    assert killed.visits == whole.visits
    assert count_runs(tmp_path / "killed.ran") - count_runs(tmp_path / "whole.ran") == interrupted
    assert not list((tmp_path / "killed").rglob("*.tmp"))
    for status in (tmp_path / "killed").glob("*/status.json"):
        assert json.loads(status.read_bytes())["status"] == "success"


async def test_goal_gate_passed_before_a_kill_stays_passed(tmp_path: Path) -> None:
    await run(tmp_path / "r", {"c": "fail"})
    journal = (tmp_path / "r" / "journal.jsonl").read_bytes().split(b"\n")
    # As after a kill between b and c: the journal ends there, and checkpoint.json is of the beginning.
    (tmp_path / "r" / "journal.jsonl").write_bytes(b"\n".join(journal[:4]) + b"\n")
    (tmp_path / "r" / "checkpoint.json").write_bytes(journal[0])
    resumed, calls = await run(tmp_path / "r", {}, resume=True)
    assert (resumed.status, calls) == ("success", ["c"])
    assert resumed.completed_nodes == ("start", "a", "b", "c", "exit")


async def test_kill_between_the_end_of_a_round_and_its_restart(tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> b
        b -> a [condition="outcome=fail", loop_restart=true]; b -> exit [condition="outcome=success"] }"""
    first, _ = await run(tmp_path / "r", {"b": ["fail", "success"]}, text)
    assert first.status == "success"
    for name in ("journal.jsonl", "checkpoint.json"):
        (tmp_path / "r" / "restart-1" / name).unlink()
    resumed, calls = await run(tmp_path / "r", {}, resume=True)
    assert (resumed.status, calls) == ("success", ["a", "b"])
    finished, calls = await run(tmp_path / "r", {}, resume=True)
    assert (finished.status, calls) == ("success", [])


async def test_events_go_on_counting_after_resumption(tmp_path: Path) -> None:
    await run(tmp_path / "r", {"b": "fail"})
    await run(tmp_path / "r", {}, resume=True)
    lines = (tmp_path / "r" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == list(range(1, len(lines) + 1))
