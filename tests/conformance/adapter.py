"""What every ProviderAdapter must do (sections 2.4, 3.13, 3.14, 4.7 and 7).

Each function takes an adapter that is ready to answer, and asserts. `ALL_ANSWERING` are the ones for an adapter that
answers `request` with text, `check_tool_calls` for one that answers with calls, `check_failure` for one that fails. An
implementation of your own is tested by calling them; nothing here knows a particular adapter.
"""

from collections.abc import AsyncIterator
from typing import Any

import anyio
from unified_llm import (
    Client,
    ContentKind,
    ProviderAdapter,
    Request,
    Response,
    Role,
    SDKError,
    StreamAccumulator,
    StreamEvent,
    StreamEventType,
)

SEGMENTS = {
    StreamEventType.TEXT_START: (StreamEventType.TEXT_DELTA, StreamEventType.TEXT_END),
    StreamEventType.REASONING_START: (StreamEventType.REASONING_DELTA, StreamEventType.REASONING_END),
    StreamEventType.TOOL_CALL_START: (StreamEventType.TOOL_CALL_DELTA, StreamEventType.TOOL_CALL_END),
}


async def check_complete(adapter: ProviderAdapter, request: Request) -> None:
    """The answer is filled in, and survives JSON."""
    assert isinstance(adapter, ProviderAdapter)
    _check_response(adapter, await adapter.complete(request))


async def check_identity(adapter: ProviderAdapter, request: Request) -> None:
    """The answer has its provider's id, which a support desk asks for. Leave this out where a server gives none."""
    assert (await adapter.complete(request)).id


async def check_stream(adapter: ProviderAdapter, request: Request) -> None:
    """STREAM_START first, FINISH last, segments whole and in order, and everything adds up to the response."""
    events = [event async for event in adapter.stream(request)]
    kinds = [event.type for event in events]
    assert kinds[0] == StreamEventType.STREAM_START
    assert kinds[-1] == StreamEventType.FINISH
    assert kinds.count(StreamEventType.STREAM_START) == kinds.count(StreamEventType.FINISH) == 1
    assert StreamEventType.ERROR not in kinds
    _check_segments(events)
    response = events[-1].response
    assert response is not None
    assert events[-1].finish_reason == response.finish_reason
    assert events[-1].usage == response.usage
    _check_response(adapter, response)
    deltas = [event.delta or "" for event in events if event.type == StreamEventType.TEXT_DELTA]
    assert "".join(deltas) == response.text
    accumulator = StreamAccumulator()
    for event in events:
        accumulator.process(event)
    assert accumulator.response() == response


async def check_early_close(adapter: ProviderAdapter, request: Request) -> None:
    """A stream can be closed before its end, more than once, and the adapter works on."""
    events: Any = adapter.stream(request)
    async for event in events:
        if event.type != StreamEventType.STREAM_START:
            break
    with anyio.fail_after(5):
        await events.aclose()
        await events.aclose()
    assert [event async for event in events] == []
    await check_complete(adapter, request)


async def check_unread_stream(adapter: ProviderAdapter, request: Request) -> None:
    """A stream that is never read can be closed."""
    events: Any = adapter.stream(request)
    with anyio.fail_after(5):
        await events.aclose()


async def check_cancellation(adapter: ProviderAdapter, request: Request) -> None:
    """A cancelled call ends at once, is not turned into an error, and the adapter works on."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await adapter.complete(request)
        await anyio.lowlevel.checkpoint()
    events: Any = adapter.stream(request)
    with anyio.CancelScope() as scope:
        try:
            async for _ in events:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        finally:
            with anyio.CancelScope(shield=True), anyio.fail_after(5):
                await events.aclose()
    assert scope.cancelled_caught
    await check_complete(adapter, request)


async def check_concurrency(adapter: ProviderAdapter, request: Request) -> None:
    """Many calls at once, streamed and not, are independent."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(check_complete, adapter, request)
                tasks.start_soon(check_stream, adapter, request)


async def check_in_client(adapter: ProviderAdapter, request: Request) -> None:
    """A client can use it and close it; closing twice is harmless."""
    client = Client({"it": adapter}, "it")
    _check_response(adapter, await client.complete(request))
    await client.close()
    await client.close()


ALL_ANSWERING = [
    check_complete,
    check_identity,
    check_stream,
    check_early_close,
    check_unread_stream,
    check_cancellation,
    check_concurrency,
    check_in_client,
]


async def check_tool_calls(adapter: ProviderAdapter, request: Request) -> None:
    """Calls have unique ids and parsed arguments, streamed and not alike."""
    response = await adapter.complete(request)
    assert response.finish_reason.reason == "tool_calls"
    assert response.tool_calls
    ids = [call.id for call in response.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert all(isinstance(call.arguments, dict) for call in response.tool_calls)
    await check_stream(adapter, request)


async def check_failure(adapter: ProviderAdapter, request: Request, kind: type[SDKError]) -> None:
    """`complete` raises exactly that class; `stream` yields it as its one ERROR event, and raises it."""
    try:
        await adapter.complete(request)
        failure = None
    except SDKError as error:
        failure = error
    assert type(failure) is kind, failure
    events: list[StreamEvent] = []
    raised = await _collect(adapter.stream(request), events)
    assert type(raised) is kind, raised
    errors = [event.error for event in events if event.type == StreamEventType.ERROR]
    assert errors == [raised]
    assert events[-1].type == StreamEventType.ERROR


async def _collect(stream: AsyncIterator[StreamEvent], events: list[StreamEvent]) -> SDKError | None:
    try:
        async for event in stream:
            events.append(event)  # noqa: PERF401  (what came before the error is wanted)
    except SDKError as error:
        return error
    return None


def _check_response(adapter: ProviderAdapter, response: Response) -> None:
    assert response.model
    assert response.provider == adapter.name
    assert response.message.role is Role.ASSISTANT
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert (response.finish_reason.reason == "tool_calls") == bool(response.tool_calls)
    assert Response.model_validate_json(response.model_dump_json()) == response


def _check_segments(events: list[StreamEvent]) -> None:
    """Every segment starts once, has its deltas, and ends once with the whole part."""
    open_segments: dict[tuple[Any, Any], Any] = {}
    for event in events:
        key = event.tool_call.id if event.tool_call is not None else event.text_id
        for start, (delta, end) in SEGMENTS.items():
            if event.type == start:
                assert key
                assert (start, key) not in open_segments
                open_segments[start, key] = ""
            elif event.type == delta:
                open_segments[start, key] += event.delta or event.reasoning_delta or ""
            elif event.type == end:
                text = open_segments.pop((start, key))
                assert event.part is not None
                if event.part.kind == ContentKind.TEXT:
                    assert event.part.text == text
                elif event.part.kind == ContentKind.THINKING:
                    assert event.part.thinking is not None
                    assert event.part.thinking.text == text
                else:
                    assert event.tool_call is not None
    assert open_segments == {}
