"""The contract of a provider (sections 2.4 and 7.1)."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from unified_llm.spec.events import StreamEvent
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response


@runtime_checkable
class ProviderAdapter(Protocol):
    """One provider behind the unified model.

    Adapters are safe for concurrent use, never retry by themselves, and raise only `SDKError`s. Three methods are
    optional and looked up by name: `async initialize()` is called when a client takes the adapter into use and raises
    `ConfigurationError`; `async close()` releases connections and is called by `Client.close()`;
    `supports_tool_choice(mode) -> bool` says whether a mode can be carried; where it can't, the client raises
    `UnsupportedToolChoiceError` in the adapter's place.
    """

    @property
    def name(self) -> str:
        """The provider's key, such as "anthropic"."""
        ...

    async def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer."""
        ...

    def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Send the request and yield events as they come, from STREAM_START to FINISH.

        A failure is yielded as one ERROR event and then raised. Whoever iterates closes the iterator (`aclose()`),
        which releases the connection at once.
        """
        ...
