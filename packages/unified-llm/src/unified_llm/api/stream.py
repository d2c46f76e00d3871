"""stream(): the same as generate(), event by event (sections 4.4 and 5.9)."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from unified_llm.api.call import Call, CallOptions, prepare_call
from unified_llm.api.generate import total_usage
from unified_llm.api.limits import Deadline, Limits
from unified_llm.api.tool_loop import StepResult, continue_conversation
from unified_llm.client.event_stream import EventStream
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.retry import retry
from unified_llm.spec.errors import SDKError, StreamError
from unified_llm.spec.events import PRELUDE, StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response, Usage
from unified_llm.spec.tools import ToolResult


def stream(model: str, prompt: str | None = None, **options: Unpack[CallOptions]) -> "StreamResult":
    """Start a generation whose events are iterated. Nothing is sent before the first is asked for.

    Takes the options of `generate()` and raises ConfigurationError at once if they don't fit together. A model call
    is retried only until its first content.
    """
    return StreamResult(prepare_call(model, prompt, **options))


class StreamResult:
    """The events of a generation: STREAM_START first, STEP_FINISH between steps, FINISH last.

    `steps` grows as steps end. A failure is yielded as one ERROR event and then raised. Exhaust it, `aclose()` it, or
    use it in `async with`. (`await stream(...)` is accepted and changes nothing.)
    """

    def __init__(self, call: Call) -> None:
        self.steps: list[StepResult] = []
        self._accumulator = StreamAccumulator()
        self._unprocessed: list[StreamEvent] = []
        self._failure: SDKError | None = None
        self._events = self._run(call)
        self._finished = False

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[StreamEvent]:
        return self._events.__anext__()

    def __await__(self) -> Generator[Any, None, Self]:
        async def itself() -> Self:
            return self

        return itself().__await__()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """Only the text, as it comes."""
        return self._texts()

    @property
    def partial_response(self) -> Response | None:
        """What the current step has brought so far; None before its first event."""
        for event in self._unprocessed:
            self._accumulator.process(event)
        self._unprocessed.clear()
        return self._accumulator.partial_response

    @property
    def total_usage(self) -> Usage:
        """The usage of the finished steps together."""
        return total_usage(self.steps) if self.steps else Usage()

    async def response(self) -> Response:
        """The last step's response. Reads what is left of the stream first; raises again what ended it early."""
        async for _ in self:
            pass
        if self._failure is not None:
            raise self._failure
        if not self._finished:
            raise StreamError("the stream was closed before its end; partial_response has what came", retryable=False)
        return self.steps[-1].response

    async def aclose(self) -> None:
        """Stop, and release the connection."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _texts(self) -> AsyncIterator[str]:
        async for event in self:
            if event.type == StreamEventType.TEXT_DELTA and event.delta:
                yield event.delta

    async def _run(self, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """The tool loop, as `generate.run_call` has it."""
        try:
            total = call.limits.total_deadline()
            request = call.request
            while True:
                open_step = partial(_open_step, call, request, total)
                step = await call.limits.run(
                    partial(retry, open_step, call.policy, should_retry=call.should_retry), total
                )
                async with step.events:
                    while (event := await step.next_event()).type != StreamEventType.FINISH:
                        self._unprocessed.append(event)
                        if event.type != StreamEventType.STREAM_START or not self.steps:
                            yield event
                    await step.drain()
                await self._finish_step(call, request, event, total)
                if not call.tool_loop.goes_on(self.steps):
                    self._finished = True
                    yield event
                    return
                yield _step_finish(self.steps[-1])
                self._accumulator = StreamAccumulator()
                request = request.model_copy(
                    update={"messages": continue_conversation(request.messages, self.steps[-1])}
                )
        except SDKError as error:
            self._failure = error
            yield StreamEvent(type=StreamEventType.ERROR, error=error)
            raise

    async def _finish_step(self, call: Call, request: Request, event: StreamEvent, total: Deadline | None) -> None:
        self._unprocessed.append(event)
        response = event.response or self.partial_response
        assert response is not None
        results: list[ToolResult] = []
        if call.tool_loop.wants_execution(response, rounds=len(self.steps)):
            execute = partial(call.tool_loop.execute, response.tool_calls, request.messages)
            results = await call.limits.run(execute, total)
        self.steps.append(StepResult(response, results))


def _step_finish(step: StepResult) -> StreamEvent:
    return StreamEvent(
        type=StreamEventType.STEP_FINISH,
        finish_reason=step.finish_reason,
        usage=step.usage,
        response=step.response,
    )


@dataclass(slots=True)
class _OpenStep:
    """One model call whose content has begun to come."""

    events: EventStream
    limits: Limits
    deadline: Deadline | None
    held: list[StreamEvent] = field(default_factory=list)
    failure: SDKError | None = None

    async def next_event(self) -> StreamEvent:
        if not self.held:
            return await self.read_event()
        if self.limits.abort_signal is not None:
            self.limits.abort_signal.raise_if_aborted()
        return self.held.pop(0)

    async def read_event(self) -> StreamEvent:
        """The next event that isn't ERROR: what follows that is an exception, which tells the same."""
        while True:
            try:
                event = await self.limits.run(self.events.__anext__, self.deadline)
            except StopAsyncIteration:
                raise self.failure or StreamError("the stream ended without its finish event") from None
            if event.type != StreamEventType.ERROR:
                return event
            self.failure = event.error

    async def drain(self) -> None:
        """Let the stream run to its end after FINISH, so that its connection can be used again."""
        try:
            while True:
                await self.limits.run(self.events.__anext__, self.deadline)
        except StopAsyncIteration:
            return


async def _open_step(call: Call, request: Request, total: Deadline | None) -> _OpenStep:
    """Open a stream and read up to its first content; this much can be retried."""
    step = _OpenStep(call.client.stream(request), call.limits, call.limits.step_deadline(total))
    try:
        while True:
            event = await step.read_event()
            step.held.append(event)
            if event.type not in PRELUDE:
                return step
    except BaseException:
        await step.events.aclose()
        raise
