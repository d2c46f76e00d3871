"""A span a call, by OpenTelemetry's semantic conventions for generative AI. Needs the extra `otel`."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.spec.errors import ConfigurationError, SDKError
from unified_llm.spec.events import PRELUDE, StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

# The conventions' names for providers that they know under another one than we do.
_PROVIDER_NAMES = {
    "gemini": "gcp.gemini",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


class TelemetryMiddleware:
    """Opens a span "chat MODEL" of kind CLIENT for each call, with the attributes `gen_ai.*` of the conventions.

    What is inside the call, such as the spans of an instrumented HTTP client, becomes its child. A failure sets status
    ERROR and `error.type`, the error's class. Prompts, answers and error messages, which may quote them, are not
    recorded. A stream's span lasts until the stream ends; one that its reader leaves ends without a status.

    `tracer_provider` is the global one unless given; `clock` counts seconds. Raises ConfigurationError if
    opentelemetry-api is not installed.
    """

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        try:
            # An optional extra.
            from opentelemetry import trace
        except ImportError as error:
            raise ConfigurationError(
                "TelemetryMiddleware needs opentelemetry-api: pip install 'unified-llm[otel]'", cause=error
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("unified_llm", tracer_provider=tracer_provider)
        self._clock = clock

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """One span for one whole answer."""
        span = self._start(request, stream=False)
        with self._ending(span):
            with self._current(span):
                response = await call_next(request)
            _describe_answer(span, response)
            return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """One span for one stream."""
        span = self._start(request, stream=True)
        started = self._clock()
        waiting = True
        with self._ending(span):
            async with EventStream(call_next(request)) as events:
                while True:
                    # Current only while the stream is read, not in what its reader does in between.
                    with self._current(span):
                        event = await anext(events, None)
                    if event is None:
                        return
                    if waiting and event.type not in PRELUDE:
                        waiting = False
                        span.set_attribute("gen_ai.response.time_to_first_chunk", self._clock() - started)
                    if event.type == StreamEventType.FINISH:
                        _describe_finish(span, event)
                    yield event

    def _start(self, request: Request, *, stream: bool) -> "Span":
        return self._tracer.start_span(
            f"chat {request.model}", kind=self._trace.SpanKind.CLIENT, attributes=_request_attributes(request, stream)
        )

    def _current(self, span: "Span") -> Any:
        return self._trace.use_span(span, record_exception=False, set_status_on_exception=False)

    @contextmanager
    def _ending(self, span: "Span") -> Iterator[None]:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            if isinstance(error, SDKError) and error.status_code is not None:
                span.set_attribute("http.response.status_code", error.status_code)
            span.set_status(self._trace.StatusCode.ERROR)
            raise
        finally:
            span.end()


def _request_attributes(request: Request, stream: bool) -> dict[str, Any]:
    provider = request.provider or ""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDER_NAMES.get(provider, provider),
        "gen_ai.request.model": request.model,
        "gen_ai.request.stream": stream,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.stop_sequences": request.stop_sequences,
    }
    if request.response_format is not None:
        attributes["gen_ai.output.type"] = "text" if request.response_format.type == "text" else "json"
    return {name: value for name, value in attributes.items() if value is not None}


def _describe_finish(span: "Span", event: StreamEvent) -> None:
    if event.response is not None:
        _describe_answer(span, event.response)
        return
    if event.finish_reason is not None:
        span.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason.reason])
    if event.usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", event.usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", event.usage.output_tokens)


def _describe_answer(span: "Span", response: Response) -> None:
    usage = response.usage
    attributes = {
        "gen_ai.response.id": response.id,
        "gen_ai.response.model": response.model,
        "gen_ai.response.finish_reasons": [response.finish_reason.reason],
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})  # type: ignore[misc]
