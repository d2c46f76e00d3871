"""One log record a call (section B.6), by the standard library. Prompts only on request; keys and headers never."""

import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.client.middlewares.redaction import redact_text
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.spec.errors import SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import FinishReason, Response, Usage


class LoggingMiddleware:
    """Logs how each call went: INFO for an answer, WARNING for a failure, INFO for a call that was cancelled or a
    stream that its reader left.

    `logger` is `logging.getLogger("unified_llm")` unless given. The facts are in the text and, for handlers that write
    JSON, as the record's attributes `llm_mode`, `llm_provider`, `llm_model`, `llm_outcome`, `llm_seconds`,
    `llm_input_tokens` and `llm_output_tokens`.

    An error is logged by class, status and code, for its message may quote the prompt. With `content=True` messages
    and answers are logged too, at DEBUG, with what looks like a key taken out. `provider_options`, `metadata`, keys
    and headers are never logged. `clock` counts seconds.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        content: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._logger = logging.getLogger("unified_llm") if logger is None else logger
        self._content = content
        self._clock = clock

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """Log one whole answer."""
        started = self._begin(request)
        try:
            response = await call_next(request)
        except Exception as error:
            self._log_failure(request, "complete", started, error)
            raise
        except BaseException:
            self._log(logging.INFO, request, "complete", started, "cancelled")
            raise
        self._log_answer(request, "complete", started, response.finish_reason, response.usage)
        if self._logs_content:
            self._log_content("answer", response.text)
        return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """Log one stream when it ends, however it ends."""
        started = self._begin(request)
        accumulator = StreamAccumulator() if self._logs_content else None
        ended = False
        try:
            async with EventStream(call_next(request)) as events:
                async for event in events:
                    if accumulator is not None:
                        accumulator.process(event)
                    if event.type == StreamEventType.FINISH:
                        ended = True
                        self._log_answer(request, "stream", started, event.finish_reason, event.usage)
                    yield event
        except Exception as error:
            ended = True
            self._log_failure(request, "stream", started, error)
            raise
        finally:
            if not ended:
                self._log(logging.INFO, request, "stream", started, "left by its reader")
            if accumulator is not None and (partial := accumulator.partial_response) is not None:
                self._log_content("answer", partial.text)

    @property
    def _logs_content(self) -> bool:
        return self._content and self._logger.isEnabledFor(logging.DEBUG)

    def _begin(self, request: Request) -> float:
        if self._logs_content:
            for message in request.messages:
                self._log_content(message.role.value, message.text)
        return self._clock()

    def _log_content(self, what: str, text: str) -> None:
        self._logger.debug("%s: %s", what, redact_text(text))

    def _log_answer(
        self, request: Request, mode: str, started: float, reason: FinishReason | None, usage: Usage | None
    ) -> None:
        facts = {} if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        self._log(logging.INFO, request, mode, started, "finished" if reason is None else reason.reason, **facts)

    def _log_failure(self, request: Request, mode: str, started: float, error: Exception) -> None:
        facts = []
        if isinstance(error, SDKError):
            facts = [str(fact) for fact in (error.status_code, error.error_code) if fact is not None]
        outcome = " ".join([type(error).__name__, *facts])
        self._log(logging.WARNING, request, mode, started, outcome)
        if self._logs_content:
            self._log_content("error", str(error))

    def _log(self, level: int, request: Request, mode: str, started: float, outcome: str, **tokens: int) -> None:
        if not self._logger.isEnabledFor(level):
            return
        seconds = self._clock() - started
        text = f"{mode} {request.provider}/{request.model}: {outcome}, {seconds:.3f} s"
        if tokens:
            text += ", {input_tokens} tokens in, {output_tokens} out".format_map(tokens)
        facts: dict[str, Any] = {
            "mode": mode,
            "provider": request.provider,
            "model": request.model,
            "outcome": outcome,
            "seconds": seconds,
            **tokens,
        }
        self._logger.log(level, "%s", text, extra={f"llm_{name}": value for name, value in facts.items()})
