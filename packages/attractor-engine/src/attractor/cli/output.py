"""Writing to the terminal, or to whatever stands in its place.

Results and data go to stdout, everything else to stderr. A reader who has gone away (`| head`) is no failure: the
work goes on and the text goes nowhere.
"""

import errno
import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from attractor.printable import printable


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
    """Lines for another program to stdout: as they are, in UTF-8 whatever the locale, unless a person reads them."""
    if sys.stdout is None or sys.stdout.isatty():
        write_result(text)
        return
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    _write(sys.stdout, text)


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """JSON to stdout; characters stay readable."""
    write_data(json.dumps(value, indent=indent, ensure_ascii=False))


def write_note(text: str) -> None:
    """One or more lines to stderr."""
    write(sys.stderr, text)


def write(stream: TextIO | None, text: str) -> None:
    """Lines to a stream, control characters made visible, as somebody may read a log at a terminal later."""
    if stream is not None:
        _write(stream, printable(text))


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
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
