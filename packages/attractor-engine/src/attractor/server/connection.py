"""Connections: those that say too little or too much before they ask anything are closed, and those nobody hears."""

import socket
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class BoundedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, with bounds that it lacks: to the time and the size of a request's head, and to silence.

    Nobody has shown a token before the head is there, so that nothing else limits what such a connection holds. A peer
    that vanished is noticed `dead_seconds` after it has confirmed nothing of what was sent to it.
    """

    head_seconds = 30.0
    head_bytes = 128 * 1024
    dead_seconds = 60
    _received = 0
    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_options(transport.get_extra_info("socket"))
        self._expect_head()

    def _set_options(self, connection: Any) -> None:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        # Else the second part of an answer waits until the first is confirmed, which peers put off for 40 ms.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self.dead_seconds * 1000)

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
