"""The client: one entry point, many providers (sections 2.2 to 2.6, 4.1 and 4.2)."""

import inspect
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Self

import anyio
from anyio.lowlevel import RunVar

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import (
    Middleware,
    complete_layers,
    compose_complete,
    compose_stream,
    stream_layers,
)
from unified_llm.providers.registry import adapters_from_env, required_variables
from unified_llm.spec.adapter import ProviderAdapter
from unified_llm.spec.errors import ConfigurationError, UnsupportedToolChoiceError
from unified_llm.spec.events import StreamEvent
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response


class Client:
    """Routes each request to one of its adapters, through the middleware. Safe for concurrent use; never retries.

    `request.provider` names the adapter, else `default_provider` does; with neither, ConfigurationError: the client
    never guesses. The client closes its adapters in `close()`, which `async with` calls too.
    """

    def __init__(
        self,
        providers: Mapping[str, ProviderAdapter] | None = None,
        default_provider: str | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.providers = MappingProxyType(dict(providers or {}))
        for name, adapter in self.providers.items():
            if not isinstance(adapter, ProviderAdapter):
                raise ConfigurationError(
                    f"providers[{name!r}] must be an adapter (name, complete, stream), but is {adapter!r:.100}"
                )
        self.default_provider = default_provider
        if default_provider is not None:
            self._adapter(default_provider, "default_provider")
        self._complete = compose_complete(complete_layers(middleware), self._call_complete)
        self._stream_layers = stream_layers(middleware)
        self._uninitialized = {name for name, adapter in self.providers.items() if hasattr(adapter, "initialize")}
        # A lock belongs to the event loop that it was made in, and a client may be used from several.
        self._initializing: RunVar[anyio.Lock | None] = RunVar("initializing", None)

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        default_provider: str | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> Self:
        """A client with every provider that the environment configures (`providers/registry.py` lists the variables).

        The first becomes the default, unless `default_provider` says otherwise. `environ` defaults to `os.environ`.
        With nothing configured the client is empty, and the first request says which variables to set.
        """
        adapters = adapters_from_env(os.environ if environ is None else environ)
        return cls(adapters, default_provider or next(iter(adapters), None), middleware)

    async def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer. Raises SDKErrors."""
        return await self._complete(self._with_provider(request))

    def stream(self, request: Request) -> EventStream:
        """Events as they come, ending with FINISH. Nothing is sent before the first event is asked for.

        Exhaust the stream, close it, or use it in `async with`, which closes it.
        """
        opened: list[AsyncIterator[StreamEvent]] = []
        call = compose_stream(self._stream_layers, self._call_stream, opened)
        return EventStream(call(self._with_provider(request)), opened)

    async def close(self) -> None:
        """Close every adapter, each once, even if another's closing fails; the first failure is raised in the end."""
        failures: list[Exception] = []
        for adapter in {id(adapter): adapter for adapter in self.providers.values()}.values():
            if (close := getattr(adapter, "close", None)) is not None:
                try:
                    closing = close()
                    if inspect.isawaitable(closing):
                        await closing
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _with_provider(self, request: Request) -> Request:
        """Name the default in the request, so that middleware sees where it goes and may send it elsewhere."""
        if not isinstance(request, Request):
            raise ConfigurationError(f"request must be a Request, but is {request!r:.100} of {type(request).__name__}")
        if request.provider is None and self.default_provider is not None:
            return request.model_copy(update={"provider": self.default_provider})
        return request

    def _adapter(self, name: str | None, field: str = "request.provider") -> ProviderAdapter:
        if name is not None and name in self.providers:
            return self.providers[name]
        if not self.providers:
            raise ConfigurationError(f"the client has no providers; set {required_variables()}, or pass `providers`")
        known = ", ".join(self.providers)
        if name is None:
            raise ConfigurationError(f"{field} is not set and the client has no default_provider (it has {known})")
        raise ConfigurationError(f"{field} names {name!r}, but the client only has {known}")

    def _adapter_for(self, request: Request) -> ProviderAdapter:
        adapter = self._adapter(request.provider)
        if request.tool_choice is not None:
            mode = request.tool_choice.mode
            supports = getattr(adapter, "supports_tool_choice", None)
            if supports is not None and not supports(mode):
                raise UnsupportedToolChoiceError(
                    f"{request.provider} can't do tool_choice {mode!r}", provider=request.provider
                )
        return adapter

    async def _call_complete(self, request: Request) -> Response:
        adapter = self._adapter_for(request)
        if request.provider in self._uninitialized:
            await self._initialize(request.provider, adapter)
        return await adapter.complete(request)

    def _call_stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        adapter = self._adapter_for(request)
        if request.provider in self._uninitialized:
            return self._initialize_and_stream(request.provider, adapter, request)
        return adapter.stream(request)

    async def _initialize_and_stream(
        self, name: str, adapter: ProviderAdapter, request: Request
    ) -> AsyncIterator[StreamEvent]:
        await self._initialize(name, adapter)
        async with EventStream(adapter.stream(request)) as events:
            async for event in events:
                yield event

    async def _initialize(self, name: str, adapter: ProviderAdapter) -> None:
        """Run the adapter's own check once (in an event loop); a failed check is repeated by the next request."""
        lock = self._initializing.get()
        if lock is None:
            lock = anyio.Lock()
            self._initializing.set(lock)
        async with lock:
            if name in self._uninitialized:
                initializing = adapter.initialize()  # type: ignore[attr-defined]
                if inspect.isawaitable(initializing):
                    await initializing
                self._uninitialized.discard(name)


_default_client: Client | None = None


def set_default_client(client: Client | None) -> None:
    """Use `client` wherever a high-level call names none; None returns to the environment's. The caller closes it."""
    global _default_client
    _default_client = client


def get_default_client() -> Client:
    """The default client, made from the environment when first needed (section 2.5)."""
    global _default_client
    if _default_client is None:
        _default_client = Client.from_env()
    return _default_client
