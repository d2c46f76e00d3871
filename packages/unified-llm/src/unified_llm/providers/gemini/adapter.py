"""GeminiAdapter: endpoint, authentication, `complete()` and `stream()` over the Gemini API."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from unified_llm.provider_utils.http import MAX_RESPONSE_BYTES, HttpTransport
from unified_llm.providers.gemini.request import build_request
from unified_llm.providers.gemini.response import StreamDecoder, parse_response
from unified_llm.spec.errors import ConfigurationError, SDKError, ServerError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    from unified_llm.provider_utils.http_client import CallerClient

_STREAM = {"alt": "sse"}


class GeminiAdapter:
    """Gemini, or any server that speaks its API.

    `base_url` is the host. The key goes in the header `x-goog-api-key`, which the API takes as well as the `key`
    parameter of section 7.8: an address ends up in logs, a header doesn't. `timeout` (seconds), `max_response_bytes`
    and who closes `http_client` stand at `HttpTransport`. `name` is the provider's key in a client, in
    `provider_options` and in `provider_metadata`. What the adapter does with `provider_options` stands at
    `build_request`.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = "https://generativelanguage.googleapis.com",
        default_headers: Mapping[str, str] | None = None,
        timeout: float | AdapterTimeout | None = None,
        http_client: "CallerClient | None" = None,
        *,
        name: str = "gemini",
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.name = name
        self._api_key = api_key
        extra = {key.lower(): value for key, value in (default_headers or {}).items()}
        self._transport = HttpTransport(
            provider=name,
            base_url=base_url.rstrip("/").removesuffix("/v1beta"),
            headers={"x-goog-api-key": api_key, **extra},
            timeout=timeout,
            http_client=http_client,
            max_response_bytes=max_response_bytes,
        )

    async def initialize(self) -> None:
        """Raise ConfigurationError if there is no key."""
        if not self._api_key:
            raise ConfigurationError(f"{self.name} needs an api_key, and it is empty", provider=self.name)

    async def complete(self, request: Request) -> Response:
        """One answer. Raises the errors of section 6.1, and ContentFilterError for a prompt that is blocked."""
        wire = build_request(request, provider=self.name)
        answer = await self._transport.post(_path(request.model, "generateContent"), wire.body, headers=wire.headers)
        try:
            return parse_response(
                answer.body,
                provider=self.name,
                model=request.model,
                headers=answer.headers,
                warnings=wire.warnings,
            )
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ServerError(
                f"{self.name} answered {answer.status} with JSON that is no answer: {error}",
                cause=error,
                provider=self.name,
                status_code=answer.status,
                raw=answer.body,
            ) from error

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """The answer as it comes; close the generator to stop early. A failure is yielded as ERROR, then raised."""
        try:
            wire = build_request(request, provider=self.name)
            path = _path(request.model, "streamGenerateContent")
            async with self._transport.stream(path, wire.body, headers=wire.headers, params=_STREAM) as stream:
                decoder = StreamDecoder(
                    provider=self.name, model=request.model, headers=stream.headers, warnings=wire.warnings
                )
                async for server_event in stream.events():
                    for event in decoder.feed(server_event):
                        yield event
            for event in decoder.finish():
                yield event
        except SDKError as error:
            yield StreamEvent(type=StreamEventType.ERROR, error=error)
            raise

    def supports_tool_choice(self, mode: str) -> bool:
        """Every mode of section 5.3 is supported."""
        return mode in ("auto", "none", "required", "named")

    async def close(self) -> None:
        """Release the connections; a caller's own client stays open."""
        await self._transport.aclose()


def _path(model: str, method: str) -> str:
    # Tuned models and those of a publisher bring their folder with them.
    name = model if "/" in model else f"models/{model}"
    return f"/v1beta/{quote(name, errors='replace')}:{method}"
