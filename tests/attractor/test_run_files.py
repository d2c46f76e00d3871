"""When the files for readers are written, status.json and events.jsonl, and what a kill does to them (section 5.6)."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.event_log import read_events
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.checkpoint import Checkpoint
from attractor.state.context import Context
from attractor.state.journal import CheckpointStore, RewritePolicy, restore_run
from attractor.state.step import Entry, Step
from attractor.testing import ScriptedHandler

LINE = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> b -> exit }"
NEVER = RewritePolicy(smallest_interval=1e9, status_interval=1e9)


def read_status(folder: Path, node_id: str) -> dict[str, Any]:
    status: dict[str, Any] = json.loads((folder / node_id / "status.json").read_bytes())
    return status


async def run(folder: Path, script: dict[str, Any]) -> RunResult:
    return await PipelineRunner(logs_root=folder, handlers={"codergen": ScriptedHandler(script)}).run(LINE)


async def test_every_executed_node_has_its_status_when_the_run_ends(tmp_path: Path) -> None:
    done = Outcome.success("did it", preferred_label="go", context_updates={"x": [1, "é"], "same": True})
    await run(tmp_path / "r", {"a": done})
    assert read_status(tmp_path / "r", "a") == {
        "outcome": "success",
        "status": "success",
        "preferred_label": "go",
        "suggested_next_ids": [],
        "context_updates": {"x": [1, "é"], "same": True},
        "notes": "did it",
        "failure_reason": "",
    }
    assert {path.parent.name for path in (tmp_path / "r").glob("*/status.json")} == {"start", "a", "b", "exit"}


async def test_every_executed_node_has_its_status_when_the_run_fails(tmp_path: Path) -> None:
    await run(tmp_path / "r", {"b": "fail"})
    assert read_status(tmp_path / "r", "b")["outcome"] == "fail"
    assert {path.parent.name for path in (tmp_path / "r").glob("*/status.json")} == {"start", "a", "b"}


async def test_statuses_are_there_before_a_command_starts(tmp_path: Path) -> None:
    text = LINE.replace("start ->", f'b [shape=parallelogram, tool_command="cat {tmp_path}/r/a/status.json"]; start ->')
    result = await PipelineRunner(
        logs_root=tmp_path / "r", handlers={"codergen": ScriptedHandler()}, working_dir=tmp_path
    ).run(text)
    assert json.loads(result.context["tool.output"])["outcome"] == "success"


async def test_a_slow_stage_holds_back_neither_events_nor_statuses_before_it(tmp_path: Path) -> None:
    class WaitForFiles:
        async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            def told() -> bool:
                return any(getattr(event, "name", "") == "b" for event in read_events(logs_root))

            with anyio.fail_after(20):
                while node.id == "b" and not (told() and (logs_root / "a" / "status.json").exists()):
                    await anyio.sleep(0.01)
            return Outcome.success()

    result = await PipelineRunner(logs_root=tmp_path / "r", handlers={"codergen": WaitForFiles()}).run(LINE)
    assert result.status == "success", result.failure_reason


async def test_a_stage_that_makes_a_directory_of_its_status_fails_alone(tmp_path: Path) -> None:
    source = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a; a -> exit
        a [shape=parallelogram, tool_command="mkdir -p $ATTRACTOR_STAGE_DIR/status.json/deep"]
        a -> b [condition="outcome=fail"]; b -> exit }"""
    result = await PipelineRunner(logs_root=tmp_path / "r").run(source)
    assert result.completed_nodes == ("start", "a", "b", "exit")
    assert "can't be understood" in read_status(tmp_path / "r", "a")["failure_reason"]


@pytest.mark.parametrize("left", [None, b'{"outcome": "su'])
def test_a_killed_run_finds_the_statuses_it_could_not_write(tmp_path: Path, left: bytes | None) -> None:
    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="a", context_values={"old": 1}), NEVER)
    first = Outcome.success("one", context_updates={"x": 1, "old": 1})
    store.append(Entry(Step(node_id="a", outcome=first, next_node="a"), 1.0, {"x": 1}))
    second = Outcome.success("two", context_updates={"x": 2, "old": 1})
    store.append(Entry(Step(node_id="a", outcome=second, next_node="b"), 2.0, {"x": 2}))
    store.append(Entry(Step(node_id="b", outcome=Outcome.success(), next_node="c"), 3.0, {"x": 3}))
    if left:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "status.json").write_bytes(left)
    checkpoint, statuses = restore_run(tmp_path)
    assert statuses == {"a": second, "b": Outcome.success()}
    CheckpointStore(tmp_path, checkpoint, NEVER, statuses=statuses)
    assert read_status(tmp_path, "a")["context_updates"] == {"x": 2, "old": 1}
    assert restore_run(tmp_path)[1] == {}
