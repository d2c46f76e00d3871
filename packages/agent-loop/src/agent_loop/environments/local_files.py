"""Files of the local machine: blocking, each function whole in itself, run in a worker thread by the environment."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_loop.environments.base import DirEntry
from agent_loop.errors import BinaryFileError, ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError
from agent_loop.text_encoding import NotTextError, detect_encoding

MAX_WHOLE_BYTES = 16 * 1024 * 1024
# What is read for an edit or as an image; nothing bigger is sensibly changed by a text that a model writes.
MAX_READ_BYTES = 256 * 1024 * 1024
_PIECE = 65_536
_SPECIAL = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symlink"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path) -> int:
    """Open a regular file for reading and return its descriptor. Never blocks on what is something else."""
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a writer. On a regular file it changes nothing.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise PathNotFoundError(f"no such file: {path}") from None
    except OSError:
        require_regular(os.stat(path).st_mode, path)
        raise
    try:
        require_regular(os.fstat(descriptor).st_mode, path)
    except PathNotAllowedError:
        os.close(descriptor)
        raise
    return descriptor


def resolve_links(path: Path) -> Path:
    """Where a path leads. What is missing may be missing. Raises PathNotAllowedError for links that lead in circles."""
    try:
        return path.resolve()
    except RuntimeError:
        raise PathNotAllowedError(f"{path} is a symlink that leads in circles") from None


def require_regular(mode: int, path: Path) -> None:
    """Raise PathNotAllowedError that says what the path is instead of a regular file."""
    if not stat.S_ISREG(mode):
        what = next((name for test, name in _SPECIAL if test(mode)), "not a regular file")
        raise PathNotAllowedError(f"{path} is {what}, not a regular file")


def search_directory(target: Path) -> Path:
    """Where a search of this file or directory runs. Raises PathNotFoundError, and for a FIFO, where reading waits."""
    if target.is_dir():
        return target
    if not target.exists():
        raise PathNotFoundError(f"no such file or directory: {target}")
    require_regular(target.stat().st_mode, target)
    return target.parent


def read_bytes(path: Path) -> bytes:
    """All of a regular file. Raises ExecutionEnvironmentError for one that is too big to be held in memory."""
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # What the kernel makes up (/proc) has no size, and may yet be endless.
        data = b"" if size > MAX_READ_BYTES else file.read(None if size else MAX_READ_BYTES + 1)
    if max(size, len(data)) > MAX_READ_BYTES:
        raise ExecutionEnvironmentError(
            f"{path} is too big to be read whole (over {MAX_READ_BYTES >> 20} MiB); read a part, or use a command"
        )
    return data


def read_text(path: Path, offset: int | None, limit: int | None) -> str:
    """Text of a regular file, or `limit` lines from line `offset` (1-based) on. Raises BinaryFileError."""
    if limit is not None and path.is_file() and path.stat().st_size > MAX_WHOLE_BYTES:
        data = _read_lines(path, max((offset or 1) - 1, 0), limit)
        offset = limit = None
    else:
        data = read_bytes(path)
    return decode_lines(data, str(path), offset, limit)


def decode_lines(data: bytes, path: str, offset: int | None, limit: int | None) -> str:
    """A file's text, or `limit` lines from line `offset` (1-based) on. Raises BinaryFileError, which names `path`."""
    try:
        text = detect_encoding(data).decode(data)
    except NotTextError as error:
        raise BinaryFileError(f"{path} is not a text file: {error}") from None
    if offset is None and limit is None:
        return text
    start = line_start(text, max((offset or 1) - 1, 0))
    return text[start:] if limit is None else text[start : line_start(text, limit, start)]


def _read_lines(path: Path, start: int, count: int) -> bytes:
    """Lines out of a file too big to be read whole, at most MAX_WHOLE_BYTES of them."""
    taken, room = [], MAX_WHOLE_BYTES
    with open(open_regular(path), "rb") as file:
        # A line may be longer than the memory, so that it comes in pieces.
        while start > 0 and (piece := file.readline(_PIECE)):
            start -= piece.endswith(b"\n")
        while count > 0 and room > 0 and (piece := file.readline(min(_PIECE, room))):
            taken.append(piece)
            room -= len(piece)
            count -= piece.endswith(b"\n")
    return b"".join(taken)


def line_start(text: str, lines: int, position: int = 0) -> int:
    """Where the text goes on after so many lines from `position`; the text's length if there are fewer."""
    for _ in range(lines):
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        position = newline + 1
    return position


def write_bytes(target: Path, data: bytes) -> None:
    """Replace or create a file wholly or not at all. `target` is free of symlinks; parents are made.

    An existing file keeps its mode and owner. One with several hard links, of an owner that a new file can't be given
    to, or in a directory where no file can be made, is overwritten in place.
    """
    try:
        existing: os.stat_result | None = os.stat(target)
    except FileNotFoundError:
        existing = None
        target.parent.mkdir(parents=True, exist_ok=True)
    if existing is not None:
        require_regular(existing.st_mode, target)
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{target} may not be written: its mode is {stat.filemode(existing.st_mode)}")
        if existing.st_nlink > 1 or not _can_give_to_owner(existing) or not os.access(target.parent, os.W_OK):
            target.write_bytes(data)
            return
    # Not made from the target's name, which may be as long as a name can be.
    temporary = target.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        # Created like any new file, so that the umask applies.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            file.write(data)
            if existing is not None:
                _copy_attributes(descriptor, existing)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _can_give_to_owner(existing: os.stat_result) -> bool:
    user = os.geteuid()
    return user == 0 or (existing.st_uid == user and existing.st_gid in (os.getegid(), *os.getgroups()))


def _copy_attributes(descriptor: int, existing: os.stat_result) -> None:
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (existing.st_uid, existing.st_gid):
        os.fchown(descriptor, existing.st_uid, existing.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(existing.st_mode))


def delete(path: Path) -> None:
    """Remove a regular file, or a symlink whatever it leads to."""
    _require_entry(path, symlink=True)
    path.unlink()


def move(source: Path, target: Path) -> None:
    """Rename a regular file. Never overwrites; parents of the target are made."""
    _require_entry(source)
    if os.path.lexists(target):
        raise PathNotAllowedError(f"{target} exists already")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(source, target)


def _require_entry(path: Path, *, symlink: bool = False) -> None:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise PathNotFoundError(f"no such file: {path}") from None
    if not (symlink and stat.S_ISLNK(mode)):
        require_regular(mode, path)


def list_directory(path: Path, depth: int) -> list[DirEntry]:
    """Entries by name, depth first; symlinks are listed, not followed."""
    if not path.exists():
        raise PathNotFoundError(f"no such directory: {path}")
    if not path.is_dir():
        raise PathNotAllowedError(f"{path} is not a directory")
    return list(_entries(path, depth))


def _entries(path: Path, depth: int) -> Iterator[DirEntry]:
    """What goes away meanwhile, or can't be entered, is left out. Not recursive: directories may be nested deeply."""
    levels = [("", _scan(path))]
    while levels:
        prefix, entries = levels[-1]
        entry = next(entries, None)
        if entry is None:
            levels.pop()
            continue
        name = prefix + entry.name
        with suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                yield DirEntry(name, False, entry.stat(follow_symlinks=False).st_size)
                continue
            yield DirEntry(name, True)
            if len(levels) < depth:
                levels.append((f"{name}/", _scan(entry.path)))


def _scan(path: str | Path) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(path) as scan:
        return iter(sorted(scan, key=lambda entry: entry.name))
