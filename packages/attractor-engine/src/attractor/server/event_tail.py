"""The new end of a run's events, read and encoded once for all who watch the run."""

import json
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from attractor.event_log import EVENTS_NAME
from attractor.interviewers import QuestionStore
from attractor.state.run_directory import is_in_use

Redact = Callable[[str], str]
_READ_BYTES = 64 * 1024
_WINDOW_BYTES = 512 * 1024
_ABANDONED_CHECK_SECONDS = 1.0
_HEAD = re.compile(rb'\{"type":"(\w+)","sequence":(\d+),')


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive events as they are sent, with their numbers, and the bytes of the file that they come from."""

    frames: tuple[tuple[int, bytes], ...]
    data: bytes
    start: int
    end: int
    last: str = ""
    last_number: int = 0

    def after(self, number: int) -> bytes:
        """What is new to a reader who has the events up to that number."""
        if not self.frames or self.frames[0][0] > number:
            return self.data
        return b"".join(frame for at, frame in self.frames if at > number)


@dataclass(frozen=True, slots=True)
class End:
    """Where the last whole event of a file ends, its number and its name."""

    offset: int = 0
    number: int = 0
    name: str = ""


def find_end(path: Path) -> End:
    """The end of a file of events; that of an empty one if it isn't there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            wanted = _READ_BYTES
            while True:
                start = max(size - wanted, 0)
                file.seek(start)
                data = file.read(size - start)
                end = data.rfind(b"\n") + 1
                begin = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
                if start == 0 or begin > 0:
                    name, number = _identify(data[begin:end])
                    return End(start + end, number, name)
                wanted *= 4
    except FileNotFoundError:
        return End()


def read_batch(path: Path, offset: int, after: int, redact: Redact) -> Batch:
    """The next events of a file; an empty batch at its end. Those up to number `after` are passed over."""
    data = b""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(_READ_BYTES)
            while data and b"\n" not in data and (more := file.read(_READ_BYTES)):
                data += more
    except FileNotFoundError:
        pass
    end = data.rfind(b"\n") + 1
    frames, name, number = [], "", 0
    for line in data[:end].splitlines():
        found = _identify(line)
        if found[0]:
            name, number = found
            if number > after:
                text = redact(line.decode("utf-8", "replace"))
                frames.append((number, f"id: {number}\nevent: {name}\ndata: {text}\n\n".encode()))
    return Batch(tuple(frames), b"".join([frame for _, frame in frames]), offset, offset + end, name, number)


def _identify(line: bytes) -> tuple[str, int]:
    """Name and number of the event on a line; empty and 0 for what is none."""
    if match := _HEAD.match(line):
        return match[1].decode(), int(match[2])
    try:
        record = json.loads(line)
        return str(record["type"]), int(record["sequence"])
    except (LookupError, TypeError, ValueError):
        return "", 0


class Tail:
    """The newest events of one run, for all who are up to date.

    One of those who wait reads for all of them; so nothing goes on while nobody waits.
    """

    def __init__(self, folder: Path, redact: Redact, poll: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.path = folder / EVENTS_NAME
        self.readers = 0
        self.stopped = False
        self._folder = folder
        self._redact = redact
        self._poll = poll
        self._sleep = sleep
        end = find_end(self.path)
        self.offset, self.number, self.last = end.offset, end.number, end.name
        self._window: deque[Batch] = deque()
        self._window_bytes = 0
        self._turn = anyio.Lock()
        self._news = anyio.Event()
        self.abandoned = False

    def batch_at(self, offset: int) -> Batch | None:
        """The batch that holds what follows, if it is new enough."""
        if not self._window or offset < self._window[0].start:
            return None
        return next((batch for batch in reversed(self._window) if batch.start <= offset < batch.end), None)

    async def wait(self, seconds: float) -> None:
        """Until there is something new, or nothing can come, or time has passed."""
        if self._turn.locked():
            with anyio.move_on_after(seconds):
                await self._news.wait()
            return
        async with self._turn:
            try:
                await self._look_out(anyio.current_time() + seconds)
            finally:
                news, self._news = self._news, anyio.Event()
                news.set()

    async def _look_out(self, until: float) -> None:
        known, checked = self.offset, anyio.current_time()
        while not self.stopped and not self.abandoned and (now := anyio.current_time()) < until:
            if self._size() > known:
                await self._read()
            if self.offset > known:
                return
            if now - checked >= _ABANDONED_CHECK_SECONDS:
                checked = now
                # What came between the last look and this one is read before.
                self.abandoned = await run_sync(is_abandoned, self._folder, self.last) and not await self._read()
            else:
                await self._sleep(self._poll)

    async def _read(self) -> bool:
        """Take in what is new; False if that is nothing, or no more than a part of a line."""
        batch = await run_sync(read_batch, self.path, self.offset, 0, self._redact)
        if batch.end == batch.start:
            return False
        self._window.append(batch)
        self._window_bytes += len(batch.data)
        while self._window_bytes > _WINDOW_BYTES and len(self._window) > 1:
            self._window_bytes -= len(self._window.popleft().data)
        self.offset = batch.end
        self.number, self.last = batch.last_number or self.number, batch.last or self.last
        return True

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


def is_abandoned(folder: Path, last: str) -> bool:
    """Whether nobody executes the run, and it doesn't wait for a person either: nothing comes until it is resumed."""
    return last != "PipelineWaiting" and not is_in_use(folder) and not QuestionStore(folder).list_open()


class Tails:
    """The tails of all runs that are watched."""

    def __init__(
        self, redact: Redact, *, poll: float = 0.25, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self._redact = redact
        self._poll = poll
        self._sleep = sleep
        self._tails: dict[Path, Tail] = {}
        self.stopped = False

    @contextmanager
    def following(self, folder: Path) -> Iterator[Tail]:
        """The tail of a run, kept as long as somebody follows it."""
        tail = self._tails.get(folder)
        if tail is None:
            tail = self._tails[folder] = Tail(folder, self._redact, self._poll, self._sleep)
            tail.stopped = self.stopped
        tail.readers += 1
        try:
            yield tail
        finally:
            tail.readers -= 1
            if not tail.readers:
                del self._tails[folder]

    def count_readers(self) -> int:
        """How many streams are open."""
        return sum(tail.readers for tail in self._tails.values())

    def stop(self) -> None:
        """Let all streams end."""
        self.stopped = True
        for tail in self._tails.values():
            tail.stopped = True

    async def read(self, tail: Tail, offset: int, after: int) -> Batch:
        """What follows in the file, for one who is behind."""
        if (batch := tail.batch_at(offset)) is not None:
            return batch
        return await run_sync(read_batch, tail.path, offset, after, self._redact)
