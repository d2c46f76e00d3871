"""Keeping events, and handing them to observers, none of which can hurt the run (section 9.6).

Events go to events.jsonl, and streams read that file: whoever comes late or comes back gets every event, and a slow
reader costs the run neither time nor memory. A callback runs in a thread of its own, behind a bounded queue.
"""

import json
import logging
import os
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar

import anyio

from attractor.errors import PipelineConfigurationError, RunDirectoryError
from attractor.events import (
    CheckpointSaved,
    Event,
    ParallelBranchCompleted,
    ParallelBranchStarted,
    PipelineCompleted,
    PipelineFailed,
    PipelineWaiting,
    StageActivity,
    StageStarted,
)
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.run_directory import write_all

EVENTS_NAME = "events.jsonl"
_logger = logging.getLogger("attractor.events")
_READ_BYTES = 64 * 1024
# A quick stage ends within microseconds, and the next one begins as soon: one write for what happens between two ends.
_BRIEFLY_HELD = (CheckpointSaved, ParallelBranchCompleted, ParallelBranchStarted, StageStarted, StageActivity)
END_TYPES = (PipelineCompleted.__name__, PipelineFailed.__name__, PipelineWaiting.__name__)
E = TypeVar("E", bound=Event)


class EventLog:
    """The events of one run directory. Used from the run's own event loop; close it when the run ends.

    Some are held back for a moment, since one write serves several; `flush()` must be called every now and then.
    `has_end` says whether the log that was found told how the run ended.
    """

    def __init__(
        self, folder: Path, observer: "Observer | None" = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = folder / EVENTS_NAME
        self._observer = observer
        self._clock = clock
        self._pending: list[Event] = []
        self._sequence, last = _mend(self.path)
        self.has_end = last in END_TYPES
        self._file = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._news = anyio.Event()
        self._reading = False
        self.closed = False

    def emit(self, kind: type[E], **fields: Any) -> E:
        """Record an event and tell the observer."""
        self._sequence += 1
        event = kind(sequence=self._sequence, time=round(self._clock(), 6), **fields)
        self._pending.append(event)
        if kind not in _BRIEFLY_HELD:
            self.flush()
        if self._observer:
            self._observer.put(event)
        self._wake()
        return event

    def flush(self) -> None:
        """Write what is held back, for readers of the file. Streams of this log do that themselves."""
        if self._pending and not self.closed:
            events, self._pending = self._pending, []
            lines = [encode_json(event.to_record()) + "\n" for event in events]
            write_all(self._file, to_bytes("".join(lines)))

    async def stream(self) -> AsyncGenerator[Event, None]:
        """Every event from the first on, until the log is closed."""
        reader = EventReader(self.path)
        while True:
            # What is asked before reading can't be missed after it.
            closed, news = self.closed, self._listen()
            self.flush()
            while batch := reader.read():
                for event in batch:
                    yield event
            if closed:
                return
            await news.wait()

    def close(self) -> None:
        """Write what is pending; streams end, and the observer gets what is left, within seconds."""
        if self.closed:
            return
        self.flush()
        self.closed = True
        os.close(self._file)
        self._wake()
        if self._observer:
            self._observer.close()

    def _listen(self) -> anyio.Event:
        self._reading = True
        return self._news

    def _wake(self) -> None:
        if self._reading:
            self._reading = False
            news, self._news = self._news, anyio.Event()
            news.set()


class Observer:
    """Calls a function for each event, in order, in its own thread.

    What it raises is logged. Beyond `limit` undelivered events the rest is dropped, with one warning in the log.
    """

    def __init__(self, callback: Callable[[Event], object], limit: int = 10_000, patience: float = 5.0) -> None:
        if iscoroutinefunction(callback):
            raise PipelineConfigurationError(
                "on_event must be a plain function; for async code iterate over runner.events()"
            )
        self._callback = callback
        self._queue: queue.Queue[Event | None] = queue.Queue(limit)
        self._patience = patience
        self._dropped = 0
        self._thread = threading.Thread(target=self._deliver, name="attractor-observer", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> None:
        """Deliver soon; never waits."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._dropped += 1
            if self._dropped == 1:
                _logger.warning("the on_event callback is too slow; it misses events from number %d on", event.sequence)

    def close(self) -> None:
        """Wait for what is left, but not for a callback that hangs."""
        try:
            self._queue.put(None, timeout=self._patience)
        except queue.Full:
            pass
        else:
            self._thread.join(self._patience)
        if self._thread.is_alive():
            _logger.warning("the on_event callback did not keep up; %d events may be missing", self._queue.qsize())

    def _deliver(self) -> None:
        failed = False
        while (event := self._queue.get()) is not None:
            try:
                self._callback(event)
            except Exception:
                if not failed:
                    _logger.exception("the on_event callback failed at %s; the run goes on", event.type)
                failed = True


def read_events(logs_root: Path, after: int = 0) -> Iterator[Event]:
    """The events that a run directory holds, those with a sequence number beyond `after`."""
    return (event for event in EventReader(logs_root / EVENTS_NAME).read_all() if event.sequence > after)


class EventReader:
    """Reads whole lines, and remembers how far it came."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def fits(self) -> bool:
        """Whether the file still holds what was read of it."""
        try:
            return self._path.stat().st_size >= self._offset
        except FileNotFoundError:
            return self._offset == 0

    def read_all(self) -> Iterator[Event]:
        """What there is now and wasn't before; raises RunDirectoryError for a damaged file."""
        while batch := self.read():
            yield from batch

    def read(self) -> list[Event]:
        """The next whole events; empty if there are none yet."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(_READ_BYTES)
            while data and b"\n" not in data and (more := file.read(_READ_BYTES)):
                data += more
        end = data.rfind(b"\n") + 1
        self._offset += end
        try:
            return [Event.from_record(json.loads(line)) for line in data[:end].splitlines()]
        except (LookupError, TypeError, ValueError) as error:
            raise RunDirectoryError(
                f"{self._path} is damaged ({error!r}); move it away to go on without what it tells"
            ) from error


def _mend(path: Path) -> tuple[int, str]:
    """Cut what a kill or a loss of power tore off the end of an existing log; return the last event's number and kind.

    The log is not what a run goes on from, so that no damage to it may hold a run up.
    """
    if not path.exists():
        return 0, ""
    data = path.read_bytes()
    end, last = data.rfind(b"\n") + 1, (0, "")
    while end and not (last := _read_event(data[data.rfind(b"\n", 0, end - 1) + 1 : end]))[0]:
        end = data.rfind(b"\n", 0, end - 1) + 1
    if end != len(data):
        os.truncate(path, end)
    return last


def _read_event(line: bytes) -> tuple[int, str]:
    """Number and kind of the event on a line, of whatever kind; 0 if it is none."""
    try:
        record = json.loads(line)
        return int(record["sequence"]), str(record.get("type"))
    except (AttributeError, LookupError, TypeError, ValueError):
        return 0, ""
