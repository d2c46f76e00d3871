"""Files elsewhere: what went wrong there, as errors of this package."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from agent_loop.environments.base import DirEntry
from agent_loop.environments.local_files import MAX_READ_BYTES
from agent_loop.environments.remote import scripts
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError

_KINDS = {
    scripts.DIRECTORY: "a directory",
    scripts.SYMLINK: "a symlink",
    scripts.FIFO: "a FIFO",
    scripts.SOCKET: "a socket",
    scripts.DEVICE: "a device",
}
_FILE, _DIRECTORY, _KIND = 0o100000, 0o040000, 0o170000


def script_error(code: int, path: str, message: str = "") -> Exception:
    """The error for a script's exit code other than 0. `path` is what it was about."""
    match code:
        case scripts.MISSING:
            return PathNotFoundError(f"no such file or directory: {path}")
        case scripts.OUTSIDE:
            return PathNotAllowedError(f"{path} lies outside the working directory; file tools may not write there")
        case scripts.EXISTS:
            return PathNotAllowedError(f"{path} exists already")
        case scripts.TOO_BIG:
            size = MAX_READ_BYTES >> 20
            return ExecutionEnvironmentError(
                f"{path} is too big to be read whole (over {size} MiB); read a part, or use a command"
            )
        case scripts.INCOMPLETE:
            return ExecutionEnvironmentError(f"{path} was not written: the connection broke off before its end")
        case scripts.NO_DIRECTORY:
            return PathNotAllowedError(f"{path} is not a directory")
        case scripts.FORBIDDEN:
            return PermissionError(f"{path} is not accessible to the user who works there")
        case _ if code in _KINDS:
            return PathNotAllowedError(f"{path} is {_KINDS[code]}, not a regular file")
        case _:
            return ExecutionEnvironmentError(f"{path}: {message}")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a walk found. `path` is relative to where it began; `modified` is a date and time in UTC, to compare."""

    path: str
    mode: int
    size: int
    modified: str

    @property
    def is_dir(self) -> bool:
        """Not for a symlink that leads to one."""
        return self.mode & _KIND == _DIRECTORY

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode & _KIND == _FILE


class Walk:
    """The arguments of `scripts.WALK`, and what is read from its output."""

    def __init__(self, directory: str, below: str, expression: Sequence[str]) -> None:
        # No name of a file can hold what separates entries: it is made up anew each time.
        self._token = secrets.token_hex(16)
        self.arguments = [directory, below, self._token, *expression]

    def entries(self, output: bytes) -> list[Entry]:
        """In no order."""
        text = output.decode(errors="surrogateescape")
        found = re.split(rf"(?:^|\n){self._token} ", text.removesuffix("\n"))[1:]
        return [_entry(line) for line in found]


def _entry(line: str) -> Entry:
    mode, size, day, time, _, path = line.split(" ", 5)
    return Entry(path.removeprefix("./"), int(mode, 16), int(size), f"{day} {time}")


def walk_depth(depth: int | None) -> list[str]:
    """Of find: what is below the directory, so many levels deep."""
    return ["-mindepth", "1", *([] if depth is None else ["-maxdepth", str(depth)])]


def directory_entries(entries: Sequence[Entry]) -> list[DirEntry]:
    """By name, depth first."""
    ordered = sorted(entries, key=lambda entry: entry.path.split("/"))
    return [DirEntry(entry.path, entry.is_dir, None if entry.is_dir else entry.size) for entry in ordered]
