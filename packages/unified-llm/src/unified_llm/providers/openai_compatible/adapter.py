"""The adapter for servers that speak Chat Completions (section 7.10)."""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from unified_llm.provider_utils.http import HttpTransport
from unified_llm.providers.openai_compatible.request import build_request
from unified_llm.providers.openai_compatible.response import StreamDecoder, parse_response
from unified_llm.spec.errors import SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    import httpx

_PATH = "/chat/completions"


class OpenAICompatibleAdapter:
    """Chat Completions of a third party, or of a server of your own.

    `base_url` is what the server's documentation calls so, mostly ending in `/v1`; a query in it (`api-version=...` at
    Azure) goes with every request. `api_key` of None sends no key. `timeout` is in seconds. `name` is the provider's
    name in responses and errors, and its key in `provider_options` and `provider_metadata`: give one to each server
    if you use several. An `http_client` passed in stays open on `close()`.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str,
        default_headers: Mapping[str, str] | None = None,
        timeout: float | AdapterTimeout | None = None,
        http_client: "httpx.AsyncClient | None" = None,
        name: str = "openai_compatible",
    ) -> None:
        self._name = name
        url = urlsplit(base_url)
        self._params = dict(parse_qsl(url.query)) or None
        authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = HttpTransport(
            provider=name,
            base_url=urlunsplit(url._replace(query="")).rstrip("/"),
            headers={**authorization, **(default_headers or {})},
            timeout=timeout,
            http_client=http_client,
        )

    @property
    def name(self) -> str:
        """The name given, "openai_compatible" by default."""
        return self._name

    async def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer."""
        wire = build_request(request, provider=self._name)
        answer = await self._http.post(_PATH, wire.body, headers=wire.headers, params=self._params)
        return parse_response(
            answer.body, provider=self._name, model=request.model, headers=answer.headers, warnings=wire.warnings
        )

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield events as they come; a failure is one ERROR event, then raised."""
        try:
            wire = build_request(request, provider=self._name, stream=True)
            async with self._http.stream(_PATH, wire.body, headers=wire.headers, params=self._params) as answer:
                decoder = StreamDecoder(
                    provider=self._name, model=request.model, headers=answer.headers, warnings=wire.warnings
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
        await self._http.aclose()

    def supports_tool_choice(self, mode: str) -> bool:
        """The protocol carries every mode; whether the server heeds it is another matter."""
        return mode in ("auto", "none", "required", "named")
