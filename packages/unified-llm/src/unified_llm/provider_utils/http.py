"""The only network code of the library: JSON posted, and JSON or an event stream back.

Everything that can go wrong leaves here as an `SDKError`: foreign exceptions are mapped at this edge and nowhere else.
"""

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import anyio
from anyio.lowlevel import RunVar

from unified_llm.provider_utils.aiohttp_client import wrap_session
from unified_llm.provider_utils.error_mapping import ErrorClassifier, error_from_response
from unified_llm.provider_utils.http_client import Fault, HttpClient, OpenAnswer
from unified_llm.provider_utils.http_faults import HttpFaults, read_text
from unified_llm.provider_utils.httpx_client import HttpxClient, keep_client, load_library, wrap_client
from unified_llm.provider_utils.json_body import encode_json, parse_json
from unified_llm.provider_utils.sse import MAX_EVENT_BYTES, ServerSentEvent, SSEDecoder
from unified_llm.spec.errors import (
    ConfigurationError,
    NetworkError,
    SDKError,
    ServerError,
    StreamError,
)
from unified_llm.spec.request import AdapterTimeout

if TYPE_CHECKING:
    from unified_llm.provider_utils.http_client import CallerClient

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""The largest body of an unstreamed answer: a dozen large pictures in base64 fit."""
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
    `AdapterTimeout`. `http_client` is an AsyncClient of httpx or httpx2, or a ClientSession of aiohttp (the least CPU;
    asyncio only). It is used as it is (its proxies, its limits on connections) and never closed here; anything else
    is a ConfigurationError. Without it one client is made on first use and kept, one for each event loop, as
    connections can't leave the loop they were opened in; it closes with `aclose()` or with its loop. An unstreamed
    answer of more than `max_response_bytes` is an error; in a stream, `MAX_EVENT_BYTES` of `sse` bounds each event.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float | AdapterTimeout | None = None,
        http_client: "CallerClient | None" = None,
        classify: ErrorClassifier = error_from_response,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._provider = provider
        self._base_url = base_url.rstrip("/")
        self._faults = HttpFaults(provider, self._base_url)
        self._headers = {"content-type": "application/json", **{name.lower(): headers[name] for name in headers}}
        self._timeout = _timeouts(timeout)
        self._caller_client = None if http_client is None else _wrap(http_client)
        self._classify = classify
        self._max_bytes = max_response_bytes
        self._own_client: RunVar[AsyncGenerator[HttpxClient, None] | None] = RunVar("http client", None)
        self._opened: RunVar[HttpxClient | None] = RunVar("open http client", None)
        if http_client is None:
            load_library()

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
        a body that is too long or not a JSON object, RequestTimeoutError when the whole exchange takes longer than
        `request`, NetworkError when the connection can't be made or breaks.
        """
        client = await self._client()
        limit = self._timeout.request
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + limit) as scope:
                answer = await client.post(
                    self._url(path, params), encode_json(body), self._merged(headers), self._timeout, self._max_bytes
                )
        except client.errors as error:
            raise self._faults.translated(client.fault_of(error), error, NetworkError) from error
        if scope.cancelled_caught:
            raise self._faults.timed_out(f"took longer than {limit:g} s")
        return self._accept(*answer)

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
        try:
            answer = await client.open(self._url(path, params), encode_json(body), self._merged(headers), self._timeout)
        except client.errors as error:
            raise self._faults.translated(client.fault_of(error), error, NetworkError) from error
        try:
            if answer.status >= 300:
                content = await _read_error_body(client, answer, self._timeout.stream_read)
                raise self._refusal(answer.status, answer.headers, content)
            stream = HttpStream(self._faults, client, answer, self._timeout.request)
            yield stream
            await stream._drain()
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await answer.aclose()

    async def aclose(self) -> None:
        """Close the client that was made for this event loop. The transport stays usable."""
        generator = self._own_client.get()
        self._own_client.set(None)
        self._opened.set(None)
        if generator is not None:
            await generator.aclose()

    async def _client(self) -> HttpClient:
        if self._caller_client is not None:
            return self._caller_client
        client = self._opened.get()
        if client is None or client.is_closed:
            generator = keep_client(self._base_url)
            try:
                _check_address(self._base_url)
                client = await anext(generator)
            except Exception as error:  # no two libraries agree on what they raise here
                raise self._faults.unusable(error) from error
            self._own_client.set(generator)
            self._opened.set(client)
        return client

    def _url(self, path: str, params: Mapping[str, str] | None) -> str:
        url = self._base_url + path
        return f"{url}?{urlencode(params)}" if params else url

    def _merged(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        return {**self._headers, **headers} if headers else self._headers

    def _accept(self, status: int, headers: Mapping[str, str], content: bytes) -> HttpResponse:
        if status >= 300:
            raise self._refusal(status, headers, content)
        if len(content) > self._max_bytes:
            raise self._faults.too_long(self._max_bytes, status, content)
        body = parse_json(content)
        if not isinstance(body, dict):
            raise self._faults.unreadable(ServerError, status, headers, content)
        if body.get("error"):
            raise self._faults.reported(body, headers)
        return HttpResponse(status, headers, body)

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> SDKError:
        """The error for a status of 300 and above."""
        if status < 400:
            return self._faults.redirected(status, headers.get("location", "nowhere"))
        return self._classify(
            provider=self._provider, status=status, headers=headers, body=parse_json(content), text=read_text(content)
        )


class HttpStream:
    """A running answer. `headers` have lower-case names; `events()` may be iterated once."""

    def __init__(self, faults: HttpFaults, client: HttpClient, answer: OpenAnswer, longest_wait: float) -> None:
        self.headers = answer.headers
        self._faults = faults
        self._client = client
        self._answer = answer
        self._status = answer.status
        self._chunks = answer.chunks()
        self._decoder = SSEDecoder()
        self._ready: deque[ServerSentEvent] = deque()
        self._started = False
        self._ended = False
        self._head = b""  # of a body that has not yet brought an event
        self._longest_wait = longest_wait
        self._waiting_since: float | None = None

    def events(self) -> AsyncIterator[ServerSentEvent]:
        """The events as they come.

        Raises StreamError when the connection breaks or the body is no event stream, RequestTimeoutError after
        `stream_read` seconds of silence or `request` seconds of comments only, and the mapped error when the body is
        an error. A body that is whole JSON is taken as one event, an array as one for each element.
        """
        return self

    def __aiter__(self) -> "HttpStream":
        return self

    async def __anext__(self) -> ServerSentEvent:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            chunk = await self._next_chunk()
            if not self._started:
                self._ready.extend(await self._begin(chunk))
            elif chunk is None:
                self._ready.extend(self._decoder.flush())
                if self._head and not self._ready:
                    raise self._faults.unreadable(StreamError, self._status, self.headers, self._head)
            else:
                self._ready.extend(self._decoder.feed(chunk))
            if not self._ready:
                self._check_wait()
        self._waiting_since = None
        self._head = b""
        return self._ready.popleft()

    def _check_wait(self) -> None:
        """Bytes came that are no event, such as the comments with which servers keep a connection open."""
        now = anyio.current_time()
        if self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since > self._longest_wait:
            raise self._faults.timed_out(f"got bytes but no whole event for {self._longest_wait:g} s")

    async def _next_chunk(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        try:
            return await self._chunks.__anext__()
        except StopAsyncIteration:
            self._ended = True
            return None
        except self._client.errors as error:
            fault = self._client.fault_of(error)
            if fault is Fault.GARBLED:
                head = self._answer.packed_head or self._head
                raise self._faults.unreadable(StreamError, self._status, self.headers, head, cause=error) from error
            raise self._faults.translated(fault, error, StreamError) from error

    async def _begin(self, chunk: bytes | None) -> list[ServerSentEvent]:
        while chunk is not None and not chunk.strip():
            self._check_wait()
            chunk = await self._next_chunk()
        self._started = True
        # No event stream begins like this, whatever the content type says.
        if chunk is None or chunk.lstrip()[:1] in (b"{", b"[", b"<"):
            return await self._read_whole(chunk or b"")
        self._head = chunk
        return self._decoder.feed(chunk)

    async def _read_whole(self, head: bytes) -> list[ServerSentEvent]:
        content = bytearray(head)
        while not self._ended and len(content) <= MAX_EVENT_BYTES:
            self._check_wait()
            content += await self._next_chunk() or b""
        self._ended = True
        body = parse_json(bytes(content))
        if isinstance(body, dict) and body.get("error"):
            raise self._faults.reported(body, self.headers)
        if not isinstance(body, dict | list):
            raise self._faults.unreadable(StreamError, self._status, self.headers, bytes(content))
        return [ServerSentEvent("", json.dumps(item)) for item in (body if isinstance(body, list) else [body])]

    async def _drain(self) -> None:
        # The last event is often in, and only the end of the body is not. Waiting for it keeps the connection usable;
        # if it breaks now, nothing is lost but the connection.
        with suppress(SDKError), anyio.move_on_after(_DRAIN_SECONDS):
            while not self._ended:
                await self._next_chunk()


def _timeouts(timeout: float | AdapterTimeout | None) -> AdapterTimeout:
    match timeout:
        case None:
            return AdapterTimeout()
        case AdapterTimeout():
            return timeout
        case int() | float() as seconds if not math.isnan(seconds):
            return AdapterTimeout(connect=min(seconds, AdapterTimeout().connect), request=seconds, stream_read=seconds)
    raise ConfigurationError(f"timeout must be a number of seconds or an AdapterTimeout, but is {timeout!r}")


def _check_address(url: str) -> None:
    """Raise ValueError for a port that doesn't exist: resolving it fails in ways that are hard to catch."""
    if url.startswith("http"):
        _ = urlsplit(url).port


def _wrap(http_client: object) -> HttpClient:
    wrapped = wrap_client(http_client) or wrap_session(http_client)
    if wrapped is None:
        raise ConfigurationError(
            "http_client must be an AsyncClient of httpx or httpx2 or a ClientSession of aiohttp, "
            f"not {type(http_client).__module__}.{type(http_client).__qualname__}"
        )
    return wrapped


async def _read_error_body(client: HttpClient, answer: OpenAnswer, seconds: float) -> bytes:
    # The status is known: a body that breaks off or doesn't come in time must not hide it.
    content = bytearray()
    with suppress(*client.errors), anyio.move_on_after(seconds):
        async for chunk in answer.chunks():
            content += chunk
            if len(content) > _MAX_ERROR_BYTES:
                break
    return bytes(content)
