"""Progress at a terminal, drawn by rich."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from attractor.cli.progress import format_seconds
from attractor.printable import printable

_MOST_ROWS = 10
_NOTHING: Mapping[str, "_Row"] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Row:
    """Something that is going on since `since`, by the screen's clock."""

    title: str
    since: float
    detail: str = ""


class _Stream:
    """A terminal that may go away, as a closed window does: the run goes on, unwatched."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()


class TerminalScreen:
    """Lines that stay, and below them a row for each stage that is under way, with how long and what it does now.

    While a question is asked the rows are gone, and lines wait, so that nothing runs into what a person types.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        out: TextIO = _Stream(stream)  # type: ignore[assignment]
        self._console = Console(file=out, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._clock = clock
        self._begun = clock()
        # The thread that draws reads these without a lock; each is replaced whole.
        self._rows = _NOTHING
        self._summary = ""
        self._lock = threading.RLock()
        self._prompts = 0
        self._held: list[tuple[str, str]] = []
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def line(self, text: str, style: str = "") -> None:
        with self._lock:
            if self._prompts:
                self._held.append((text, style))
            else:
                self._print(text, style)

    def notice(self, text: str) -> None:
        with self._lock:
            self._print(f"\n{text}" if self._prompts else text, "")

    def begin(self, key: str, title: str) -> None:
        with self._lock:
            since = self._rows[key].since if key in self._rows else self._clock()
            self._rows = {**self._rows, key: _Row(printable(title), since)}
            self._show()

    def detail(self, key: str, text: str) -> None:
        with self._lock:
            if key in self._rows:
                self._rows = {**self._rows, key: replace(self._rows[key], detail=printable(text))}

    def end(self, key: str) -> None:
        with self._lock:
            self._rows = {other: row for other, row in self._rows.items() if other != key}

    def summarize(self, text: str) -> None:
        self._summary = text

    def hold(self) -> None:
        with self._lock:
            self._prompts += 1
            self._live.stop()

    def release(self) -> None:
        with self._lock:
            self._prompts -= 1
            if not self._prompts:
                held, self._held = self._held, []
                for text, style in held:
                    self._print(text, style)
                self._show()

    def close(self) -> None:
        with self._lock:
            self._rows = _NOTHING
            self._live.stop()

    def _show(self) -> None:
        if self._rows and not self._prompts:
            self._live.start()

    def _print(self, text: str, style: str) -> None:
        self._console.print(printable(text), style=style or None, soft_wrap=True)

    def _draw(self) -> Group:
        lines = list(self._describe())
        most = max(min(_MOST_ROWS, self._console.height - 2), 1)
        if len(lines) > most:
            lines = [*lines[:most], f"  … and {len(lines) - most} more"]
        if self._summary:
            lines.append(f"  {self._summary}  {format_seconds(self._clock() - self._begun, whole=True)}")
        # A line that the terminal wraps would throw off the cursor.
        return Group(*(Text(line, no_wrap=True, overflow="ellipsis") for line in lines))

    def _describe(self) -> Iterator[str]:
        frame = self._spinner.render(self._console.get_time())
        mark = frame.plain if isinstance(frame, Text) else "*"
        for row in self._rows.values():
            elapsed = format_seconds(self._clock() - row.since, whole=True)
            yield f"{mark} {elapsed:>5}  {row.title}  {row.detail}".rstrip()
