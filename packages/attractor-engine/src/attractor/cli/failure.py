"""From an exception to one clear sentence and an exit code. Nobody sees a bare traceback."""

import os
import tempfile
import time
import traceback
from pathlib import Path

import click

from attractor.cli.output import write_note
from attractor.errors import AttractorError, ValidationError

SUCCESS, FAILED, BAD_USAGE, WAITING, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit codes: the pipeline succeeded; it failed; bad usage or unreadable input; it waits for a person; Ctrl-C."""


class CommandError(click.ClickException):
    """The command can't do what was asked. The message is one sentence that says what to do."""

    exit_code = BAD_USAGE


def report_failure(error: BaseException, *, debug: bool) -> int:
    """Say on stderr what went wrong and return the exit code that belongs to it."""
    error = _unwrap(error)
    if debug:
        write_note("".join(traceback.format_exception(error)).rstrip())
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            write_note("Interrupted.")
            return INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            write_note(error.format_message())
            return BAD_USAGE
        case click.UsageError():
            usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
            command = error.ctx.command_path if error.ctx else "attractor"
            write_note(f"{usage}error: {error.format_message()}\nTry '{command} --help'.")
            return BAD_USAGE
        case click.ClickException():
            write_note(f"error: {error.format_message()}")
            return error.exit_code
        case ValidationError():
            write_note(f"{error}\nerror: the pipeline has errors and was not run.")
            return FAILED
        case AttractorError():
            write_note(f"error: {error}")
            return BAD_USAGE
        case OSError(filename=str() | os.PathLike() as place, strerror=str() as reason):
            write_note(f"error: {place} can't be read or written: {reason}.")
            return BAD_USAGE
        case _:
            _report_unexpected(error, debug)
            return FAILED


def _unwrap(error: BaseException) -> BaseException:
    """The one error that a group of one holds."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _report_unexpected(error: BaseException, debug: bool) -> None:
    summary = traceback.format_exception_only(error)[-1].strip()
    message = f"error: attractor met an error it did not expect: {summary}"
    if not debug:
        place = _write_traceback(error)
        message += f"\nThe traceback is in {place}." if place else "\nRun again with --debug to see the traceback."
    write_note(message)


def _write_traceback(error: BaseException) -> Path | None:
    """Keep the traceback in the user's state directory, or in the temporary one; None if neither can be written."""
    for folder in (Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "attractor/crashes", None):
        try:
            folder = folder.expanduser() if folder else Path(tempfile.gettempdir())
            folder.mkdir(parents=True, exist_ok=True)
            place = folder / f"attractor-crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.txt"
            place.write_text("".join(traceback.format_exception(error)), "utf-8")
        except (OSError, RuntimeError):
            # Not writable, or nobody's home is known.
            continue
        return place
    return None
