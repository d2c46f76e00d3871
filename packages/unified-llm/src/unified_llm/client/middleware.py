"""Middleware: code around every call to a provider (section 2.3).

A middleware is one of these:

* an async function `(request, call_next) -> Response`. It wraps `complete()` only; streams pass it by, because a
  function that awaits one answer can't see events as they come.
* an async generator function `(request, call_next)` that yields events. It wraps `stream()` only.
* an object with either or both as methods `complete` and `stream`; an object that is callable and has `stream` works
  too. Whatever must hold for every call (a budget, a rate limit) offers both.

The first in the list is outermost: it sees the request first and the response last. `call_next` may be called with
another request, more than once (a fallback), or not at all (a cache).
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.events import StreamEvent
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response

CompleteCall = Callable[[Request], Awaitable[Response]]
StreamCall = Callable[[Request], AsyncIterator[StreamEvent]]
CompleteLayer = Callable[[Request, CompleteCall], Awaitable[Response]]
StreamLayer = Callable[[Request, StreamCall], AsyncIterator[StreamEvent]]


@runtime_checkable
class CompleteMiddleware(Protocol):
    """An object that wraps `complete()`."""

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """Answer the request, usually through `await call_next(request)`."""
        ...


@runtime_checkable
class StreamMiddleware(Protocol):
    """An object that wraps `stream()`."""

    def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """Yield the events, usually of `call_next(request)`. Iterators made by it are closed by the client."""
        ...


Middleware = CompleteLayer | StreamLayer | CompleteMiddleware | StreamMiddleware


def complete_layers(middleware: Sequence[Middleware]) -> list[CompleteLayer]:
    """What each middleware offers for `complete()`; raises ConfigurationError for one that offers nothing at all."""
    layers = []
    for index, item in enumerate(middleware):
        if (layer := _complete_layer(item)) is not None:
            layers.append(layer)
        elif _stream_layer(item) is None:
            raise ConfigurationError(
                f"middleware[{index}] ({item!r}) is neither callable nor has a method `complete` or `stream`"
            )
    return layers


def stream_layers(middleware: Sequence[Middleware]) -> list[StreamLayer]:
    """What each middleware offers for `stream()`."""
    return [layer for item in middleware if (layer := _stream_layer(item)) is not None]


def _complete_layer(item: Any) -> CompleteLayer | None:
    if callable(method := getattr(item, "complete", None)):
        return method  # type: ignore[no-any-return]
    return item if callable(item) and not inspect.isasyncgenfunction(item) else None


def _stream_layer(item: Any) -> StreamLayer | None:
    if callable(method := getattr(item, "stream", None)):
        return method  # type: ignore[no-any-return]
    return item if inspect.isasyncgenfunction(item) else None


def compose_complete(layers: Sequence[CompleteLayer], call: CompleteCall) -> CompleteCall:
    """The onion around `call`."""
    for layer in reversed(layers):
        call = _wrap_complete(layer, call)
    return call


def compose_stream(
    layers: Sequence[StreamLayer], call: StreamCall, opened: list[AsyncIterator[StreamEvent]]
) -> StreamCall:
    """The onion around `call`. Every iterator that comes into being is appended to `opened`, to be closed."""
    call = _track(call, opened)
    for layer in reversed(layers):
        call = _track(_wrap_stream(layer, call), opened)
    return call


def _wrap_complete(layer: CompleteLayer, call_next: CompleteCall) -> CompleteCall:
    return lambda request: layer(request, call_next)


def _wrap_stream(layer: StreamLayer, call_next: StreamCall) -> StreamCall:
    return lambda request: layer(request, call_next)


def _track(call: StreamCall, opened: list[AsyncIterator[StreamEvent]]) -> StreamCall:
    def tracked(request: Request) -> AsyncIterator[StreamEvent]:
        iterator = call(request)
        opened.append(iterator)
        return iterator

    return tracked
