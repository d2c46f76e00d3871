"""Runs that are killed at every step, and at any moment, end as those that were left alone (section 5.3).

The random part takes ATTRACTOR_KILL_SECONDS, by default a few.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attractor.interviewers import QuestionStore
from attractor.state.suspensions import load_last_checkpoint

# The pipelines of kill_zygote.py.
KINDS = ("linear", "branching", "parallel", "gate", "gates", "retries", "loop", "restart")
NEVER, WAITING = "never", 3
# At most so many stages are under way at once.
CONCURRENT = {"parallel": 3, "gates": 3}
RANDOM_SECONDS = float(os.environ.get("ATTRACTOR_KILL_SECONDS", "4"))
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kill_campaign")]


class Zygote:
    """Forks runs."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("kill_zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, kind: str, folder: Path, spot: str = NEVER, kill_after: float | None = None) -> int:
        """One go at a run; how its process ended. It is killed from outside after so many seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{kind} {folder} {folder}.ran {spot}\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        if kill_after is None:
            return int(self.process.stdout.readline())
        timer = threading.Timer(kill_after, _kill, [pid])
        timer.start()
        code = int(self.process.stdout.readline())
        timer.cancel()
        timer.join()
        return code

    def close(self) -> None:
        self.process.communicate(timeout=30)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


@pytest.fixture(scope="module")
def wholes(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each pipeline, executed without a kill."""
    root = tmp_path_factory.mktemp("wholes")
    return {kind: finish(zygote, kind, root / kind) for kind in KINDS}


def finish(zygote: Zygote, kind: str, folder: Path) -> Path:
    while (code := zygote.run(kind, folder)) == WAITING:
        answer_all(folder)
    assert code == 0
    return folder


def answer_all(folder: Path) -> None:
    store = QuestionStore(folder)
    for asked in store.list_open():
        store.answer(asked.id, "Y", "the campaign")


def describe(folder: Path) -> dict[str, Any]:
    """What must be the same, however often it was killed."""
    checkpoint = load_last_checkpoint(folder)
    return {
        "status": checkpoint.status,
        "completed": checkpoint.completed_nodes,
        "context": checkpoint.context_values,
        "outcomes": checkpoint.node_outcomes,
        "visits": checkpoint.visits,
        "executions": checkpoint.executions,
        "restarts": checkpoint.restarts,
        "questions": sorted((asked.question.stage, asked.describe_answer()) for asked in asked_in(folder)),
        "stages": sorted(str(path.relative_to(folder)) for path in folder.rglob("status.json")),
    }


def asked_in(folder: Path) -> list[Any]:
    return QuestionStore(folder).list_all()


def count_runs(folder: Path) -> Counter[str]:
    return Counter(Path(f"{folder}.ran").read_text().split())


def refuse_torn_files(folder: Path) -> None:
    for path in folder.rglob("*.json"):
        json.loads(path.read_bytes())
    for path in folder.rglob("*.jsonl"):
        data = path.read_bytes()
        assert data.endswith(b"\n")
        for line in data.splitlines():
            json.loads(line)


def check(kind: str, folder: Path, whole: Path, spare: int) -> None:
    assert describe(folder) == describe(whole)
    refuse_torn_files(folder)
    more = count_runs(folder) - count_runs(whole)
    assert more.total() <= spare, f"{kind}: completed stages ran again: {more}"


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_step(zygote: Zygote, wholes: dict[str, Path], tmp_path: Path, kind: str) -> None:
    number = 0
    while True:
        number += 1
        when = "before" if number % 2 else "after"
        folder = tmp_path / str(number)
        code = zygote.run(kind, folder, f"{when}:{number}")
        while code == WAITING:
            answer_all(folder)
            code = zygote.run(kind, folder, f"{when}:{number}")
        if code == 0:
            break
        assert code == -signal.SIGKILL
        finish(zygote, kind, folder)
        # No stage was under way, but in other branches.
        check(kind, folder, wholes[kind], CONCURRENT.get(kind, 1) - 1)
    assert number > 4


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment(zygote: Zygote, wholes: dict[str, Path], tmp_path: Path, kind: str) -> None:
    chance = random.Random(os.urandom(4))
    deadline = time.monotonic() + RANDOM_SECONDS / len(KINDS)
    number = kills = 0
    while time.monotonic() < deadline or not number:
        number += 1
        folder, kills = tmp_path / str(number), 0
        while (code := zygote.run(kind, folder, kill_after=chance.uniform(0.001, 0.08))) != 0:
            if code == WAITING:
                answer_all(folder)
                continue
            assert code == -signal.SIGKILL
            refuse_torn_journal(folder)
            kills += 1
            if kills == 20:
                finish(zygote, kind, folder)
                break
        attempts = 2 if kind == "retries" else 1
        check(kind, folder, wholes[kind], kills * CONCURRENT.get(kind, 1) * attempts)


def refuse_torn_journal(folder: Path) -> None:
    """At most its last line is cut off."""
    if (folder / "journal.jsonl").exists():
        for line in (folder / "journal.jsonl").read_bytes().split(b"\n")[:-1]:
            json.loads(line)
    if (folder / "checkpoint.json").exists():
        json.loads((folder / "checkpoint.json").read_bytes())
