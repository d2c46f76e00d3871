"""A disk that is full, or can't be written, ends a run clearly; nothing is torn, and the run goes on later."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHAIN = """digraph chain { start [shape=Mdiamond]; exit [shape=Msquare]; node [shape=parallelogram]
    %s; start -> %s -> exit }"""
NAMES = [f"s{number}" for number in range(12)]


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    stages = "; ".join(f'{name} [tool_command="echo {name} >> ../ran"]' for name in NAMES)
    path = tmp_path / "chain.dot"
    path.write_text(CHAIN % (stages, " -> ".join(NAMES)))
    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages, or a skip where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def call(environment: dict[str, str], *arguments: str | Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "attractor", *map(str, arguments)]
    # A limit on files holds for those that Python caches modules in, too.
    environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, **more)


def refuse_torn_files(folder: Path) -> None:
    for path in folder.rglob("checkpoint.json"):
        json.loads(path.read_bytes())
    lines = (folder / "journal.jsonl").read_bytes().split(b"\n")
    for line in lines[:-1]:
        json.loads(line)


def check_resumed(environment: dict[str, str], folder: Path, pipeline: Path) -> None:
    resumed = call(environment, "resume", folder, "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    ran = (pipeline.parent / "ran").read_text().split()
    # The stage whose result could not be written is the one that is executed again.
    assert list(dict.fromkeys(ran)) == NAMES
    assert len(ran) <= len(NAMES) + 1
    for path in folder.rglob("*.json*"):
        for line in path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]:
            json.loads(line)


@pytest.mark.parametrize("size", [1200, 2000, 3000])
def test_a_limit_on_file_sizes(environment: dict[str, str], pipeline: Path, tmp_path: Path, size: int) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    folder = tmp_path / "run"
    ended = call(
        environment, "run", pipeline, "--quiet", "--logs", folder, "--workdir", tmp_path / "work", preexec_fn=limit
    )
    assert ended.returncode == 2, ended.stderr
    assert f"error: the run directory {folder} can't be written: File too large; mend that" in ended.stderr
    assert "Traceback" not in ended.stderr
    refuse_torn_files(folder)
    check_resumed(environment, folder, pipeline)


def test_a_full_disk(environment: dict[str, str], pipeline: Path, small_disk: Path, tmp_path: Path) -> None:
    folder = small_disk / "run"
    filler = small_disk / "filler"
    filler.write_bytes(bytes(16 * 1024))
    ended = call(environment, "run", pipeline, "--quiet", "--logs", folder, "--workdir", tmp_path / "work")
    assert ended.returncode == 2, ended.stderr
    assert f"error: the run directory {folder} can't be written: No space left on device" in ended.stderr
    refuse_torn_files(folder)
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    check_resumed(environment, folder, pipeline)


def test_a_disk_that_is_read_only(
    environment: dict[str, str], pipeline: Path, small_disk: Path, tmp_path: Path
) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = call(environment, "run", pipeline, "--logs", small_disk / "run", "--workdir", tmp_path / "work")
    assert ended.returncode == 2
    assert f"error: the run directory {small_disk}/run can't be made (Read-only file system)" in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_answers_on_a_full_disk_are_refused_and_leave_nothing(
    attractor: Callable[..., Any], environment: dict[str, str], small_disk: Path, tmp_path: Path
) -> None:
    path = tmp_path / "gate.dot"
    path.write_text(
        "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon]; start -> gate -> exit }"
    )
    folder = small_disk / "run"
    assert attractor("run", path, "--detach", "--quiet", "--logs", folder).code == 3
    with (small_disk / "filler").open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), bytes(4096))
        except OSError:
            pass
    refused = attractor("answer", folder, "exit")
    assert (refused.code, "No space left" in refused.err) == (2, True)
    assert [name.name for name in (folder / "questions").iterdir()] == ["q1.json"]
    (small_disk / "filler").unlink()
    assert attractor("answer", folder, "exit").code == 0
