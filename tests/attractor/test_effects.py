"""Effects happen once: keys, every store against one suite, and processes that are killed between claim and commit."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from glob import glob
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import anyio
import pytest
from attractor.effects import (
    EffectRecord,
    EffectStore,
    IdempotentOp,
    MemoryEffectStore,
    PostgresEffectStore,
    SqliteEffectStore,
    artifact_key,
    effect_key,
)
from attractor.errors import ContextValueError, IncompleteEffectError
from hypothesis import given
from hypothesis import strategies as st

BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
# One server for all tests that need it.
pytestmark = pytest.mark.xdist_group("postgres")


# --- Keys.

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_key_is_the_hash_of_canonical_json() -> None:
    value = {"b": [1, 2.5, None], "a": "grün"}
    assert effect_key(value) == sha256('{"a":"grün","b":[1,2.5,null]}'.encode()).hexdigest()
    assert artifact_key(value) == effect_key(value)
    assert effect_key("charge", 7) == sha256(b'["charge",7]').hexdigest()


def test_a_key_never_changes() -> None:
    """Stores hold keys of years ago."""
    lines = [True, "\ud800"]
    known = {
        "853baa09621e11ed48c9b8ff46c5ab60acbf54d94bdde305758ae8c234142578": ("charge", 7),
        "c5b2d8128672942942a83f1be2ab01eb44321cd27c6cd792f651c031aa3ad414": ({"b": [1, 2.5, None], "a": "grün"},),
        "285cbbc10fdd7826e0c040337b42d74da5758c603003dd4cc2fb783b21bf5f22": ("charge", {"order": 7, "lines": lines}),
    }
    assert {effect_key(*parts): parts for parts in known.values()} == known


@given(st.dictionaries(st.text(), values))
def test_the_order_of_keys_is_not_in_the_key(value: dict[str, Any]) -> None:
    assert effect_key(value) == effect_key(dict(reversed(value.items())))
    assert effect_key(value) == effect_key(json.loads(json.dumps(value)))


def test_what_differs_has_another_key() -> None:
    different = [1, 1.0, True, "1", None, [], {}, [1], {"1": 1}, ""]
    assert len({effect_key(value) for value in different}) == len(different)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), object(), {1: 2}, b"bytes"],
    ids=["nan", "infinity", "object", "number-key", "bytes"],
)
def test_what_is_not_json_has_no_key(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON values only"):
        effect_key(value)


# --- Stores.


class PostgresServer:
    """A server of our own, on a socket in a folder of its own."""

    def __init__(self, programs: Path, folder: Path, who: dict[str, Any]) -> None:
        self.where = f"host={folder} user=tester dbname=postgres"
        self._programs, self._folder = programs, folder
        self._options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder, **who}
        options = ["-U", "tester", "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
        subprocess.run([str(programs / "initdb"), "-D", str(folder / "data"), *options], check=True, **self._options)

    def start(self) -> None:
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self._folder}", "-c", "fsync=off"]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options]
        self._process: subprocess.Popen[bytes] = subprocess.Popen(command, **self._options)
        assert self._process.stderr is not None
        if not any(b"ready to accept connections" in line for line in self._process.stderr):
            pytest.fail(f"PostgreSQL did not start: exit code {self._process.wait()}")

    def stop(self) -> None:
        """Connections are broken off."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=30)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb")) or list(filter(None, [shutil.which("initdb")]))
    if not found:
        pytest.skip("no PostgreSQL on this machine: initdb is not installed")
    # Sockets have short paths; the server refuses to run as root.
    folder = Path(mkdtemp(prefix="pg-", dir="/tmp"))
    as_root = os.getuid() == 0
    try:
        if as_root:
            try:
                shutil.chown(folder, "postgres", "postgres")
            except LookupError:
                pytest.skip("no PostgreSQL for root: the user postgres does not exist")
        who: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if as_root else {}
        server = PostgresServer(Path(found[-1]).resolve().parent, folder, who)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(postgres_server: PostgresServer) -> str:
    """The connection string of the server."""
    return postgres_server.where


@dataclass(frozen=True)
class Place:
    """A kind of store, and where its records lie: stores of one place see the same."""

    kind: str
    where: str

    def open(self) -> EffectStore:
        return SqliteEffectStore(self.where) if self.kind == "sqlite" else PostgresEffectStore(self.where)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Of the stores that outlive a process."""
    if request.param == "sqlite":
        return Place("sqlite", str(tmp_path / "deep" / "effects.db"))
    return Place("postgres", fresh_database(request.getfixturevalue("postgres"), request.node.name))


def fresh_database(server: str, name: str) -> str:
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    database = f"db_{sha256(name.encode()).hexdigest()[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database}")
    return server.replace("dbname=postgres", f"dbname={database}")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EffectStore]:
    made: EffectStore
    match request.param:
        case "memory":
            made = MemoryEffectStore()
        case "sqlite":
            made = SqliteEffectStore(tmp_path / "effects.db")
        case _:
            made = PostgresEffectStore(fresh_database(request.getfixturevalue("postgres"), request.node.name))
    yield made
    await made.close()


def claim(key: str = "k", owner: str = "one", at: float = 100.0) -> EffectRecord:
    return EffectRecord(key=key, owner=owner, claimed_at=at)


@BACKENDS
class TestStores:
    """Every store must pass these."""

    async def test_the_first_claim_wins(self, store: EffectStore) -> None:
        assert await store.find("k") is None
        assert await store.claim(claim()) is None
        assert await store.claim(claim(owner="two", at=1e12)) == claim()
        assert await store.find("k") == claim()

    async def test_claiming_twice_for_one_owner_is_one_claim(self, store: EffectStore) -> None:
        assert await store.claim(claim()) is None
        assert await store.claim(claim()) is None

    async def test_a_committed_result_stands(self, store: EffectStore) -> None:
        await store.claim(claim())
        done = replace(claim(), done=True, result={"id": [1, None, "ü\0\ud800"]})
        assert await store.commit(done)
        assert await store.commit(done)
        assert await store.claim(claim(owner="two")) == done
        assert await store.claim(claim()) == done

    async def test_only_who_claimed_commits(self, store: EffectStore) -> None:
        done = replace(claim(owner="two"), done=True, result=2)
        assert not await store.commit(done)
        await store.claim(claim())
        assert not await store.commit(done)
        assert await store.find("k") == claim()

    async def test_a_result_expires_and_a_claim_does_not(self, store: EffectStore) -> None:
        await store.claim(claim())
        done = replace(claim(), done=True, result=1, expires_at=200.0)
        await store.commit(done)
        assert await store.claim(claim(owner="two", at=199.9)) == done
        assert await store.claim(claim(owner="two", at=200.0)) is None
        assert await store.find("k") == claim(owner="two", at=200.0)

    async def test_taking_over(self, store: EffectStore) -> None:
        assert not await store.take_over(claim(owner="two"), "one")
        await store.claim(claim())
        assert await store.take_over(claim(owner="two"), "one")
        assert not await store.take_over(claim(owner="three"), "one")
        assert not await store.commit(replace(claim(), done=True))
        assert await store.commit(replace(claim(owner="two"), done=True))
        assert not await store.take_over(claim(owner="three"), "two")

    async def test_releasing(self, store: EffectStore) -> None:
        await store.claim(claim())
        await store.release("k", "two")
        assert await store.find("k") == claim()
        await store.release("k", "one")
        assert await store.find("k") is None
        await store.claim(claim())
        await store.commit(replace(claim(), done=True))
        await store.release("k", "one")
        assert await store.find("k") == replace(claim(), done=True)

    async def test_putting(self, store: EffectStore) -> None:
        for result in ("old", "new"):
            await store.put(replace(claim(owner=result), done=True, result=result))
        assert await store.find("k") == replace(claim(owner="new"), done=True, result="new")

    async def test_what_a_caller_does_to_a_result_is_not_in_the_store(self, store: EffectStore) -> None:
        given = {"items": [1]}
        await store.put(replace(claim(), done=True, result=given))
        given["items"].append(2)
        first = await store.find("k")
        assert first is not None
        first.result["items"].append(3)
        assert await store.find("k") == replace(claim(), done=True, result={"items": [1]})

    async def test_of_many_claims_at_once_one_wins(self, store: EffectStore) -> None:
        winners: list[str] = []

        async def try_it(owner: str) -> None:
            if await store.claim(claim(owner=owner)) is None:
                winners.append(owner)

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(try_it, f"owner-{number}")
        assert len(winners) == 1
        assert await store.find("k") == claim(owner=winners[0])


# --- The operation, on every store.


@dataclass
class Clock:
    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Charge:
    """An effect that counts how often it happens, or raises."""

    error: Exception | None = None
    amounts: list[int] = field(default_factory=list)

    async def __call__(self) -> dict[str, Any]:
        self.amounts.append(120)
        if self.error:
            raise self.error
        return {"receipt": (7, len(self.amounts))}


@BACKENDS
class TestOperation:
    async def test_it_runs_once_and_answers_alike(self, store: EffectStore) -> None:
        op, charge = IdempotentOp(store, "charge"), Charge()
        assert [await op.run("order-7", charge) for _ in range(3)] == [{"receipt": [7, 1]}] * 3
        assert await IdempotentOp(store, "charge").run("order-7", charge) == {"receipt": [7, 1]}
        assert len(charge.amounts) == 1

    async def test_another_key_or_namespace_is_another_effect(self, store: EffectStore) -> None:
        charge = Charge()
        await IdempotentOp(store, "charge").run({"order": 7}, charge)
        await IdempotentOp(store, "charge").run({"order": 8}, charge)
        await IdempotentOp(store, "refund").run({"order": 7}, charge)
        assert len(charge.amounts) == 3

    async def test_a_plain_function_and_one_without_result(self, store: EffectStore) -> None:
        calls: list[int] = []
        op = IdempotentOp(store, "plain")
        assert [await op.run("k", lambda: calls.append(1)) for _ in range(2)] == [None, None]
        assert calls == [1]

    async def test_a_time_to_live_counts_from_the_commit(self, store: EffectStore) -> None:
        clock, charge = Clock(), Charge()
        op = IdempotentOp(store, "charge", ttl=60, clock=clock)
        for passed, times in [(0, 1), (59, 1), (60, 2), (119, 2), (120, 3)]:
            clock.now = 1_700_000_000.0 + passed
            await op.run("k", charge)
            assert len(charge.amounts) == times, passed

    async def test_a_time_to_live_does_not_run_while_it_happens(self, store: EffectStore) -> None:
        clock, calls = Clock(), []
        op = IdempotentOp(store, "charge", ttl=60, clock=clock)

        def happen() -> None:
            calls.append(clock.now)
            clock.now += 50

        await op.run("k", happen)
        clock.now += 59
        await op.run("k", happen)
        assert len(calls) == 1
        clock.now += 1
        await op.run("k", happen)
        assert len(calls) == 2

    async def test_a_claim_without_commit_never_expires(self, store: EffectStore) -> None:
        clock = Clock()
        op = IdempotentOp(store, "charge", ttl=1, clock=clock)
        with pytest.raises(OSError, match="line cut"):
            await op.run("k", Charge(OSError("line cut")))
        clock.now += 1e6
        with pytest.raises(IncompleteEffectError, match="2023-11-14 22:13:20 UTC"):
            await op.run("k", Charge())

    async def test_the_three_policies_after_an_error(self, store: EffectStore) -> None:
        op, charge = IdempotentOp(store, "charge"), Charge()
        with pytest.raises(OSError, match="line cut"):
            await op.run("k", Charge(OSError("line cut")))
        with pytest.raises(IncompleteEffectError, match="may have happened or not") as caught:
            await op.run("k", charge)
        assert (caught.value.key, caught.value.namespace) == ("k", "charge")
        assert await op.run("k", charge, on_incomplete="skip") is None
        assert charge.amounts == []
        assert await op.run("k", charge, on_incomplete="rerun") == {"receipt": [7, 1]}
        assert await op.run("k", charge) == {"receipt": [7, 1]}

    async def test_an_error_that_means_that_nothing_happened(self, store: EffectStore) -> None:
        op, charge = IdempotentOp(store, "charge"), Charge()
        with pytest.raises(ConnectionRefusedError):
            await op.run("k", Charge(ConnectionRefusedError()), harmless=(ConnectionRefusedError,))
        assert await op.run("k", charge) == {"receipt": [7, 1]}

    async def test_cancelling_leaves_it_incomplete(self, store: EffectStore) -> None:
        op = IdempotentOp(store, "charge")
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                scope.cancel()
                await anyio.sleep_forever()

            await op.run("k", cancel)
        with pytest.raises(IncompleteEffectError):
            await op.run("k", Charge())

    async def test_what_happened_is_recorded_though_it_is_cancelled_then(self, store: EffectStore) -> None:
        op, charge = IdempotentOp(store, "charge"), Charge()
        with anyio.CancelScope() as scope:

            async def happen() -> dict[str, Any]:
                scope.cancel()
                return await charge()

            await op.run("k", happen)
        assert await op.run("k", charge) == {"receipt": [7, 1]}
        assert len(charge.amounts) == 1

    async def test_what_did_not_happen_is_free_though_it_is_cancelled_then(self, store: EffectStore) -> None:
        op, charge = IdempotentOp(store, "charge"), Charge()
        with anyio.CancelScope() as scope:

            async def refuse() -> None:
                scope.cancel()
                raise ConnectionRefusedError

            with pytest.raises(ConnectionRefusedError):
                await op.run("k", refuse, harmless=(ConnectionRefusedError,))
        assert await op.run("k", charge) == {"receipt": [7, 1]}

    async def test_callers_in_one_process_take_turns(self, store: EffectStore) -> None:
        op, charge, results = IdempotentOp(store, "charge"), Charge(), []

        async def ask() -> None:
            results.append(await op.run("k", charge))

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask)
        assert results == [{"receipt": [7, 1]}] * 8

    async def test_of_two_who_rerun_one_claim_the_second_is_refused(self, store: EffectStore) -> None:
        await store.claim(claim(effect_key("charge", "k"), "dead"))
        assert await store.take_over(claim(effect_key("charge", "k"), "first"), "dead")
        assert not await store.take_over(claim(effect_key("charge", "k"), "second"), "dead")

    async def test_one_who_lost_its_claim_learns_of_it(self, store: EffectStore) -> None:
        async def lose() -> int:
            await IdempotentOp(store, "charge").run("k", lambda: 2, on_incomplete="rerun")
            return 1

        with pytest.raises(IncompleteEffectError, match="another process"):
            await IdempotentOp(store, "charge").run("k", lose)
        assert await IdempotentOp(store, "charge").run("k", lose) == 2

    async def test_a_result_that_is_not_json_leaves_it_incomplete(self, store: EffectStore) -> None:
        op = IdempotentOp(store, "charge")
        with pytest.raises(ContextValueError, match="result of charge"):
            await op.run("k", object)
        with pytest.raises(IncompleteEffectError):
            await op.run("k", Charge())


async def test_of_two_who_rerun_at_once_the_later_does_nothing() -> None:
    """Both saw the same claim; the other one took it over in between."""

    class Slow(MemoryEffectStore):
        async def claim(self, claim: EffectRecord) -> EffectRecord | None:
            standing = await super().claim(claim)
            if standing is not None:
                assert await super().take_over(replace(claim, owner="the other"), standing.owner)
            return standing

    store, charge = Slow(), Charge()
    await store.claim(claim(effect_key("charge", "k"), "dead"))
    with pytest.raises(IncompleteEffectError):
        await IdempotentOp(store, "charge").run("k", charge, on_incomplete="rerun")
    assert charge.amounts == []


async def test_wrong_arguments_are_refused() -> None:
    store = MemoryEffectStore()
    with pytest.raises(ValueError, match="on_incomplete is one of error, skip, rerun"):
        await IdempotentOp(store, "n").run("k", Charge(), "retry")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ttl must be more than 0"):
        IdempotentOp(store, "n", ttl=0)
    with pytest.raises(ValueError, match="JSON values only"):
        await IdempotentOp(store, "n").run(float("nan"), Charge())


# --- Across processes.

PROGRAM = """
import sys
from pathlib import Path
import anyio
from attractor.effects import IdempotentOp, PostgresEffectStore, SqliteEffectStore
from attractor.errors import IncompleteEffectError

kind, where, policy, mark, mode = sys.argv[1:]

def happen():
    with open(mark, "a") as file:
        file.write("happened\\n")
    if mode == "hang":
        print("claimed", flush=True)
        sys.stdin.read()
    return "receipt"

async def main():
    store = SqliteEffectStore(where) if kind == "sqlite" else PostgresEffectStore(where)
    if mode == "race":
        print("ready", flush=True)
        sys.stdin.readline()
    try:
        print(await IdempotentOp(store, "charge").run("order-7", happen, policy))
    except IncompleteEffectError:
        print("incomplete")
    await store.close()

anyio.run(main)
"""


def begin(place: Place, mark: Path, mode: str, policy: str = "error") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, place.kind, place.where, policy, str(mark), mode]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]", said: str = "") -> str:
    output, _ = process.communicate(said, timeout=60)
    assert process.returncode == 0
    return output.strip()


@pytest.mark.parametrize(
    ("policy", "answer", "happened"), [("error", "incomplete", 1), ("skip", "None", 1), ("rerun", "receipt", 2)]
)
def test_a_process_killed_between_claim_and_commit(
    place: Place, tmp_path: Path, policy: str, answer: str, happened: int
) -> None:
    mark = tmp_path / "mark"
    process = begin(place, mark, "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert finish(begin(place, mark, "run", policy)) == answer
    assert mark.read_text().count("happened") == happened
    if policy == "rerun":
        assert finish(begin(place, mark, "run")) == "receipt"
        assert mark.read_text().count("happened") == happened


def test_of_processes_that_claim_at_once_one_runs(place: Place, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    processes = [begin(place, mark, "race") for _ in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = sorted(finish(process) for process in processes)
    assert mark.read_text().count("happened") == 1
    assert "receipt" in answers
    assert set(answers) <= {"receipt", "incomplete"}


async def test_a_connection_that_was_lost_is_opened_again(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    where = fresh_database(postgres, "lost")
    store = PostgresEffectStore(where)
    try:
        await store.claim(claim())
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [where[-15:]])
        assert await store.find("k") == claim()
    finally:
        await store.close()


async def test_a_server_that_is_restarted_while_an_effect_happens(postgres_server: PostgresServer) -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    store = PostgresEffectStore(fresh_database(postgres_server.where, "restarted"))
    op, charge = IdempotentOp(store, "charge"), Charge()

    async def happen() -> dict[str, Any]:
        postgres_server.stop()
        postgres_server.start()
        return await charge()

    try:
        assert await op.run("k", happen) == {"receipt": [7, 1]}
        assert await op.run("k", happen) == {"receipt": [7, 1]}
        assert len(charge.amounts) == 1
    finally:
        await store.close()


async def test_a_server_that_is_gone_leaves_the_effect_undone(postgres_server: PostgresServer) -> None:
    psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    store = PostgresEffectStore(fresh_database(postgres_server.where, "gone"))
    op, charge = IdempotentOp(store, "charge"), Charge()
    try:
        await store.find("k")
        postgres_server.stop()
        try:
            with pytest.raises(psycopg.OperationalError):
                await op.run("k", charge)
        finally:
            postgres_server.start()
        assert charge.amounts == []
        assert await op.run("k", charge) == {"receipt": [7, 1]}
    finally:
        await store.close()


def test_sqlite_makes_its_file_only_when_needed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "effects.db"
    store = SqliteEffectStore(path)
    assert not path.parent.exists()
    anyio.run(store.find, "k")
    assert path.exists()


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Exception, match=r"attractor-engine\[postgres\]"):
        anyio.run(PostgresEffectStore("").find, "k")
