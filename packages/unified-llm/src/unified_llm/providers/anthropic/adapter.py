"""AnthropicAdapter: endpoint, authentication, `complete()` and `stream()` over the Messages API."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from unified_llm.provider_utils.http import MAX_RESPONSE_BYTES, HttpTransport
from unified_llm.providers.anthropic.request import WireRequest, build_request
from unified_llm.providers.anthropic.response import StreamDecoder, parse_response
from unified_llm.spec.errors import ConfigurationError, SDKError, ServerError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    from unified_llm.provider_utils.http_client import CallerClient

API_VERSION = "2023-06-01"
_PATH = "/v1/messages"


class AnthropicAdapter:
    """Claude, or any server that speaks the Messages API.

    `base_url` is the host. `timeout` (seconds), `max_response_bytes` and who closes `http_client` stand at
    `HttpTransport`. `name` is the provider's key in a client, in `provider_options` and in `provider_metadata`: give
    another instance another one. What the adapter does with `provider_options` and prompt caching stands at
    `build_request` and in `caching`.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = "https://api.anthropic.com",
        default_headers: Mapping[str, str] | None = None,
        timeout: float | AdapterTimeout | None = None,
        http_client: "CallerClient | None" = None,
        *,
        name: str = "anthropic",
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.name = name
        self._api_key = api_key
        extra = {key.lower(): value for key, value in (default_headers or {}).items()}
        self._betas = extra.pop("anthropic-beta", None)
        self._transport = HttpTransport(
            provider=name,
            base_url=base_url.rstrip("/").removesuffix("/v1"),
            headers={"x-api-key": api_key, "anthropic-version": API_VERSION, **extra},
            timeout=timeout,
            http_client=http_client,
            max_response_bytes=max_response_bytes,
        )

    async def initialize(self) -> None:
        """Raise ConfigurationError if there is no key."""
        if not self._api_key:
            raise ConfigurationError(f"{self.name} needs an api_key, and it is empty", provider=self.name)

    async def complete(self, request: Request) -> Response:
        """One answer. Raises the errors of section 6.1."""
        wire = build_request(request, provider=self.name)
        answer = await self._transport.post(_PATH, wire.body, headers=self._headers(wire))
        try:
            # Some servers write an empty list as null.
            if not isinstance(answer.body["content"], list | None):
                raise TypeError("content is not a list")
            return parse_response(
                answer.body,
                provider=self.name,
                headers=answer.headers,
                warnings=wire.warnings,
                answer_tool=wire.answer_tool,
            )
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ServerError(
                f"{self.name} answered {answer.status} with JSON that is no message: {error}",
                cause=error,
                provider=self.name,
                status_code=answer.status,
                raw=answer.body,
            ) from error

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """The answer as it comes; close the generator to stop early. A failure is yielded as ERROR, then raised."""
        try:
            wire = build_request(request, provider=self.name, stream=True)
            async with self._transport.stream(_PATH, wire.body, headers=self._headers(wire)) as stream:
                decoder = StreamDecoder(
                    provider=self.name, headers=stream.headers, warnings=wire.warnings, answer_tool=wire.answer_tool
                )
                async for server_event in stream.events():
                    for event in decoder.feed(server_event):
                        yield event
                    if decoder.finished:
                        break
                decoder.finish()
        except SDKError as error:
            yield StreamEvent(type=StreamEventType.ERROR, error=error)
            raise

    def supports_tool_choice(self, mode: str) -> bool:
        """Every mode of section 5.3 is supported."""
        return mode in ("auto", "none", "required", "named")

    async def close(self) -> None:
        """Release the connections; a caller's own client stays open."""
        await self._transport.aclose()

    def _headers(self, wire: WireRequest) -> dict[str, str]:
        if self._betas is None:
            return wire.headers
        return {
            **wire.headers,
            "anthropic-beta": ",".join(filter(None, [self._betas, wire.headers.get("anthropic-beta")])),
        }
