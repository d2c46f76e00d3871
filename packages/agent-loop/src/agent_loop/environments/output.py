"""A command's output, bounded in memory however much there is."""

import tempfile
from collections import deque
from collections.abc import Callable
from typing import IO

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_FILE_BYTES = 1024 * 1024 * 1024

STDOUT, STDERR = 0, 1


class OutputCapture:
    """Takes chunks of stdout and stderr in the order in which they come.

    Up to `limit` bytes, of both together, are kept as they are. Beyond it the first and the last half of `limit` are
    kept, and everything, up to `file_limit` bytes, goes to a file in the directory that `directory()` returns.
    """

    def __init__(
        self, directory: Callable[[], str], *, limit: int = MAX_OUTPUT_BYTES, file_limit: int = MAX_FILE_BYTES
    ) -> None:
        self._directory = directory
        self._limit = limit
        self._half = limit // 2
        self._file_limit = file_limit
        self._head: list[tuple[int, bytes]] = []
        self._tail: deque[tuple[int, bytes]] = deque()
        self._tail_bytes = 0
        self._dropped = [0, 0]
        self._file: IO[bytes] | None = None
        self._file_bytes = 0
        self.total_bytes = 0

    @property
    def file_bytes(self) -> int:
        """How many bytes of the output, from its beginning on, are in the file."""
        return self._file_bytes if self._file is not None else self.total_bytes

    @property
    def file_name(self) -> str | None:
        """The file with everything, if there was too much to keep."""
        return str(self._file.name) if self._file is not None else None

    def write(self, stream: int, chunk: bytes) -> None:
        """Take a chunk of STDOUT or STDERR."""
        self.total_bytes += len(chunk)
        if self._file is None and self.total_bytes > self._limit:
            self._spill()
        if self._file is None:
            self._head.append((stream, chunk))
        else:
            self._write_file(chunk)
            self._append_tail(stream, chunk)

    def _spill(self) -> None:
        self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed by close()
            prefix="output-", suffix=".txt", dir=self._directory(), delete=False
        )
        chunks, self._head = self._head, []
        room = self._half
        for stream, chunk in chunks:
            self._write_file(chunk)
            if room:
                self._head.append((stream, chunk[:room]))
            if len(chunk) > room:
                self._append_tail(stream, chunk[room:])
            room = max(room - len(chunk), 0)

    def _append_tail(self, stream: int, chunk: bytes) -> None:
        self._tail.append((stream, chunk))
        self._tail_bytes += len(chunk)
        while self._tail_bytes > self._half:
            oldest_stream, oldest = self._tail.popleft()
            excess = min(self._tail_bytes - self._half, len(oldest))
            self._tail_bytes -= excess
            self._dropped[oldest_stream] += excess
            if excess < len(oldest):
                self._tail.appendleft((oldest_stream, oldest[excess:]))

    def _write_file(self, chunk: bytes) -> None:
        assert self._file is not None
        room = self._file_limit - self._file_bytes
        if room > 0:
            self._file.write(chunk[:room])
            self._file_bytes += min(len(chunk), room)

    def close(self) -> None:
        """Close the file. It stays."""
        if self._file is not None:
            self._file.close()

    def text(self, stream: int) -> str:
        """What is kept of a stream, with a note where something is missing; undecodable bytes are replaced."""
        head = b"".join(chunk for source, chunk in self._head if source == stream)
        tail = b"".join(chunk for source, chunk in self._tail if source == stream)
        if not self._dropped[stream]:
            return (head + tail).decode(errors="replace")
        whole = self.file_bytes == self.total_bytes
        kept = "all output is" if whole else f"the first {self._file_bytes} bytes of output are"
        note = f"\n[... {self._dropped[stream]} bytes left out here; {kept} in {self.file_name} ...]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")
