"""Where the memory of a person lives. Which one it is makes no difference to anybody: the safeguards are elsewhere."""

import json
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from agent_loop.errors import DamagedMemoryError, PersonalizationError
from agent_loop.personalization.snapshots import Kept, Provenance, Snapshot, kept_from_record
from agent_loop.personalization.state import PersonalState

try:
    import fcntl
except ImportError:  # Windows has no flock; there, two processes must not share a file.
    fcntl = None  # type: ignore[assignment]

LOCK_SECONDS = 30.0
_POLL_SECONDS = 0.01
_DATABASE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}

Change = Callable[[PersonalState | None], PersonalState]
"""From the present state, or None where there is none yet, to the next. It runs while others wait: no I/O in it."""


class Store(Protocol):
    """Every method raises DamagedMemoryError where there is something that is no memory, and leaves that alone."""

    async def load(self) -> PersonalState | None:
        """The state; None before the first one."""

    async def save(self, state: PersonalState, by: Provenance | None = None) -> None:
        """Put this state in place of the present one, whatever that is. `update` loses nothing of others."""

    async def update(self, change: Change, by: Provenance | None = None) -> PersonalState:
        """Read, change and write in one step that no other process comes between; returns the new state.

        What `change` raises is passed on, and nothing is written.
        """

    async def history(self) -> list[Snapshot]:
        """The last ten changes, oldest first."""


class MemoryStore:
    """In this process, for tests."""

    def __init__(self) -> None:
        self._kept = Kept()

    async def load(self) -> PersonalState | None:
        return self._kept.state

    async def save(self, state: PersonalState, by: Provenance | None = None) -> None:
        await self.update(lambda _: state, by)

    async def update(self, change: Change, by: Provenance | None = None) -> PersonalState:
        state = change(self._kept.state)
        self._kept = self._kept.with_state(state, by)
        return state

    async def history(self) -> list[Snapshot]:
        return list(self._kept.history)


class JsonFileStore:
    """A JSON file that only its user may read.

    A change is written aside, synced and put in place, so that the file is whole at any time. Processes take turns by a
    lock on the file of the same name with `.lock` after it; waiting for more than `lock_seconds` is an error.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = Path(path)
        self._lock_path = Path(f"{os.path.realpath(path)}.lock")
        self._lock_seconds = lock_seconds

    async def load(self) -> PersonalState | None:
        return (await to_thread.run_sync(self._read)).state

    async def save(self, state: PersonalState, by: Provenance | None = None) -> None:
        await self.update(lambda _: state, by)

    async def update(self, change: Change, by: Provenance | None = None) -> PersonalState:
        descriptor = await self._lock()
        try:
            return await to_thread.run_sync(self._change, change, by)
        finally:
            os.close(descriptor)

    async def history(self) -> list[Snapshot]:
        return list((await to_thread.run_sync(self._read)).history)

    async def _lock(self) -> int:
        """A descriptor that holds the lock until it is closed. Waits without a thread, so that it can be cancelled."""
        with _readable_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _open_private(self._lock_path)
        try:
            with anyio.fail_after(self._lock_seconds):
                # No event tells when another process lets go.
                while not _try_lock(descriptor):  # noqa: ASYNC110
                    await anyio.sleep(_POLL_SECONDS)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, TimeoutError):
                raise PersonalizationError(
                    f"another process holds {self.path}.lock for more than {self._lock_seconds:g} seconds"
                ) from error
            raise
        return descriptor

    def _change(self, change: Change, by: Provenance | None) -> PersonalState:
        kept = self._read()
        state = change(kept.state)
        text = json.dumps(kept.with_state(state, by).to_record(), ensure_ascii=False, indent=1)
        with _readable_errors(self.path):
            _replace_file(self.path, text.encode("utf-8", "replace"))
        return state

    def _read(self) -> Kept:
        with _readable_errors(self.path):
            try:
                data = self.path.read_bytes()
            except FileNotFoundError:
                return Kept()
        try:
            return kept_from_record(json.loads(data))
        except (ValueError, RecursionError, DamagedMemoryError) as error:
            raise _damaged(self.path, error) from error


class SqliteStore:
    """A SQLite database with one row for the memory. Beside it, the database may hold what it likes.

    Waiting for another process for more than `lock_seconds` is an error.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_seconds: float = LOCK_SECONDS) -> None:
        self.path = Path(path)
        self._lock_seconds = lock_seconds

    async def load(self) -> PersonalState | None:
        return (await to_thread.run_sync(self._read)).state

    async def save(self, state: PersonalState, by: Provenance | None = None) -> None:
        await self.update(lambda _: state, by)

    async def update(self, change: Change, by: Provenance | None = None) -> PersonalState:
        return await to_thread.run_sync(self._change, change, by)

    async def history(self) -> list[Snapshot]:
        return list((await to_thread.run_sync(self._read)).history)

    def _change(self, change: Change, by: Provenance | None) -> PersonalState:
        with _readable_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Made here, as SQLite would let everyone read it. Not opened if it is there: closing it again would give up
            # the locks that this process has on it.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS personal_memory (id INTEGER PRIMARY KEY CHECK (id = 1), kept TEXT)"
                )
                kept = self._select(connection)
                state = change(kept.state)
                text = json.dumps(kept.with_state(state, by).to_record(), ensure_ascii=True)
                connection.execute("INSERT OR REPLACE INTO personal_memory VALUES (1, ?)", (text,))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return state

    def _read(self) -> Kept:
        if not self.path.exists():
            return Kept()
        with self._connect() as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'personal_memory'").fetchone()
            return self._select(connection) if found else Kept()

    def _select(self, connection: sqlite3.Connection) -> Kept:
        row = connection.execute("SELECT kept FROM personal_memory WHERE id = 1").fetchone()
        if row is None:
            return Kept()
        try:
            return kept_from_record(json.loads(row[0]))
        except (ValueError, TypeError, RecursionError, DamagedMemoryError) as error:
            raise _damaged(self.path, error) from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=self._lock_seconds, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.OperationalError as error:
            raise PersonalizationError(f"the memory {self.path} can't be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from error


def open_store(path: str | os.PathLike[str]) -> JsonFileStore | SqliteStore:
    """The store of a file: SQLite if its name ends in .db, .sqlite or .sqlite3, else JSON. Nothing is opened yet."""
    return SqliteStore(path) if Path(path).suffix.lower() in _DATABASE_SUFFIXES else JsonFileStore(path)


def _damaged(path: Path, error: Exception) -> DamagedMemoryError:
    return DamagedMemoryError(
        f"{path} is damaged, or no memory at all ({error}); nothing was written to it: mend it, or move it away"
    )


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PersonalizationError(f"the memory {path} can't be read or written: {error.strerror}") from error


def _open_private(path: Path) -> int:
    """A descriptor of the file, which is made if need be, for its user alone."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace_file(path: Path, data: bytes) -> None:
    """The file with this content, or as it was; through a symlink to the file behind it."""
    path = Path(os.path.realpath(path))
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name last. Some file systems can't, and then nothing more can be done."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
