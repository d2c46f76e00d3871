"""What a killed engine leaves: a command, which is ended before the run goes on, and the time that it took."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from attractor.engine.limits import Limits
from attractor.pipeline import PipelineRunner
from attractor.state.checkpoint import Checkpoint

PROGRAM = r"""
import sys
import anyio
from attractor.pipeline import PipelineRunner

COMMAND = 'test -e first && exit; echo $$ > first.tmp; setsid sleep 60 & echo $! > away; mv first.tmp first; sleep 60'
DOT = f'''digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; start -> work -> exit
    work [shape=parallelogram, tool_command="{COMMAND}; touch late"] }}'''

async def main():
    runner = PipelineRunner(logs_root="run", working_dir=".")
    result = await (runner.resume("run") if sys.argv[1:] else runner.run(DOT))
    print(result.status, flush=True)

anyio.run(main)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs a /proc, to see what is left of a run")
def test_a_command_does_not_live_on_beside_the_resumed_run(tmp_path: Path) -> None:
    bystander = subprocess.Popen(
        ["sleep", "60"],
        env={**os.environ, "ATTRACTOR_STAGE_DIR": str(tmp_path / "run2" / "work")},
        start_new_session=True,
    )
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path) as engine:
        deadline = time.monotonic() + 30
        while not (tmp_path / "first").exists():
            assert time.monotonic() < deadline
            assert engine.poll() is None
            time.sleep(0.01)
        engine.send_signal(signal.SIGKILL)
    command, away = (int((tmp_path / name).read_text()) for name in ("first", "away"))
    try:
        assert is_alive(command), "the kill of the engine alone leaves the command running"
        resumed = subprocess.run(
            [sys.executable, "-c", PROGRAM, "resume"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert resumed.stdout == "success\n"
        assert not is_alive(command)
        assert not is_alive(away), "also what left the command's group"
        assert not (tmp_path / "late").exists()
        assert bystander.poll() is None, "another run's command is left alone"
    finally:
        for pid in (command, away, bystander.pid):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        bystander.wait()


def test_time_in_a_stage_that_was_killed_counts_against_max_duration(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path) as engine:
        deadline = time.monotonic() + 30
        while not (tmp_path / "first").exists() or not (tmp_path / "run/.lock").read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        engine.send_signal(signal.SIGKILL)
    runner = PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path, limits=Limits(max_duration=0.9))
    ended = anyio.run(runner.resume, tmp_path / "run")
    assert "the run took longer than max_duration" in ended.failure_reason
    assert 1 <= Checkpoint.load(tmp_path / "run").elapsed < 20
