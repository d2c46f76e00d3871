"""The same functions for scripts: blocking, over one event loop in a background thread.

    from unified_llm.sync import generate

    print(generate("claude-opus-4-6", "hello").text)

Everything runs on that one loop for the life of the process, so connections are kept between calls, and calls from
several threads run concurrently. Async programs use `unified_llm` itself.
"""

import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal

from unified_llm.api import generate as _generate
from unified_llm.api import stream as _stream
from unified_llm.api import structured as _structured
from unified_llm.api.call import CallOptions, GenerationOptions
from unified_llm.api.generate import GenerateResult
from unified_llm.api.structured import Schema
from unified_llm.api.tool_loop import StepResult
from unified_llm.client.client import Client as AsyncClient
from unified_llm.client.event_stream import EventStream as AsyncEventStream
from unified_llm.client.middleware import Middleware
from unified_llm.spec.adapter import ProviderAdapter
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response, Usage

__all__ = [
    "Client",
    "EventStream",
    "StreamObjectResult",
    "StreamResult",
    "generate",
    "generate_object",
    "stream",
    "stream_object",
]

T = TypeVar("T")

_lock = threading.Lock()
_portal: BlockingPortal | None = None


def _forget_portal() -> None:
    global _portal, _lock
    _portal, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_portal)  # the thread stays in the parent


def _start_portal() -> BlockingPortal:
    """Start the loop. It is never stopped: the thread is a daemon, and anyio's own starter would join it at exit."""
    started: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    threading.Thread(target=anyio.run, args=[serve], name="unified-llm", daemon=True).start()
    return started.result()


def _wait(call: Callable[[], Awaitable[T]]) -> T:
    """Run on the background loop; an interrupt while waiting cancels the call there."""
    global _portal
    with _lock:
        if _portal is None:
            _portal = _start_portal()
    future = _portal.start_task_soon(call)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def generate(
    model: str,
    prompt: str | None = None,
    *,
    client: "Client | AsyncClient | None" = None,
    **options: Unpack[GenerationOptions],
) -> GenerateResult:
    """`unified_llm.generate`, blocking."""
    return _wait(partial(_generate.generate, model, prompt, **_with_client(options, client)))


def generate_object(
    model: str,
    prompt: str | None = None,
    *,
    schema: Schema,
    strict: bool = True,
    client: "Client | AsyncClient | None" = None,
    **options: Unpack[GenerationOptions],
) -> GenerateResult:
    """`unified_llm.generate_object`, blocking."""
    call = partial(_structured.generate_object, model, prompt, schema=schema, strict=strict)
    return _wait(partial(call, **_with_client(options, client)))


def stream(
    model: str,
    prompt: str | None = None,
    *,
    client: "Client | AsyncClient | None" = None,
    **options: Unpack[GenerationOptions],
) -> "StreamResult":
    """`unified_llm.stream` as a plain iterator."""
    return StreamResult(_stream.stream(model, prompt, **_with_client(options, client)))


def stream_object(
    model: str,
    prompt: str | None = None,
    *,
    schema: Schema,
    strict: bool = True,
    client: "Client | AsyncClient | None" = None,
    **options: Unpack[GenerationOptions],
) -> "StreamObjectResult":
    """`unified_llm.stream_object` as a plain iterator."""
    call = partial(_structured.stream_object, model, prompt, schema=schema, strict=strict)
    return StreamObjectResult(call(**_with_client(options, client)))


def _with_client(options: GenerationOptions, client: "Client | AsyncClient | None") -> CallOptions:
    return {**options, "client": client.wrapped if isinstance(client, Client) else client}


class _Iterator(Iterator[T]):
    """Iterates an async iterator that has `aclose()`. Exhaust it, `close()` it, or use it in `with`."""

    def __init__(self, wrapped: Any, items: Any = None) -> None:
        self._wrapped = wrapped
        self._items = wrapped if items is None else items

    def __next__(self) -> T:
        try:
            item: T = _wait(self._items.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        return item

    def close(self) -> None:
        """Stop, and release the connection."""
        _wait(self._wrapped.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class EventStream(_Iterator[StreamEvent]):
    """The events of one request."""

    def __init__(self, wrapped: AsyncEventStream) -> None:
        super().__init__(wrapped)


class StreamResult(_Iterator[StreamEvent]):
    """The events of a generation; attributes as in `unified_llm.StreamResult`."""

    _wrapped: _stream.StreamResult

    def __init__(self, wrapped: _stream.StreamResult) -> None:
        super().__init__(wrapped)

    @property
    def text_stream(self) -> Iterator[str]:
        """Only the text, as it comes."""
        return (event.delta for event in self if event.type == StreamEventType.TEXT_DELTA and event.delta)

    @property
    def partial_response(self) -> Response | None:
        """What the current step has brought so far."""
        return self._wrapped.partial_response

    @property
    def steps(self) -> list[StepResult]:
        """The steps that have ended."""
        return self._wrapped.steps

    @property
    def total_usage(self) -> Usage:
        """The usage of the finished steps together."""
        return self._wrapped.total_usage

    def response(self) -> Response:
        """The last step's response. Reads what is left of the stream first."""
        return _wait(self._wrapped.response)


class StreamObjectResult(_Iterator[Any]):
    """The growing object."""

    _wrapped: _structured.StreamObjectResult

    def __init__(self, wrapped: _structured.StreamObjectResult) -> None:
        super().__init__(wrapped, wrapped.__aiter__())

    def object(self) -> Any:
        """The complete, validated object. Reads the rest of the stream first; raises NoObjectGeneratedError."""
        return _wait(self._wrapped.object)

    def response(self) -> Response:
        """The response that the object came in."""
        return _wait(self._wrapped.response)


class Client:
    """`unified_llm.Client`, blocking. `wrapped` is the async client; use it only through this one."""

    def __init__(
        self,
        providers: Mapping[str, ProviderAdapter] | None = None,
        default_provider: str | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.wrapped = AsyncClient(providers, default_provider, middleware)

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        default_provider: str | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Self:
        """A client with every provider that the environment configures."""
        client = cls.__new__(cls)
        client.wrapped = AsyncClient.from_env(environ, default_provider=default_provider, middleware=middleware)
        return client

    def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer."""
        return _wait(partial(self.wrapped.complete, request))

    def stream(self, request: Request) -> EventStream:
        """Events as they come, ending with FINISH."""
        return EventStream(self.wrapped.stream(request))

    def close(self) -> None:
        """Close every adapter."""
        _wait(self.wrapped.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
