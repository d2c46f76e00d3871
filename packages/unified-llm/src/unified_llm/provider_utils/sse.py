"""Server-sent events out of bytes, as the WHATWG HTML standard (section 9.2) defines them. Pure.

The bytes may be cut anywhere, inside a character or between CR and LF. Lines end in LF, CR or CRLF and nothing else:
text may hold U+2028 or U+0085. `id` and `retry` are read over, as a model's answer can't be resumed.
"""

from typing import NamedTuple, NoReturn

from unified_llm.spec.errors import StreamError

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event; `event` is empty when the server didn't name it."""

    event: str
    data: str


class SSEDecoder:
    """Feed it bytes as they come; it returns the events that are complete.

    A failure that a server writes bare into its stream, as JSON without `data:` or after `error:`, is an event `error`.

    `max_event_bytes` bounds both a line and an event's data; more raises StreamError, so that a server that never
    ends a line can't fill the memory.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._partial = bytearray()
        self._after_cr = False
        self._at_start = True
        self._event = b""
        self._data: list[bytes] = []
        self._stray: list[bytes] = []  # lines of JSON without a field's name
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events they complete."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if not chunk:
            return []
        lines = chunk.splitlines()
        if self._partial:
            self._partial += lines[0]
            lines[0] = b""
        ends = chunk[-1] in b"\r\n"
        if self._partial and (ends or len(lines) > 1):
            lines[0] = bytes(self._partial)
            self._partial.clear()
        if ends:
            self._after_cr = chunk.endswith(b"\r")
        else:
            self._partial += lines.pop()
            if len(self._partial) > self._limit:
                self._refuse(self._partial)
        return self._read(lines)

    def flush(self) -> list[ServerSentEvent]:
        """End of input. A last event without its blank line is returned too: some servers don't send one."""
        lines = [bytes(self._partial), b""] if self._partial else [b""]
        self._partial.clear()
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[ServerSentEvent]:
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        events = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    text = data[0] if len(data) == 1 else b"\n".join(data)
                    name = self._event.decode("utf-8", "replace")
                    events.append(ServerSentEvent(name, text.decode("utf-8", "replace")))
                    data.clear()
                    self._data_bytes = 0
                if self._stray:
                    events += self._end_stray()
                self._event = b""
            elif line[:5] == b"data:":
                value = line[6:] if line[5:6] == b" " else line[5:]
                data.append(value)
                self._data_bytes += len(value)
                if self._data_bytes > self._limit:
                    self._refuse(data[0])
            elif line[:6] == b"event:":
                self._event = line[7:] if line[6:7] == b" " else line[6:]
            elif line == b"data":
                data.append(b"")
            elif line[:6] == b"error:":
                self._event = b"error"
                data.append(line[6:].strip())
            elif line[:1] == b"{" or self._stray:
                self._stray.append(line)
                self._data_bytes += len(line)
                if self._data_bytes > self._limit:
                    self._refuse(self._stray[0])
        return events

    def _end_stray(self) -> list[ServerSentEvent]:
        text = b"\n".join(self._stray)
        self._stray.clear()
        self._data_bytes = 0
        return [ServerSentEvent("error", text.decode("utf-8", "replace"))] if b'"error"' in text else []

    def _refuse(self, head: bytes | bytearray) -> NoReturn:
        raise StreamError(
            f"the server sent an event of more than {self._limit} bytes",
            raw={"body": head[:4096].decode("utf-8", "replace")},
        )
