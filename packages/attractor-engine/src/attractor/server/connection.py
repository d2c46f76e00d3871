"""Connections that say too little or too much before they ask anything are closed."""

from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, with a bound to the time and the size of a request's head, which it lacks.

    Nobody has shown a token before the head is there, so that nothing else limits what such a connection holds.
    """

    head_seconds = 30.0
    head_bytes = 128 * 1024
    _received = 0
    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_head()
            return
        self._expect_head()
        self._received += len(data)
        if self._received > self.head_bytes:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _end_head(self) -> None:
        self._received = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
