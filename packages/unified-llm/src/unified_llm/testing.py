"""For tests of programs that call models: an adapter that plays a script, and checks that all of it is played.

with ScriptedAdapter("Hello!", RateLimitError("later"), respond(tool_calls=[("add", {"a": 1})])) as adapter:
    client = Client({"scripted": adapter}, "scripted")
    ...
assert adapter.requests[0].model == "any"
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.response_events import events_of
from unified_llm.spec.errors import SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, Message, Role, ThinkingData, ToolCallData
from unified_llm.spec.request import Request
from unified_llm.spec.response import FinishReason, FinishReasonName, Response, Usage

__all__ = ["ScriptedAdapter", "events_of", "respond"]

Pause = Callable[[], Awaitable[Any]]
Script = Sequence[StreamEvent | Exception | Pause]
Answer = Response | str | Exception | Script
Step = Answer | Callable[[Request], Answer]


class ScriptedAdapter:
    """Answers each request with the next step of a script, streamed or not.

    A step is a Response, a text, an exception to raise, a list of events (which may hold exceptions to raise and
    async functions to await in between), or a function that makes one of these out of the request. Leaving the
    `with` block raises AssertionError if steps are left or a request found none; so does `verify()`. `requests` are
    the requests so far, `open_streams` counts the streams not yet closed, `closed` says whether `close()` was called.
    """

    def __init__(self, *steps: Step, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[Request] = []
        self.open_streams = 0
        self.closed = False
        self._steps = list(steps)
        self._unexpected = 0

    async def complete(self, request: Request) -> Response:
        """The next step as a whole."""
        accumulator = StreamAccumulator()
        match self._next(request):
            case Response() as response:
                return response
            case answer:
                for item in _items(answer):
                    if isinstance(item, Exception):
                        raise item
                    if isinstance(item, StreamEvent):
                        accumulator.process(item)
                    else:
                        await item()
        return accumulator.response()

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """The next step as events."""
        self.open_streams += 1
        try:
            for item in _items(self._next(request)):
                if isinstance(item, StreamEvent):
                    yield item
                elif isinstance(item, Exception):
                    if isinstance(item, SDKError):
                        yield StreamEvent(type=StreamEventType.ERROR, error=item)
                    raise item
                else:
                    await item()
        finally:
            self.open_streams -= 1

    async def close(self) -> None:
        """Note that the client has closed."""
        self.closed = True

    def verify(self) -> None:
        """Raise AssertionError unless exactly the script was played."""
        if self._unexpected:
            raise AssertionError(f"{self._unexpected} requests came after the end of the script")
        if self._steps:
            raise AssertionError(f"{len(self._steps)} steps of the script were not played, first {self._steps[0]!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.verify()

    def _next(self, request: Request) -> Response | Exception | Script:
        self.requests.append(request)
        if not self._steps:
            self._unexpected += 1
            raise AssertionError(f"request {len(self.requests)} came after the end of the script: {request!r}")
        step = self._steps.pop(0)
        answer = step(request) if callable(step) else step
        return respond(answer, model=request.model, provider=self.name) if isinstance(answer, str) else answer


def _items(answer: Response | Exception | Script) -> Script:
    match answer:
        case Response():
            return events_of(answer)
        case Exception():
            return [answer]
        case _:
            return answer


def respond(
    text: str = "",
    *,
    tool_calls: Sequence[tuple[str, dict[str, Any] | str]] = (),
    reasoning: str | None = None,
    finish_reason: FinishReasonName | None = None,
    usage: Usage | None = None,
    id: str = "response-1",
    model: str = "scripted-model",
    provider: str = "scripted",
) -> Response:
    """A response. Tool calls are given as name and arguments (a text stands for what a model wrote) and are numbered
    `call_1`, `call_2` and so on; the finish reason follows from them unless given.
    """
    content = []
    if reasoning is not None:
        content.append(ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=reasoning)))
    if text:
        content.append(ContentPart(kind=ContentKind.TEXT, text=text))
    for number, (name, arguments) in enumerate(tool_calls, start=1):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = ToolCallData.from_text(f"call_{number}", name, raw)
        content.append(ContentPart(kind=ContentKind.TOOL_CALL, tool_call=call))
    return Response(
        id=id,
        model=model,
        provider=provider,
        message=Message(role=Role.ASSISTANT, content=content),
        finish_reason=FinishReason(reason=finish_reason or ("tool_calls" if tool_calls else "stop")),
        usage=usage or Usage(input_tokens=10, output_tokens=5, total_tokens=15),
    )
