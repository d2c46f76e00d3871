"""Where progress appears: lines that stay, and at a terminal one moving line for what is going on now."""

import importlib
import sys
from typing import Protocol, TextIO

from attractor.cli.output import write, write_result


class Screen(Protocol):
    """Something that progress can be shown on."""

    def line(self, text: str, style: str = "") -> None:
        """Show a line that stays."""

    def busy(self, text: str) -> None:
        """Say what is going on from now on; empty for nothing."""

    def detail(self, text: str) -> None:
        """Say more about what is going on, where that is a moving line."""

    def close(self) -> None:
        """Leave the terminal as it was. More lines may follow."""


class SilentScreen:
    """Shows nothing (`--quiet`)."""

    def line(self, text: str, style: str = "") -> None:
        pass

    def busy(self, text: str) -> None:
        pass

    def detail(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class PlainScreen:
    """Plain lines, for logs and pipes."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def line(self, text: str, style: str = "") -> None:
        write(self._stream, text)

    def busy(self, text: str) -> None:
        if text:
            write(self._stream, f"  ... {text}")

    def detail(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class ResultScreen:
    """Lines that are themselves the result, on stdout."""

    def line(self, text: str, style: str = "") -> None:
        write_result(text)

    def busy(self, text: str) -> None:
        pass

    def detail(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def open_screen(*, quiet: bool) -> Screen:
    """The screen that suits stderr: a terminal, something else, or nobody who wants to know."""
    if quiet or sys.stderr is None:
        return SilentScreen()
    if not sys.stderr.isatty():
        return PlainScreen(sys.stderr)
    # Loading rich takes longer than the rest of the command line; only a terminal needs it.
    screen: Screen = importlib.import_module("attractor.cli.terminal").TerminalScreen(sys.stderr)
    return screen
