"""The adapter for servers that speak Chat Completions (section 7.10)."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from unified_llm.provider_utils.http import MAX_RESPONSE_BYTES, HttpTransport
from unified_llm.providers.openai_compatible.request import build_request
from unified_llm.providers.openai_compatible.response import StreamDecoder, parse_response
from unified_llm.spec.errors import ConfigurationError, SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    from unified_llm.provider_utils.http_client import CallerClient

_PATH = "/chat/completions"


class OpenAICompatibleAdapter:
    """Chat Completions of a third party, or of a server of your own.

    `base_url` is what the server's documentation calls so, mostly ending in `/v1`; a query in it (`api-version=...` at
    Azure) goes with every request. `api_key` of None sends no key. `timeout` (seconds), `max_response_bytes` and who
    closes `http_client` stand at `HttpTransport`. `name` is the provider's key in a client, in `provider_options` and
    in `provider_metadata`: give one to each server if you use several. Raises ConfigurationError without `base_url`.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str = "",
        default_headers: Mapping[str, str] | None = None,
        timeout: float | AdapterTimeout | None = None,
        http_client: "CallerClient | None" = None,
        *,
        name: str = "openai_compatible",
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        if not base_url:
            raise ConfigurationError(f"{name} needs a base_url, such as http://127.0.0.1:8000/v1", provider=name)
        self.name = name
        try:
            url = urlsplit(base_url)
        except ValueError as error:
            raise ConfigurationError(f"{name}'s base_url {base_url!r} is none: {error}", provider=name) from error
        self._params = dict(parse_qsl(url.query)) or None
        authorization = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._transport = HttpTransport(
            provider=name,
            base_url=urlunsplit(url._replace(query="")),
            headers={**authorization, **{key.lower(): value for key, value in (default_headers or {}).items()}},
            timeout=timeout,
            http_client=http_client,
            max_response_bytes=max_response_bytes,
        )

    async def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer."""
        wire = build_request(request, provider=self.name)
        answer = await self._transport.post(_PATH, wire.body, headers=wire.headers, params=self._params)
        return parse_response(
            answer.body, provider=self.name, model=request.model, headers=answer.headers, warnings=wire.warnings
        )

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield events as they come; a failure is one ERROR event, then raised."""
        try:
            wire = build_request(request, provider=self.name, stream=True)
            async with self._transport.stream(_PATH, wire.body, headers=wire.headers, params=self._params) as answer:
                decoder = StreamDecoder(
                    provider=self.name, model=request.model, headers=answer.headers, warnings=wire.warnings
                )
                async for frame in answer.events():
                    for event in decoder.feed(frame):
                        yield event
                    if decoder.done:
                        break
            for event in decoder.finish():
                yield event
        except SDKError as error:
            yield StreamEvent(type=StreamEventType.ERROR, error=error)
            raise

    async def close(self) -> None:
        """Close the connections that the adapter opened."""
        await self._transport.aclose()

    def supports_tool_choice(self, mode: str) -> bool:
        """The protocol carries every mode; whether the server heeds it is another matter."""
        return mode in ("auto", "none", "required", "named")
