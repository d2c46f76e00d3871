"""One call to the model: streamed where that is possible, retried where that is safe."""

from unified_llm import Request, Response, SDKError, StreamError, StreamEvent, StreamEventType, retry

from agent_loop.events import EventKind
from agent_loop.session_record import SessionRecord

_DELTAS = frozenset({StreamEventType.TEXT_DELTA, StreamEventType.REASONING_DELTA, StreamEventType.TOOL_CALL_DELTA})


async def call_model(session: SessionRecord, request: Request) -> Response:
    """The answer, with ASSISTANT_TEXT_START and, when streaming, ASSISTANT_TEXT_DELTA events on the way.

    Transient errors are retried by the session's policy; a stream only until its first delta, for what has been shown
    can't be taken back. Raises the last error.
    """
    return await _ModelCall(session, request).run()


class _ModelCall:
    def __init__(self, session: SessionRecord, request: Request) -> None:
        self._session = session
        self._request = request
        self._text_begun = False
        self._delivered = False

    async def run(self) -> Response:
        attempt = self._stream if self._can_stream() else self._complete
        response = await retry(attempt, self._session.retry_policy, should_retry=self._should_retry)
        self._begin_text()
        return response

    def _can_stream(self) -> bool:
        if not (self._session.config.stream and self._session.provider_profile.supports_streaming):
            return False
        # An adapter, or what a host puts in the client's place, may know only `complete`.
        client = self._session.llm_client
        adapter = getattr(client, "providers", {}).get(self._request.provider, client)
        return hasattr(client, "stream") and hasattr(adapter, "stream")

    def _should_retry(self, error: Exception) -> bool:
        return isinstance(error, SDKError) and error.retryable and not self._delivered

    async def _complete(self) -> Response:
        return await self._session.llm_client.complete(self._request)

    async def _stream(self) -> Response:
        response: Response | None = None
        async with self._session.llm_client.stream(self._request) as events:
            async for event in events:
                self._report(event)
                response = event.response or response
        if response is None:
            raise StreamError("the stream ended without a response", provider=self._request.provider)
        return response

    def _report(self, event: StreamEvent) -> None:
        self._delivered = self._delivered or event.type in _DELTAS
        if event.type == StreamEventType.TEXT_DELTA and event.delta:
            self._begin_text()
            self._session.emit(EventKind.ASSISTANT_TEXT_DELTA, delta=event.delta)

    def _begin_text(self) -> None:
        if not self._text_begun:
            self._text_begun = True
            self._session.emit(EventKind.ASSISTANT_TEXT_START)
