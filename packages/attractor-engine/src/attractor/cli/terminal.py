"""Progress at a terminal, drawn by rich."""

import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from attractor.cli.output import printable


class TerminalScreen:
    """Coloured lines, and under them a spinner with what is going on and for how long."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, soft_wrap=True)
        self._clock = clock
        self._busy, self._since = "", 0.0
        self._detail = ""
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._now,
            console=self._console,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def line(self, text: str, style: str = "") -> None:
        try:
            self._console.print(printable(text), style=style or None)
        except OSError:
            # The terminal has gone (its window was closed); the run goes on without being watched.
            self._busy = ""

    def busy(self, text: str) -> None:
        try:
            if text:
                self._busy, self._since, self._detail = printable(text), self._clock(), ""
                self._live.start()
            else:
                self._live.stop()
        except OSError:
            self._busy = ""

    def detail(self, text: str) -> None:
        self._detail = printable(text)

    def close(self) -> None:
        self.busy("")

    def _now(self) -> Text:
        elapsed = self._clock() - self._since
        self._spinner.update(text=f"{self._busy}  {elapsed:.0f} s  {self._detail}".rstrip())
        frame = self._spinner.render(self._console.get_time())
        return frame if isinstance(frame, Text) else Text(self._busy)
