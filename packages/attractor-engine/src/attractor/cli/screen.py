"""Where progress appears: lines that stay, and at a terminal a few moving ones for what is going on now."""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Protocol, TextIO

from attractor.cli.output import write, write_note, write_result


class Screen(Protocol):
    """Something that progress can be shown on. Its methods are called from several threads."""

    def line(self, text: str, style: str = "") -> None:
        """Show a line that stays."""

    def notice(self, text: str) -> None:
        """Show a line that nobody must miss, whatever else is wanted or shown."""

    def begin(self, key: str, title: str) -> None:
        """Say that something is going on from now on, or is called otherwise."""

    def detail(self, key: str, text: str) -> None:
        """Say more about it, where that is a moving line."""

    def end(self, key: str) -> None:
        """Say that it is over."""

    def summarize(self, text: str) -> None:
        """Say how far everything has come, where that is a moving line."""

    def hold(self) -> None:
        """Leave the terminal to someone who asks a question there."""

    def release(self) -> None:
        """Take it back, and show what came up meanwhile."""

    def close(self) -> None:
        """Leave the terminal as it was. More lines may follow."""


class SilentScreen:
    """Shows nothing but notices (`--quiet`)."""

    def line(self, text: str, style: str = "") -> None:
        pass

    def notice(self, text: str) -> None:
        write_note(text)

    def begin(self, key: str, title: str) -> None:
        pass

    def detail(self, key: str, text: str) -> None:
        pass

    def end(self, key: str) -> None:
        pass

    def summarize(self, text: str) -> None:
        pass

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


class PlainScreen(SilentScreen):
    """Plain lines, for logs and pipes."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def line(self, text: str, style: str = "") -> None:
        write(self._stream, text)

    def begin(self, key: str, title: str) -> None:
        write(self._stream, f"  ... {title}")


class ResultScreen(SilentScreen):
    """Lines that are themselves the result, on stdout."""

    def line(self, text: str, style: str = "") -> None:
        write_result(text)


def open_screen(*, quiet: bool, environ: Mapping[str, str] = os.environ) -> Screen:
    """The screen that suits stderr: a terminal, something else, or nobody who wants to know."""
    if quiet or sys.stderr is None:
        return SilentScreen()
    # A terminal that is called dumb can't move its cursor.
    if not sys.stderr.isatty() or environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return PlainScreen(sys.stderr)
    # Loading rich takes longer than the rest of the command line; only a terminal needs it.
    screen: Screen = importlib.import_module("attractor.cli.terminal").TerminalScreen(sys.stderr)
    return screen
