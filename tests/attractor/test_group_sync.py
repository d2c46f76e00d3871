"""Steps of branches that end at one moment share one sync of the journal (section 5.3)."""

from pathlib import Path
from typing import Any

import pytest
from attractor import Outcome, PipelineRunner
from attractor.events import Event
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import CheckpointStore, load_checkpoint
from attractor.state.step import Entry, Step


def ended(number: int) -> Entry:
    step = Step(node_id=f"b{number}", outcome=Outcome.success(), next_node="join")
    return Entry(step, 1.0, {"mine": number}, branch=(("fan", str(number)),))


def test_one_sync_covers_all_that_was_appended(tmp_path: Path) -> None:
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        synced.append(len((tmp_path / "journal.jsonl").read_bytes().splitlines()) - 1)

    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fan"), sync=sync)
    for number in range(20):
        store.append(ended(number))
    for _ in range(20):
        store.sync()
    store.append(ended(20))
    store.sync()
    store.close()
    assert synced == [20, 21]
    assert {state.context_values["mine"] for state in load_checkpoint(tmp_path).branches.values()} == set(range(21))


def test_nothing_counts_as_durable_after_a_sync_that_failed(tmp_path: Path) -> None:
    failures = [OSError(5, "Input/output error")]

    def sync(descriptor: int) -> None:
        if failures:
            raise failures.pop()

    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fan"), sync=sync)
    store.append(ended(0))
    for act in (store.sync, store.sync, store.close):
        with pytest.raises(OSError, match="Input/output"):
            act()


FAN_OUT = """digraph g {{
    start [shape=Mdiamond]; exit [shape=Msquare]; fan [shape=component, max_parallel=20, join_policy={policy}]
    join [shape=tripleoctagon]
    start -> fan; join -> exit
    {branches}
}}"""


async def run_branches(folder: Path, policy: str) -> list[Event]:
    class Quick:
        async def execute(self, *_: Any) -> Outcome:
            return Outcome.success()

    text = FAN_OUT.format(policy=policy, branches="; ".join(f"fan -> b{number} -> join" for number in range(20)))
    runner = PipelineRunner(logs_root=folder / "run", handlers={"codergen": Quick()})
    result = await runner.run(text)
    assert result.status == "success", result.failure_reason
    return [event async for event in runner.events()]


def name_branch_stages(events: list[Event], kind: str, field: str) -> list[tuple[int, str]]:
    return [
        (event.sequence, name) for event in events if event.type == kind and (name := getattr(event, field))[0] == "b"
    ]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_branches_that_end_together_are_saved_together(tmp_path: Path) -> None:
    events = await run_branches(tmp_path, "wait_all")
    completed = name_branch_stages(events, "StageCompleted", "name")
    saved = name_branch_stages(events, "CheckpointSaved", "node_id")
    assert len(completed) == len(saved) == 20
    assert max(completed) < min(saved)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_stage_that_ended_is_saved_though_its_branch_is_abandoned(tmp_path: Path) -> None:
    events = await run_branches(tmp_path, "first_success")
    completed = {name for _, name in name_branch_stages(events, "StageCompleted", "name")}
    saved = {name for _, name in name_branch_stages(events, "CheckpointSaved", "node_id")}
    assert completed
    assert completed == saved
