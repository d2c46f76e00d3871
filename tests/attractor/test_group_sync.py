"""Steps of branches that end at one moment share one sync of the journal (section 5.3)."""

import os
from pathlib import Path

import anyio
import pytest
from attractor.outcome import Outcome
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import CheckpointStore, load_checkpoint
from attractor.state.step import Entry, Step


def ended(number: int) -> Entry:
    step = Step(node_id=f"b{number}", outcome=Outcome.success(), next_node="join")
    return Entry(step, 1.0, {"mine": number}, branch=(("fan", str(number)),))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_branches_share_a_sync_and_none_goes_on_before_it(tmp_path: Path) -> None:
    told: list[str] = []

    def sync(descriptor: int) -> None:
        os.fdatasync(descriptor)
        told.append(f"synced {len((tmp_path / 'journal.jsonl').read_bytes().splitlines()) - 1}")

    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fan"), sync=sync)

    async def end(number: int) -> None:
        await store.append_with_others(ended(number))
        told.append("went on")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(end, number)
    store.close()
    assert told == ["synced 20", *["went on"] * 20]
    assert {number: state.context_values["mine"] for number, state in load_checkpoint(tmp_path).branches.items()} == {
        str(number): number for number in range(20)
    }


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_step_is_durable_though_its_branch_is_cancelled(tmp_path: Path) -> None:
    synced: list[int] = []
    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fan"), sync=synced.append)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.append_with_others(ended(0))
    store.close()
    assert len(synced) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_no_step_counts_after_a_sync_that_failed(tmp_path: Path) -> None:
    failures = [OSError(5, "Input/output error")]

    def sync(descriptor: int) -> None:
        if failures:
            raise failures.pop()

    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fan"), sync=sync)
    refused: list[int] = []

    async def end(number: int) -> None:
        try:
            await store.append_with_others(ended(number))
        except OSError:
            refused.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(end, number)
    assert sorted(refused) == [0, 1, 2]
    with pytest.raises(OSError, match="Input/output"):
        store.append(Entry(Step(node_id="fan", outcome=Outcome.success()), 2.0, {}))
    store.close()
