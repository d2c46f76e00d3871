"""Files in a stage's directory, where whoever does its work may write too: an agent, perhaps one in a sandbox.

So anything may stand there under a file's name: a link to a file elsewhere, a pipe that nobody writes to. The engine,
which may do more than the stage, neither writes through the one nor waits for the other.
"""

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from attractor.state.run_directory import write_all

MAX_BYTES = 64 * 1024 * 1024


def create_anew(path: Path | str) -> int:
    """A descriptor of a new and empty file, to write to. What stood there is removed, and what it led to is kept.

    The directory is made if a stage removed it.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except FileExistsError:
        remove_file(path)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except NotADirectoryError:
        folder = Path(path).parent
        folder.unlink()
        folder.mkdir()
    return os.open(path, flags, 0o644)


def write_file(path: Path | str, data: bytes) -> None:
    """Put a new file there. Not atomic."""
    descriptor = create_anew(path)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def open_text(path: Path) -> TextIO:
    """A new file for text as it comes, with replacements for what UTF-8 can't say."""
    return open(create_anew(path), "w", encoding="utf-8", errors="replace", newline="")


def append_to(path: Path, data: bytes) -> None:
    """Add to a file with one write; what is no file is removed first."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = -1
    with suppress(OSError):
        descriptor = os.open(path, flags, 0o644)
    if descriptor < 0 or not _is_file(descriptor) or os.fstat(descriptor).st_nlink > 1:
        if descriptor >= 0:
            os.close(descriptor)
        descriptor = create_anew(path)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def read_file(path: Path | str, start: int = 0) -> bytes:
    """What a file holds from a place on; raises OSError for what is no file, or longer than MAX_BYTES."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a link, which isn't followed", str(path)) from error
    with open(descriptor, "rb") as file:
        if not _is_file(descriptor):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        file.seek(start)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it is longer than {MAX_BYTES >> 20} MiB", str(path))
    return data


def remove_file(path: Path | str) -> None:
    """Remove what stands there, whatever it is, if anything does."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        # Some systems say the one of a directory, some the other.
        shutil.rmtree(path)


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)
