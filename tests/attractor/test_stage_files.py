"""A stage may leave anything under the names of its files: the engine never writes through it, nor waits for it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state import stage_files
from attractor.state.context import Context
from attractor.state.stage_files import append_to, read_file, write_file
from attractor.state.status_file import clear_status, read_status, write_status
from attractor.state.steering import STEERING_NAME, SteeringReader, write_steering

Plant = Callable[[Path, Path], object]
PLANTS: dict[str, Plant] = {
    "link": lambda path, treasure: path.symlink_to(treasure),
    "link to nothing": lambda path, treasure: path.symlink_to(treasure.with_name("new")),
    "link to itself": lambda path, treasure: path.symlink_to(path),
    "hard link": lambda path, treasure: path.hardlink_to(treasure),
    "pipe": lambda path, treasure: os.mkfifo(path),
    "directory": lambda path, treasure: (path / "full").mkdir(parents=True),
}


def read_recorded(stage: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((stage / "status.json").read_text())
    return record


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    path = tmp_path / "treasure"
    path.write_text("gold")
    return path


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("write", [write_file, append_to])
def test_what_stands_there_is_replaced_and_nothing_else_is_touched(
    tmp_path: Path, treasure: Path, plant: str, write: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / "stage" / "response.md"
    path.parent.mkdir()
    PLANTS[plant](path, treasure)
    write(path, b"said")
    assert (path.read_bytes(), path.is_symlink()) == (b"said", False)
    assert treasure.read_text() == "gold"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["stage", "treasure"]


@pytest.mark.parametrize("plant", [name for name in PLANTS if name != "hard link"])
def test_what_is_no_file_is_not_read(tmp_path: Path, treasure: Path, plant: str) -> None:
    PLANTS[plant](tmp_path / "status.json", treasure)
    outcome = read_status(tmp_path)
    assert outcome is not None
    assert (outcome.status, "status.json, which the stage wrote, can't be understood" in outcome.failure_reason) == (
        "fail",
        True,
    )
    write_status(tmp_path, Outcome.success("well"))
    assert read_recorded(tmp_path)["outcome"] == "success"
    clear_status(tmp_path)
    assert read_status(tmp_path) is None
    assert treasure.read_text() == "gold"


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_files, "MAX_BYTES", 1 << 20)
    (tmp_path / "status.json").write_bytes(b" " * ((1 << 20) + 1))
    outcome = read_status(tmp_path)
    assert outcome is not None
    assert "longer than 1 MiB" in outcome.failure_reason
    assert read_file(tmp_path / "status.json", start=1) == b" " * (1 << 20)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"outcome": "success", "context_updates": {"n": ' + "9" * 5000 + "}}"]
)
def test_a_report_that_can_not_be_parsed_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    outcome = read_status(tmp_path)
    assert outcome is not None
    assert "status.json, which the stage wrote, can't be understood" in outcome.failure_reason


def test_steering_passes_over_what_is_no_file(tmp_path: Path, treasure: Path) -> None:
    reader = SteeringReader(tmp_path)
    (tmp_path / STEERING_NAME).symlink_to(treasure)
    assert reader.read() == ""
    write_steering(tmp_path, "Faster")
    assert (reader.read(), treasure.read_text()) == ("Faster", "gold")


class Vandal:
    """Works as it should, and leaves something under the names of all files of its stage."""

    def __init__(self, plant: Plant, treasure: Path) -> None:
        self.plant = plant
        self.treasure = treasure
        self.planted = False

    async def run(self, node: Node, prompt: str, context: Context) -> str:
        stage = context.run.stage_dir
        assert stage is not None
        for name in ("prompt.md", "response.md"):
            stage_files.remove_file(stage / name)
            self.plant(stage / name, self.treasure)
        first, self.planted = not self.planted, True
        if first:
            raise ConnectionError("try again")
        return "done"


async def run(tmp_path: Path, **options: Any) -> RunResult:
    source = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component];
        join [shape=tripleoctagon]; a [prompt="Work", max_retries=1]; b [prompt="Work"%s];
        start -> fork -> {a b} -> join -> exit }"""
    tool = options.pop("tool", "")
    with anyio.fail_after(30):
        return await PipelineRunner(logs_root=tmp_path / "run", **options).run(source % tool)


@pytest.mark.parametrize("plant", PLANTS)
async def test_a_run_outlives_a_stage_that_plants_things(tmp_path: Path, treasure: Path, plant: str) -> None:
    result = await run(tmp_path, backend=Vandal(PLANTS[plant], treasure))
    assert result.status == "success"
    assert treasure.read_text() == "gold"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "command",
    [
        "ln -s {0} status.json",
        "ln -s {0}-new status.json",
        "ln -s status.json status.json",
        "ln {0} status.json",
        "mkfifo status.json",
        "rm tool_output.txt; ln -s {0} tool_output.txt; exit 1",
        "cd ..; rm -r b; echo > b",
        "cd ..; rm -r b",
    ],
)
async def test_nor_does_a_command_s_stage_end_it(tmp_path: Path, treasure: Path, command: str) -> None:
    command = f"cd $ATTRACTOR_STAGE_DIR; {command.format(treasure)}"
    result = await run(tmp_path, tool=f', shape=parallelogram, max_retries=1, tool_command="{command}"')
    assert result.status == "success", result.failure_reason
    assert treasure.read_text() == "gold"
    assert not treasure.with_name("treasure-new").exists()
    recorded = read_recorded(tmp_path / "run/b")
    assert recorded["outcome"] in ("success", "fail")
