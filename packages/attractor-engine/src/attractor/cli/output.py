"""Writing to the terminal, or to whatever stands in its place.

Results and data go to stdout, everything else to stderr. A reader who has gone away (`| head`) is no failure: the
work goes on and the text goes nowhere.
"""

import errno
import json
import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

import click

# A model's answer or a file name must not move the cursor, change the title or answer for the user.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def prepare_streams() -> None:
    """Let no character that the terminal's encoding lacks stop the program, and a closed stdin be an empty one."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open as long as the program runs
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def write_result(text: str) -> None:
    """One or more lines to stdout."""
    write(sys.stdout, text)


def write_data(text: str) -> None:
    """Lines for another program to stdout: in UTF-8 whatever the locale says, unless a person reads them."""
    if sys.stdout is not None and not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    write_result(text)


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """JSON to stdout; characters stay readable."""
    write_data(json.dumps(value, indent=indent, ensure_ascii=False))


def write_note(text: str) -> None:
    """One or more lines to stderr."""
    write(sys.stderr, text)


def write(stream: TextIO | None, text: str) -> None:
    """Lines to a stream, control characters made visible if it is a terminal."""
    if stream is None:
        return
    try:
        stream.write((printable(text) if stream.isatty() else text) + "\n")
        stream.flush()
    except OSError as error:
        gone = _has_gone(stream, error)
        abandon(stream)
        if stream is sys.stdout and not gone:
            raise click.ClickException(f"the output can't be written: {error.strerror}.") from error


def abandon(stream: TextIO) -> None:
    """Let what is still to come go nowhere: the interpreter flushes once more when it ends, and must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_gone(stream: TextIO, error: OSError) -> bool:
    """Whether nobody reads any more: the pipe's other end has closed, or the terminal's window."""
    closed_window = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    return isinstance(error, BrokenPipeError) or closed_window


def resume_command(run_dir: Path) -> str:
    """What to type to go on with a run, for a shell to read."""
    return f"attractor resume {shlex.quote(str(run_dir))}"


def printable(text: str) -> str:
    """The text with control characters other than newline and tab written out."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
