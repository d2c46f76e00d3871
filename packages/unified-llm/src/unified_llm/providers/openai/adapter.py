"""OpenAIAdapter: endpoint, authentication, `complete()` and `stream()` over the Responses API."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from unified_llm.provider_utils.http import MAX_RESPONSE_BYTES, HttpTransport
from unified_llm.providers.openai.request import build_request
from unified_llm.providers.openai.response import StreamDecoder, parse_response
from unified_llm.spec.errors import ConfigurationError, SDKError, ServerError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    from unified_llm.provider_utils.http_client import CallerClient

_PATH = "/responses"


class OpenAIAdapter:
    """OpenAI's models, or any server that speaks the Responses API.

    `base_url` mostly ends in `/v1`. `organization` and `project` say who pays, for keys that may use several. `timeout`
    (seconds), `max_response_bytes` and who closes `http_client` stand at `HttpTransport`. `name` is the provider's key
    in a client, in `provider_options` and in `provider_metadata`: give another server another one, since reasoning of
    one can't be read by the other. What the adapter does with `provider_options` stands at `build_request`.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = "https://api.openai.com/v1",
        default_headers: Mapping[str, str] | None = None,
        timeout: float | AdapterTimeout | None = None,
        http_client: "CallerClient | None" = None,
        *,
        organization: str | None = None,
        project: str | None = None,
        name: str = "openai",
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.name = name
        self._api_key = api_key
        headers = {
            "authorization": f"Bearer {api_key}",
            "openai-organization": organization,
            "openai-project": project,
            **{key.lower(): value for key, value in (default_headers or {}).items()},
        }
        self._transport = HttpTransport(
            provider=name,
            base_url=base_url,
            headers={key: value for key, value in headers.items() if value is not None},
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
        answer = await self._transport.post(_PATH, wire.body, headers=wire.headers)
        try:
            # Some servers write an empty list as null.
            if not isinstance(answer.body["output"], list | None):
                raise TypeError("output is not a list")
            return parse_response(
                answer.body,
                provider=self.name,
                model=request.model,
                headers=answer.headers,
                warnings=wire.warnings,
            )
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ServerError(
                f"{self.name} answered {answer.status} with JSON that is no response: {error}",
                cause=error,
                provider=self.name,
                status_code=answer.status,
                raw=answer.body,
            ) from error

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """The answer as it comes; close the generator to stop early. A failure is yielded as ERROR, then raised."""
        try:
            wire = build_request(request, provider=self.name, stream=True)
            async with self._transport.stream(_PATH, wire.body, headers=wire.headers) as stream:
                decoder = StreamDecoder(
                    provider=self.name, model=request.model, headers=stream.headers, warnings=wire.warnings
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
