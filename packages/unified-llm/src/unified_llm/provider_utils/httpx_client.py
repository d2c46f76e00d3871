"""The only module that knows httpx, and httpx2, its continuation with the same interface.

httpx2 is used where it is installed; a caller's client may be of either.
"""

import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from unified_llm.provider_utils.http_client import Answer, Fault
from unified_llm.provider_utils.httpx_connections import IDLE_SECONDS, MAX_IDLE, Connections
from unified_llm.spec.request import AdapterTimeout

if TYPE_CHECKING:
    import httpx
    import httpx2

    AnyAsyncClient = httpx.AsyncClient | httpx2.AsyncClient
    AnyResponse = httpx.Response | httpx2.Response

_LIBRARIES = ("httpx2", "httpx")
_PIECE = 16 * 1024
"""Bytes that are decompressed at once: they grow a thousandfold at most."""
_HEAD = 4096


class HttpxClient:
    """Posts through a client of httpx or httpx2, or connections of our own."""

    def __init__(self, client: "AnyAsyncClient | Connections", library: ModuleType) -> None:
        self._client: Any = client
        self._library = library
        self.errors = (library.HTTPError, library.StreamError, library.InvalidURL, UnicodeEncodeError)

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed, by its owner or with its event loop."""
        return bool(self._client.is_closed)

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout, max_bytes: int
    ) -> Answer:
        """The whole answer; see HttpClient."""
        # A limit for each read and write would be a timer for each, and the caller's limit holds for all of them.
        limits = {"connect": timeout.connect, "pool": timeout.request, "read": None, "write": None}
        response = await self._client.send(self._request(url, content, headers, limits), stream=True)
        try:
            body = await self._read(response, max_bytes)
        finally:
            await response.aclose()
        return Answer(response.status_code, dict(response.headers.items()), body)

    async def open(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout
    ) -> "_OpenResponse":
        """The answer's head; see HttpClient."""
        request = timeout.request
        limits: dict[str, float | None] = {
            "connect": timeout.connect,
            "pool": request,
            "read": request,
            "write": request,
        }
        response = await self._client.send(self._request(url, content, headers, limits), stream=True)
        # The same dictionary is read again for each read of the body: from here on silence is what counts.
        limits["read"] = timeout.stream_read
        if "content-encoding" in response.headers and not response.is_stream_consumed:
            response.stream = _remembering(self._library)(response.stream)
        return _OpenResponse(response)

    def fault_of(self, error: Exception) -> Fault:
        """What one of `errors` means."""
        library = self._library
        match error:
            case library.ConnectTimeout() | library.PoolTimeout():
                return Fault.UNCONNECTED
            case library.TimeoutException():
                return Fault.SILENT
            case (
                library.UnsupportedProtocol()
                | library.LocalProtocolError()
                | library.TooManyRedirects()
                | library.InvalidURL()
                | UnicodeEncodeError()
            ):
                return Fault.UNSENDABLE
            case library.DecodingError():
                return Fault.GARBLED
            case _:
                return Fault.BROKEN

    async def _read(self, response: "AnyResponse", max_bytes: int) -> bytes:
        """The body, up to a little more than `max_bytes`."""
        if response.is_stream_consumed:  # by the caller's transport or hooks
            return response.content
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > max_bytes:
                    break
        except self._library.TransportError:
            # An error's status says more than that its body broke off.
            if response.status_code < 300:
                raise
        content = bytes(body)
        return self._unpacked(response, content, max_bytes) if "content-encoding" in response.headers else content

    def _unpacked(self, response: "AnyResponse", body: bytes, max_bytes: int) -> bytes:
        """A compressed body, decompressed. One that isn't what it says is returned as it is, for the error to show."""
        pieces = (body[start : start + _PIECE] for start in range(0, len(body), _PIECE))
        packed = self._library.Response(response.status_code, headers=response.headers, content=pieces)
        content = bytearray()
        try:
            for chunk in packed.iter_bytes():
                content += chunk
                if len(content) > max_bytes:
                    break
        except self._library.DecodingError:
            return body
        return bytes(content)

    def _request(
        self, url: str, content: bytes, headers: Mapping[str, str], limits: dict[str, float | None]
    ) -> "httpx.Request | httpx2.Request":
        request: httpx.Request | httpx2.Request = self._client.build_request(
            "POST", _parse_url(self._library, url), content=content, headers=headers, extensions={"timeout": limits}
        )
        return request


class _OpenResponse:
    """An answer whose body is still to come."""

    def __init__(self, response: "AnyResponse") -> None:
        self.status = response.status_code
        self.headers = dict(response.headers.items())
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        return self._response.aiter_bytes()

    @property
    def packed_head(self) -> bytes:
        """The beginning of a compressed body; see OpenAnswer."""
        return getattr(self._response.stream, "head", b"")

    async def aclose(self) -> None:
        """Close the connection, or give it back; see OpenAnswer."""
        await self._response.aclose()


@cache
def _remembering(library: ModuleType) -> type[Any]:
    """A class for the library's bodies, whose decoder shows nothing of what it can't decode."""

    base: Any = library.AsyncByteStream

    class RememberingStream(base):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream
            self.head = b""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                if len(self.head) < _HEAD:
                    self.head = (self.head + chunk)[:_HEAD]
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return RememberingStream


def wrap_client(client: object) -> HttpxClient | None:
    """A caller's client made an HttpClient; None if it is no AsyncClient of httpx or httpx2."""
    for name in _LIBRARIES:
        # Whoever has a client has imported its library.
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.AsyncClient):
            return HttpxClient(client, library)
    return None


async def keep_client(base_url: str) -> AsyncGenerator[HttpxClient, None]:
    """Yields a client of our own, and closes it when the generator is closed.

    An event loop closes the asynchronous generators that it has seen when it ends: so the client goes with it.
    """
    library = load_library()
    verify = _tls_context() if base_url.startswith("https:") else _no_tls_context()
    # Only a client of the library's knows its way past proxies, and reads a user's name out of an address.
    if getproxies() or "@" in base_url:
        limits = library.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS)
        client = library.AsyncClient(verify=verify, limits=limits)
    else:
        limits = library.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS)
        client = Connections(library, lambda: library.AsyncHTTPTransport(verify=verify, limits=limits))
    try:
        yield HttpxClient(client, library)
    finally:
        await client.aclose()


@cache
def load_library() -> ModuleType:
    """The library for clients of our own. A caller who brings a client needs no other, and importing takes a while."""
    return import_module(next(name for name in _LIBRARIES if find_spec(name) is not None))


@lru_cache(maxsize=256)
def _parse_url(library: ModuleType, url: str) -> "httpx.URL | httpx2.URL":
    # Parsing takes as long as building the rest of the request.
    parsed: httpx.URL | httpx2.URL = library.URL(url)
    return parsed


@cache
def _tls_context() -> ssl.SSLContext:
    # Reading the certificates takes longer than a request: all transports of the process share them.
    context: ssl.SSLContext = load_library().create_ssl_context()
    return context


@cache
def _no_tls_context() -> ssl.SSLContext:
    # For plain http, where certificates would be read in vain. It trusts nobody.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
