"""The only module that knows aiohttp, whose parser in C makes a call several times cheaper. On asyncio only."""

import sys
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Self

import anyio

from unified_llm.provider_utils.http_client import Answer, Fault
from unified_llm.spec.request import AdapterTimeout

if TYPE_CHECKING:
    import aiohttp

_LARGE = 2**20
"""Bytes. Above, aiohttp wants to read a body piece by piece."""


class AiohttpClient:
    """Posts through a session of the caller's."""

    def __init__(self, session: "aiohttp.ClientSession") -> None:
        self._session = session
        self._library = sys.modules["aiohttp"]
        self.errors = (self._library.ClientError, OSError, ValueError)

    @property
    def is_closed(self) -> bool:
        """Whether its owner has closed the session."""
        return self._session.closed

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout, max_bytes: int
    ) -> Answer:
        """The whole answer; see HttpClient."""
        response = await self._send(url, content, headers, timeout)
        body = bytearray()
        try:
            while len(body) <= max_bytes and (chunk := await response.content.readany()):
                body += chunk
        except self._library.ClientError as error:
            # An error's status says more than that its body broke off.
            if response.status < 300 and self.fault_of(error) is not Fault.GARBLED:
                raise
        finally:
            response.close()
        return Answer(response.status, _plain_headers(response), bytes(body))

    async def open(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout
    ) -> "_OpenResponse":
        """The answer's head; see HttpClient."""
        with anyio.fail_after(timeout.request):
            response = await self._send(url, content, headers, timeout)
        return _OpenResponse(response, timeout.stream_read)

    def fault_of(self, error: Exception) -> Fault:
        """What one of `errors` means."""
        library = self._library
        match error:
            case library.ConnectionTimeoutError():
                return Fault.UNCONNECTED
            case TimeoutError():
                return Fault.SILENT
            case library.NonHttpUrlClientError() | ValueError():
                return Fault.UNSENDABLE
            case library.ClientPayloadError(__cause__=library.http_exceptions.ContentEncodingError()):
                return Fault.GARBLED
            case _:
                return Fault.BROKEN

    async def _send(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout
    ) -> "aiohttp.ClientResponse":
        for value in headers.values():
            # As the other libraries do: a key with a stray character is better refused than sent.
            value.encode("ascii")
        return await self._session.post(
            url,
            data=content if len(content) < _LARGE else BytesIO(content),
            headers=headers,
            allow_redirects=False,
            timeout=self._library.ClientTimeout(sock_connect=timeout.connect),
        )


class _OpenResponse:
    """An answer whose body is still to come."""

    def __init__(self, response: "aiohttp.ClientResponse", longest_silence: float) -> None:
        self.status = response.status
        self.headers = _plain_headers(response)
        self._response = response
        self._longest_silence = longest_silence

    def chunks(self) -> Self:
        """The body as it comes."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with anyio.fail_after(self._longest_silence):
            chunk = await self._response.content.readany()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    @property
    def packed_head(self) -> bytes:
        """Nothing: aiohttp decompresses while it receives, and keeps what it can't decompress to itself."""
        return b""

    async def aclose(self) -> None:
        """Close the connection, or leave it to the session if the body was read to its end."""
        self._response.close()


def wrap_session(session: object) -> AiohttpClient | None:
    """A caller's session made an HttpClient; None if it is no ClientSession."""
    # Whoever has a session has imported its library.
    library = sys.modules.get("aiohttp")
    return AiohttpClient(session) if library is not None and isinstance(session, library.ClientSession) else None


def _plain_headers(response: "aiohttp.ClientResponse") -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
