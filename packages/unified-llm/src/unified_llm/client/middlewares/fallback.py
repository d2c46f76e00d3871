"""Asking another model when one fails."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from textwrap import shorten

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.spec.errors import (
    ConfigurationError,
    NetworkError,
    QuotaExceededError,
    RateLimitError,
    RequestTimeoutError,
    SDKError,
    ServerError,
    StreamError,
)
from unified_llm.spec.events import PRELUDE, StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response, Warning

# What another provider may not suffer from. What is wrong with the request itself is wrong everywhere.
PROVIDER_FAULTS: tuple[type[SDKError], ...] = (
    RateLimitError,
    ServerError,
    NetworkError,
    StreamError,
    RequestTimeoutError,
    QuotaExceededError,
)


class FallbackMiddleware:
    """When a call fails with one of the errors in `on`, makes it with the next of `fallbacks`, and so on in order.

    A fallback is a provider of the client and a model there, such as `("openai", "gpt-5.2")`; the rest of the request
    stays as it is, and `provider_options` of either provider reach only that one. The answer then has a Warning with
    `code="fallback"` that says what failed and who answered. If all fail, the last error is raised, with a note for
    each failure before it; an error that isn't in `on` is raised at once.

    A stream falls back only before its first content, since what a reader has seen can't be taken back. Until then
    its events are held back.
    """

    def __init__(
        self, fallbacks: Sequence[tuple[str, str]], *, on: tuple[type[SDKError], ...] = PROVIDER_FAULTS
    ) -> None:
        if not fallbacks:
            raise ConfigurationError('fallbacks is empty; name at least one, such as ("openai", "gpt-5.2")')
        for index, fallback in enumerate(fallbacks):
            if isinstance(fallback, str) or len(fallback) != 2:
                raise ConfigurationError(f"fallbacks[{index}] must be a provider and a model, but is {fallback!r}")
        self._fallbacks = tuple(fallbacks)
        self._on = on

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """The first answer that can be had."""
        failures: list[SDKError] = []
        candidates = self._candidates(request)
        for candidate in candidates:
            try:
                response = await call_next(candidate)
            except SDKError as error:
                if not self._goes_on(error, failures, candidates):
                    raise
                continue
            return _with_warnings(response, _warnings(candidates, failures))
        raise AssertionError("the last candidate neither answered nor raised")

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """The first stream that has something to say."""
        failures: list[SDKError] = []
        candidates = self._candidates(request)
        for candidate in candidates:
            async with EventStream(call_next(candidate)) as events:
                try:
                    held = await _read_prelude(events)
                except SDKError as error:
                    if not self._goes_on(error, failures, candidates):
                        yield StreamEvent(type=StreamEventType.ERROR, error=error)
                        raise
                    continue
                warnings = _warnings(candidates, failures)
                for event in held:
                    yield _event_with_warnings(event, warnings)
                async for event in events:
                    yield _event_with_warnings(event, warnings)
                return

    def _candidates(self, request: Request) -> list[Request]:
        others = (
            request.model_copy(update={"provider": provider, "model": model})
            for provider, model in self._fallbacks
            if (provider, model) != (request.provider, request.model)
        )
        return [request, *others]

    def _goes_on(self, error: SDKError, failures: list[SDKError], candidates: Sequence[Request]) -> bool:
        """Note the failure; whether there is another candidate to try after it."""
        failures.append(error)
        if isinstance(error, self._on) and len(failures) < len(candidates):
            return True
        for candidate, earlier in zip(candidates, failures[:-1], strict=False):
            error.add_note(f"before that, {_describe(candidate, earlier)}")
        return False


async def _read_prelude(events: EventStream) -> list[StreamEvent]:
    """Everything up to the first event with content; raises the stream's error if it fails before."""
    held = []
    async for event in events:
        if event.type == StreamEventType.ERROR and event.error is not None:
            raise event.error
        held.append(event)
        if event.type not in PRELUDE:
            break
    return held


def _describe(request: Request, error: SDKError) -> str:
    return f"{request.provider}/{request.model} failed with {type(error).__name__}: {shorten(error.message, 200)}"


def _warnings(candidates: Sequence[Request], failures: Sequence[SDKError]) -> tuple[Warning, ...]:
    if not failures:
        return ()
    answering = candidates[len(failures)]
    story = "; ".join(_describe(candidate, error) for candidate, error in zip(candidates, failures, strict=False))
    return (Warning(message=f"{story}; {answering.provider}/{answering.model} answered instead", code="fallback"),)


def _with_warnings(response: Response, warnings: tuple[Warning, ...]) -> Response:
    return response.model_copy(update={"warnings": [*warnings, *response.warnings]}) if warnings else response


def _event_with_warnings(event: StreamEvent, warnings: tuple[Warning, ...]) -> StreamEvent:
    if not warnings:
        return event
    if event.type == StreamEventType.STREAM_START:
        return replace(event, warnings=(*warnings, *event.warnings))
    if event.type == StreamEventType.FINISH and event.response is not None:
        return replace(event, response=_with_warnings(event.response, warnings))
    return event
