"""The only network code of the library: JSON posted, and JSON or an event stream back.

Everything that can go wrong leaves here as an `SDKError`: foreign exceptions are mapped at this edge and nowhere else.
"""

import json
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyio
import httpx
from anyio.lowlevel import RunVar

from unified_llm.provider_utils.error_mapping import ErrorClassifier, error_from_event, error_from_response
from unified_llm.provider_utils.json_body import encode_json, parse_json
from unified_llm.provider_utils.sse import MAX_EVENT_BYTES, ServerSentEvent, SSEDecoder
from unified_llm.spec.errors import (
    ConfigurationError,
    NetworkError,
    RequestTimeoutError,
    SDKError,
    ServerError,
    StreamError,
)
from unified_llm.spec.request import AdapterTimeout

# Long enough for a person to read an answer and go on over the same connection.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=60.0)
_MAX_ERROR_BYTES = 1024 * 1024
_DRAIN_SECONDS = 0.1
_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A successful answer. Header names are lower-case; `body` is the JSON object."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]


class HttpTransport:
    """One provider's endpoint, safe for concurrent use.

    `base_url` is joined with each call's path. `timeout` is in seconds; one number stands for each limit of
    `AdapterTimeout`. A client of the caller's is used as it is (its proxies, its limits on connections) and never
    closed here. Otherwise one client is made on first use and kept, one for each event loop, as connections can't
    leave the loop they were opened in; it closes with `aclose()` or with its loop.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float | AdapterTimeout | None = None,
        http_client: httpx.AsyncClient | None = None,
        classify: ErrorClassifier = error_from_response,
    ) -> None:
        self._provider = provider
        self._base_url = base_url.rstrip("/")
        self._faults = _Faults(provider, self._base_url)
        self._headers = {"content-type": "application/json", **{name.lower(): headers[name] for name in headers}}
        self._timeout = _timeouts(timeout)
        self._caller_client = http_client
        self._classify = classify
        self._own_client: RunVar[AsyncGenerator[httpx.AsyncClient, None] | None] = RunVar("http client", None)
        self._opened: RunVar[httpx.AsyncClient | None] = RunVar("open http client", None)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Post `body` as JSON and return the answer.

        Raises the mapped error for a status of 300 and above and for a 200 whose body is an `error`, ServerError for
        a body that is not a JSON object, RequestTimeoutError when the whole exchange takes longer than `request`,
        NetworkError when the connection can't be made or breaks.
        """
        client = await self._client()
        request = self._request(client, path, body, headers, params, read=None)
        with self._faults.mapped(NetworkError):
            try:
                with anyio.fail_after(self._timeout.request):
                    response = await client.send(request)
            except TimeoutError:
                raise self._faults.timed_out(f"took longer than {self._timeout.request:g} s") from None
        return self._accept(response)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> AsyncIterator["HttpStream"]:
        """Post `body` as JSON and read the answer as server-sent events.

        Entering raises what `post` raises for an error status. Leaving closes the connection at once, unless the
        stream was read to its end: then it is kept for the next call.
        """
        client = await self._client()
        request = self._request(client, path, body, headers, params, read=self._timeout.request)
        with self._faults.mapped(NetworkError):
            response = await client.send(request, stream=True)
        try:
            if response.status_code >= 300:
                raise self._refusal(response, await _read_error_body(response, self._timeout.stream_read))
            # The same dictionary is read again for each read of the body: from here on silence is what counts.
            request.extensions["timeout"]["read"] = self._timeout.stream_read
            stream = HttpStream(self._faults, response)
            yield stream
            await stream._drain()
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await response.aclose()

    async def aclose(self) -> None:
        """Close the client that was made for this event loop. The transport stays usable."""
        generator = self._own_client.get()
        self._own_client.set(None)
        self._opened.set(None)
        if generator is not None:
            await generator.aclose()

    async def _client(self) -> httpx.AsyncClient:
        if self._caller_client is not None:
            return self._caller_client
        client = self._opened.get()
        if client is None or client.is_closed:
            generator = _keep_client(self._base_url)
            client = await anext(generator)
            self._own_client.set(generator)
            self._opened.set(client)
        return client

    def _request(
        self,
        client: httpx.AsyncClient,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None,
        params: Mapping[str, str] | None,
        *,
        read: float | None,
    ) -> httpx.Request:
        connect = self._timeout.connect
        timeouts = {"connect": connect, "read": read, "write": self._timeout.request, "pool": self._timeout.request}
        try:
            return client.build_request(
                "POST",
                self._base_url + path,
                content=encode_json(body),
                headers={**self._headers, **headers} if headers else self._headers,
                params=params,
                extensions={"timeout": timeouts},
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise self._faults.unwritable(error) from error

    def _accept(self, response: httpx.Response) -> HttpResponse:
        if response.status_code >= 300:
            raise self._refusal(response, response.content)
        body = parse_json(response.content)
        headers = dict(response.headers.items())
        if not isinstance(body, dict):
            raise self._faults.unreadable(ServerError, response.status_code, headers, response.content)
        if body.get("error"):
            raise self._faults.reported(body, headers)
        return HttpResponse(response.status_code, headers, body)

    def _refusal(self, response: httpx.Response, content: bytes) -> SDKError:
        """The error for a status of 300 and above."""
        status = response.status_code
        if status < 400:
            return self._faults.redirected(status, response.headers.get("location", "nowhere"))
        return self._classify(
            provider=self._provider,
            status=status,
            headers=dict(response.headers.items()),
            body=parse_json(content),
            text=_text(content),
        )


class HttpStream:
    """A running answer. `headers` have lower-case names; `events()` may be iterated once."""

    def __init__(self, faults: "_Faults", response: httpx.Response) -> None:
        self.headers: Mapping[str, str] = dict(response.headers.items())
        self._faults = faults
        self._response = response
        self._chunks = response.aiter_bytes()
        self._decoder = SSEDecoder()
        self._ready: deque[ServerSentEvent] = deque()
        self._started = False
        self._ended = False

    def events(self) -> AsyncIterator[ServerSentEvent]:
        """The events as they come.

        Raises StreamError when the connection breaks or the body is no event stream, RequestTimeoutError after
        `stream_read` seconds of silence, and the mapped error when the body is an error. A body that is whole JSON
        is taken as one event, an array as one for each element.
        """
        return self

    def __aiter__(self) -> "HttpStream":
        return self

    async def __anext__(self) -> ServerSentEvent:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            self._ready.extend(await self._read())
        return self._ready.popleft()

    async def _read(self) -> list[ServerSentEvent]:
        chunk = await self._next_chunk()
        if not self._started:
            while chunk is not None and not chunk.strip():
                chunk = await self._next_chunk()
            self._started = True
            # No event stream begins like this, whatever the content type says.
            if chunk is None or chunk.lstrip()[:1] in (b"{", b"[", b"<"):
                return await self._read_whole(chunk or b"")
        return self._decoder.flush() if chunk is None else self._decoder.feed(chunk)

    async def _next_chunk(self) -> bytes | None:
        with self._faults.mapped(StreamError):
            chunk = await anext(self._chunks, None)
        self._ended = chunk is None
        return chunk

    async def _read_whole(self, head: bytes) -> list[ServerSentEvent]:
        content = bytearray(head)
        while not self._ended and len(content) <= MAX_EVENT_BYTES:
            content += await self._next_chunk() or b""
        self._ended = True
        body = parse_json(bytes(content))
        if isinstance(body, dict) and body.get("error"):
            raise self._faults.reported(body, self.headers)
        if not isinstance(body, dict | list):
            raise self._faults.unreadable(StreamError, self._response.status_code, self.headers, bytes(content))
        return [ServerSentEvent("", json.dumps(item)) for item in (body if isinstance(body, list) else [body])]

    async def _drain(self) -> None:
        # The last event is often in, and only the end of the body is not. Waiting for it keeps the connection usable;
        # if it breaks now, nothing is lost but the connection.
        with suppress(SDKError), anyio.move_on_after(_DRAIN_SECONDS):
            while not self._ended:
                await self._next_chunk()


class _Faults:
    """What goes wrong at one endpoint, as our errors."""

    def __init__(self, provider: str, base_url: str) -> None:
        self._provider = provider
        self._base_url = base_url

    @contextmanager
    def mapped(self, broken: type[SDKError]) -> Iterator[None]:
        """Foreign exceptions -> ours; `broken` is what a connection that fails in here means."""
        try:
            yield
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            # Nothing was sent yet, so that trying again is safe and may help.
            raise self.timed_out("found no connection in time", cause=error, retryable=True) from error
        except httpx.TimeoutException as error:
            raise self.timed_out("got no answer for too long", cause=error) from error
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.TooManyRedirects) as error:
            raise ConfigurationError(
                f"the request to {self._provider} at {self._base_url} can't be sent: {error}",
                cause=error,
                provider=self._provider,
            ) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise broken(
                f"the connection to {self._provider} at {self._base_url} failed: {error or type(error).__name__}",
                cause=error,
                provider=self._provider,
            ) from error

    def timed_out(self, what: str, *, cause: Exception | None = None, retryable: bool = False) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"the request to {self._provider} {what}", cause=cause, provider=self._provider, retryable=retryable
        )

    def unwritable(self, cause: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"the request to {self._provider} can't be written: check base_url, key and headers ({cause})",
            cause=cause,
            provider=self._provider,
        )

    def redirected(self, status: int, target: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._provider} redirects ({status}) to {target}; set base_url to where the API is",
            provider=self._provider,
            status_code=status,
        )

    def reported(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> SDKError:
        """The error that is the body of a 200."""
        return error_from_event(provider=self._provider, payload=body, headers=headers)

    def unreadable(self, kind: type[SDKError], status: int, headers: Mapping[str, str], content: bytes) -> SDKError:
        """A 200 that is not what was asked for."""
        wanted = "an event stream" if kind is StreamError else "a JSON object"
        found = f"{headers.get('content-type', 'a body of no type')}: {_text(content[:80])!r}" if content else "nothing"
        return kind(
            f"{self._provider} answered {status} with {found}, where {wanted} was expected",
            provider=self._provider,
            status_code=status,
            raw={"body": _text(content[:4096])},
        )


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _timeouts(timeout: float | AdapterTimeout | None) -> AdapterTimeout:
    match timeout:
        case None:
            return AdapterTimeout()
        case AdapterTimeout():
            return timeout
        case seconds:
            return AdapterTimeout(connect=min(seconds, AdapterTimeout().connect), request=seconds, stream_read=seconds)


async def _keep_client(base_url: str) -> AsyncGenerator[httpx.AsyncClient, None]:
    # An event loop closes the asynchronous generators that it has seen when it ends: so the client goes with it.
    verify = _tls_context() if base_url.startswith("https:") else _no_tls_context()
    client = httpx.AsyncClient(verify=verify, limits=_LIMITS)
    try:
        yield client
    finally:
        await client.aclose()


async def _read_error_body(response: httpx.Response, seconds: float) -> bytes:
    # The status is known: a body that breaks off or doesn't come in time must not hide it.
    content = bytearray()
    with suppress(httpx.HTTPError), anyio.move_on_after(seconds):
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _MAX_ERROR_BYTES:
                break
    return bytes(content)


@cache
def _tls_context() -> ssl.SSLContext:
    # Reading the certificates takes longer than a request: all transports of the process share them.
    return httpx.create_ssl_context()


@cache
def _no_tls_context() -> ssl.SSLContext:
    # For plain http, where certificates would be read in vain. It trusts nobody.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
