"""The stores of a person's memory: one suite for all three, and what only files must stand."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from agent_loop.personalization import (
    BasinUpdate,
    DamagedMemoryError,
    JsonFileStore,
    MemoryStore,
    NewBasin,
    PersonalizationError,
    PersonalState,
    Provenance,
    SqliteStore,
    Store,
    Update,
    apply_update,
    create_initial_state,
    open_store,
)

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
FILES = pytest.mark.parametrize("make", [JsonFileStore, SqliteStore], ids=["json", "sqlite"])
STATE = create_initial_state([{"label": "Planning", "keywords": ["naïve 日本"]}], now="2026-12-01T09:00:00+00:00")
WRITER = """
import sys, anyio
from agent_loop.personalization import Update, BasinUpdate, apply_update, open_store

async def main():
    store = open_store(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        await store.update(lambda state: apply_update(state, Update()))

anyio.run(main)
"""


def grow(state: PersonalState | None) -> PersonalState:
    assert state is not None
    return apply_update(state, Update(basin_updates=[BasinUpdate(id="planning", weight_delta=0.1)]))


@pytest.fixture(params=["memory", "json", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return {
        "memory": MemoryStore,
        "json": lambda: JsonFileStore(tmp_path / "new folder/memory.json"),
        "sqlite": lambda: SqliteStore(tmp_path / "new folder/memory.db"),
    }[request.param]()


@BOTH_LOOPS
async def test_what_is_saved_is_loaded(store: Store) -> None:
    assert await store.load() is None
    assert await store.history() == []
    await store.save(STATE)
    assert await store.load() == STATE


async def test_every_snapshot_keeps_its_provenance(store: Store) -> None:
    await store.save(STATE)
    by = Provenance(engine="anthropic", model="m", action="ingest")
    changed = await store.update(grow, by)
    history = await store.history()
    assert [snapshot.by for snapshot in history] == [None, by]
    assert history[1].weights == {"planning": changed.basins[0].weight}
    assert history[0].timestamp == "2026-12-01T09:00:00+00:00"


async def test_history_is_capped(store: Store) -> None:
    await store.save(STATE)
    for number in range(25):
        await store.update(grow, Provenance(engine=str(number)))
    assert [snapshot.by.engine for snapshot in await store.history() if snapshot.by] == [str(n) for n in range(15, 25)]


async def test_a_change_that_fails_writes_nothing(store: Store) -> None:
    def fail(state: PersonalState | None) -> PersonalState:
        raise PersonalizationError("no")

    with pytest.raises(PersonalizationError):
        await store.update(fail)
    assert await store.load() is None
    await store.save(STATE)
    with pytest.raises(PersonalizationError):
        await store.update(fail)
    assert await store.load() == STATE
    assert len(await store.history()) == 1


@BOTH_LOOPS
async def test_tasks_of_one_process_lose_no_update(store: Store) -> None:
    await store.save(STATE)
    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(store.update, lambda state: apply_update(state, Update()))
    state = await store.load()
    assert state is not None
    assert state.update_count == 12


@FILES
async def test_two_processes_lose_no_update(make: Callable[[Path], Store], tmp_path: Path) -> None:
    path = tmp_path / ("memory.db" if make is SqliteStore else "memory.json")
    store = make(path)
    await store.save(STATE)
    writers = [
        subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", WRITER, str(path), "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [await anyio.to_thread.run_sync(writer.wait, 60) for writer in writers] == [0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    state = await store.load()
    assert state is not None
    assert state.update_count == 60


@FILES
@pytest.mark.parametrize("content", [b"no memory\n" * 200, b'{"version": 1, "state": {', b"\x00\xff" * 500])
async def test_a_damaged_file_is_refused_and_left_alone(
    make: Callable[[Path], Store], content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "memory"
    path.write_bytes(content)
    for attempt in (make(path).load, make(path).history, lambda: make(path).save(STATE)):
        with pytest.raises(DamagedMemoryError, match="is damaged, or no memory at all"):
            await attempt()
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"history": None}, {"history": [{}]}, {"state": {"basins": []}}],
    ids=["version", "history", "snapshot", "state"],
)
@FILES
async def test_a_record_of_another_kind_is_refused(
    make: Callable[[Path], Store], change: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "memory"
    await make(path).save(STATE)
    if make is SqliteStore:
        with sqlite3.connect(path) as connection:
            [[kept]] = connection.execute("SELECT kept FROM personal_memory").fetchall()
            connection.execute("UPDATE personal_memory SET kept = ?", (json.dumps(json.loads(kept) | change),))
        connection.close()
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    before = path.read_bytes()
    with pytest.raises(DamagedMemoryError):
        await make(path).update(grow)
    assert path.read_bytes() == before


@FILES
async def test_only_its_user_may_read_it(make: Callable[[Path], Store], tmp_path: Path) -> None:
    await make(tmp_path / "memory").save(STATE)
    assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o600


async def test_a_json_file_is_replaced_behind_its_symlink(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "memory.json"
    link.symlink_to(tmp_path / "real/memory.json")
    await JsonFileStore(tmp_path / "real/memory.json").save(STATE)
    await JsonFileStore(link).update(grow)
    assert link.is_symlink()
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["memory.json", "memory.json.lock"]


async def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.json"
    await JsonFileStore(path).save(STATE)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PersonalizationError, match="No space left on device"):
        await JsonFileStore(path).update(grow)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["memory.json", "memory.json.lock"]


@FILES
async def test_waiting_for_another_process_ends(make: Callable[..., Store], tmp_path: Path) -> None:
    path = tmp_path / "memory"
    await make(path).save(STATE)
    holder = (
        f"import fcntl, sys; f = open({str(path)!r} + '.lock'); fcntl.flock(f, fcntl.LOCK_EX)"
        if make is JsonFileStore
        else f"import sqlite3, sys; c = sqlite3.connect({str(path)!r}); c.execute('BEGIN IMMEDIATE')"
    )
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", f"{holder}; print('held', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(PersonalizationError, match=r"another process holds|database is locked"):
            await make(path, lock_seconds=0.1).update(grow)
    finally:
        process.kill()
        process.communicate()
    assert (await make(path).update(grow)).update_count == 1


def test_the_suffix_chooses_the_store() -> None:
    assert isinstance(open_store("a/memory.sqlite3"), SqliteStore)
    assert isinstance(open_store("a/memory.DB"), SqliteStore)
    assert isinstance(open_store("a/memory"), JsonFileStore)


async def test_a_folder_in_its_place_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(PersonalizationError, match="can't be read or written: Is a directory"):
        await JsonFileStore(tmp_path).load()
    with pytest.raises(PersonalizationError, match="can't be"):
        await SqliteStore(tmp_path).save(apply_update(STATE, Update(new_basin=NewBasin(label="x"))))


async def test_a_second_writer_here_does_not_let_another_process_in(tmp_path: Path) -> None:
    """Closing a file gives up all locks that the process has on it, those of other descriptors too."""
    path = tmp_path / "memory.db"
    begin = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    done: list[subprocess.CompletedProcess[str]] = []

    def change(state: PersonalState | None) -> PersonalState:
        with pytest.raises(PersonalizationError, match="locked"):
            anyio.run(SqliteStore(path, lock_seconds=0).save, STATE)
        done.append(subprocess.run([sys.executable, "-c", begin, path], capture_output=True, text=True, check=False))
        return STATE

    await SqliteStore(path).update(change)
    assert "database is locked" in done[0].stderr
    assert await SqliteStore(path).load() == STATE
