"""The directory that holds everything about one run (section 5.6).

    {logs_root}/
        manifest.json       what runs: name, goal, start time, recorded options
        pipeline.dot        the source, so that resuming needs no other file
        journal.jsonl       one record per step, synced: the truth
        checkpoint.json     the whole state, for readers and for a quick start
        events.jsonl        what happened, for people and pages
        {node_id}/          status.json, prompt.md, response.md, tool_output.txt
        artifacts/          large outputs
        questions/          what people were asked, and what they answered
        suspensions/        what suspended stages were given
        restart-N/          the same again, after an edge with loop_restart

A stage finds its own directory in the environment variable ATTRACTOR_STAGE_DIR.
"""

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from attractor.errors import RunDirectoryError

try:
    import fcntl
except ImportError:  # Windows has no flock; there, two processes must not share a run.
    fcntl = None  # type: ignore[assignment]

STAGE_DIR_VARIABLE = "ATTRACTOR_STAGE_DIR"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_RESERVED = re.compile(
    r"artifacts|questions|suspensions|restart-\d+|\.\.?|\.lock|(manifest|checkpoint)\.json|(journal|events)\.jsonl|pipeline\.dot"
)
_LONGEST_NAME = 200
_LOCK_ATTEMPTS = 10


def default_runs_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where runs go unless told otherwise: `$XDG_STATE_HOME/attractor/runs`, by default under `~/.local/state`.

    Raises RunDirectoryError where the home directory is not known.
    """
    state = environ.get("XDG_STATE_HOME", "")
    # The XDG rules ask to ignore a relative path.
    if os.path.isabs(state):
        return Path(state) / "attractor" / "runs"
    try:
        return Path.home() / ".local" / "state" / "attractor" / "runs"
    except RuntimeError as error:
        raise RunDirectoryError("nobody's home directory is known: set HOME or XDG_STATE_HOME") from error


def new_run_id(name: str, now: float) -> str:
    """An id that sorts by time and names the pipeline, such as `20261201T093015-smoke-3f9a2c`."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    word = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:40]
    return "-".join(part for part in (stamp, word, secrets.token_hex(3)) if part)


def stage_name(node_id: str) -> str:
    """The node's id as one file name: percent-encoded where it must be, cut (with a digest) where it is too long."""
    if _PLAIN.fullmatch(node_id) and len(node_id) <= _LONGEST_NAME and not _RESERVED.fullmatch(node_id):
        return node_id
    name = quote(node_id, safe="")
    if _RESERVED.fullmatch(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{hashlib.sha256(node_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    return name


def stage_path(logs_root: Path, node_id: str) -> Path:
    """The node's directory within a run; it may not exist yet."""
    return logs_root / stage_name(node_id)


def restart_path(logs_root: Path, number: int) -> Path:
    """Where a run goes on after its restart of that number; the run directory itself for 0."""
    return logs_root / f"restart-{number}" if number else logs_root


def lies_within(logs_root: Path, path: str) -> bool:
    """Whether a path lies in the run directory, whatever links lead to either."""
    return os.path.realpath(path).startswith(os.path.realpath(logs_root) + os.sep)


def replace_file(path: Path, data: bytes, *, sync_name: bool = True) -> None:
    """Give `path` new content so that a reader, a kill or a loss of power meets the old or the new, never a mixture.

    Without `sync_name` a loss of power may bring back the old until the directory is synced.
    """
    aside = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(aside, path)
    if sync_name:
        sync_directory(path.parent)


def create_file(path: Path, data: bytes) -> bool:
    """Make a file of this content, whole and durable, in a folder that may be missing; False if it exists already.

    Of several processes that do so at the same moment, one succeeds. The file system must know hard links. Raises
    RunDirectoryError, and leaves nothing, where it can't be written.
    """
    try:
        return _create_file(path, data)
    except OSError as error:
        raise RunDirectoryError(
            f"{path} can't be written: {error.strerror or error}; mend that, then try again"
        ) from error


def _create_file(path: Path, data: bytes) -> bool:
    path.parent.mkdir(exist_ok=True)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def write_all(descriptor: int, data: bytes) -> None:
    """`os.write` until everything is written."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def sync_directory(folder: Path) -> None:
    """Make new names in `folder` survive a loss of power, where the file system can promise that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a directory; the files themselves are synced already.
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RunDirectory:
    """A run's directory, locked against a second process for as long as this object is open.

    The lock is the kernel's: it goes when the process goes, however it goes. Use as a context manager, or `close()`.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make and lock a new one. RunDirectoryError if it can't be made or already holds a run."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"the run directory {path} can't be made ({error.strerror}); choose another with --logs or logs_root"
            ) from error
        directory = cls(path, _lock(path))
        if any((path / name).exists() for name in ("manifest.json", "checkpoint.json", "journal.jsonl")):
            directory.close()
            raise RunDirectoryError(
                f"{path} already holds a run; resume it (attractor resume), or choose another directory for a new one"
            )
        return directory

    @classmethod
    def open(cls, path: Path) -> Self:
        """Lock an existing one. RunDirectoryError if it is none, or in use."""
        if not path.is_dir():
            raise RunDirectoryError(
                f"{path} is not a run directory: it does not exist; name the directory that a run printed"
            )
        if not (path / "manifest.json").exists():
            raise RunDirectoryError(
                f"{path} is not a run directory: it has no manifest.json; name one that a run printed"
            )
        return cls(path, _lock(path))

    def write_manifest(self, manifest: Mapping[str, Any], source: str) -> None:
        """Record what runs. Must be done before the first node: the journal, when it is begun, syncs the names."""
        if source:
            replace_file(self.path / "pipeline.dot", source.encode("utf-8", "surrogatepass"), sync_name=False)
        content = json.dumps(manifest, indent=2, ensure_ascii=False).encode("utf-8", "replace")
        replace_file(self.path / "manifest.json", content, sync_name=False)

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_manifest(logs_root: Path) -> dict[str, Any]:
    """manifest.json of a run; RunDirectoryError if it is missing or unreadable."""
    path = logs_root / "manifest.json"
    if not logs_root.is_dir():
        what = "it is a file" if logs_root.exists() else "it does not exist"
        raise RunDirectoryError(f"{logs_root} is not a run directory: {what}; name the directory that a run printed")
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunDirectoryError(
            f"{logs_root} is not a run directory: it has no manifest.json; name one that a run printed"
        ) from None
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise RunDirectoryError(f"{path} is damaged: it is not valid JSON ({error}); start a new run") from error
    if not isinstance(manifest, dict):
        raise RunDirectoryError(f"{path} is damaged: it holds no JSON object; start a new run")
    for name, kind in _MANIFEST_FIELDS.items():
        if name in manifest and not isinstance(manifest[name], kind):
            raise RunDirectoryError(f"{path} is damaged: its field {name!r} is of the wrong type; start a new run")
    return manifest


_MANIFEST_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "file_name": str,
    "started_at": (int, float),
    "working_dir": str,
    "dry_run": bool,
    "context": dict,
    "options": dict,
}


def read_source(logs_root: Path) -> str:
    """The DOT source that a run was started with; empty if its graph did not come from one."""
    path = logs_root / "pipeline.dot"
    try:
        return path.read_bytes().decode("utf-8", "surrogatepass")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise RunDirectoryError(f"{path} is damaged: it is not UTF-8 text; put the original back") from error


def _lock(path: Path) -> int:
    try:
        descriptor = os.open(path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunDirectoryError(f"the run directory {path} can't be written: {error.strerror}") from error
    try:
        if fcntl:
            _lock_soon(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise RunDirectoryError(f"{path} is in use by another process; wait for it, or stop it first") from None
    return descriptor


def _lock_soon(descriptor: int) -> None:
    """Raises BlockingIOError if another process keeps the lock; those who only look have it for microseconds."""
    for _ in range(_LOCK_ATTEMPTS - 1):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.005)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def note_elapsed(path: Path, seconds: float) -> None:
    """Keep, in the lock file, for how long a run has been executed: a kill in a long stage must not forget that."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path / ".lock", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, f"{seconds:015.3f}\n".encode(), 0)
        finally:
            os.close(descriptor)


def read_elapsed(path: Path) -> float:
    """What was noted last; 0 if nothing was."""
    try:
        return max(float((path / ".lock").read_text("ascii")), 0.0)
    except (OSError, ValueError):
        return 0.0


def is_in_use(path: Path) -> bool:
    """Whether some process, this one too, works on the run in a directory."""
    try:
        descriptor = os.open(path / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Without flock nobody can tell; a run that looks alive is the lesser mistake.
        return not fcntl
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
