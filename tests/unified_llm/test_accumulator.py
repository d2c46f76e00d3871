"""StreamAccumulator, with events of an adapter that puts nothing whole into FINISH."""

import pytest
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.spec.errors import ServerError, StreamError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, ContentPart, Message
from unified_llm.spec.response import FinishReason, Response, Usage, Warning
from unified_llm.spec.tools import ToolCall

CALL = ToolCall(id="t1", name="f")
FINISH = StreamEvent(
    type=StreamEventType.FINISH,
    finish_reason=FinishReason(reason="tool_calls"),
    usage=Usage(input_tokens=1, output_tokens=2, total_tokens=3),
)
EVENTS = [
    StreamEvent(type=StreamEventType.STREAM_START, warnings=(Warning(message="careful"),)),
    StreamEvent(type=StreamEventType.REASONING_START, text_id="0"),
    StreamEvent(type=StreamEventType.REASONING_DELTA, text_id="0", reasoning_delta="hm"),
    StreamEvent(type=StreamEventType.TEXT_START, text_id="1"),
    StreamEvent(type=StreamEventType.TOOL_CALL_START, tool_call=CALL),
    StreamEvent(type=StreamEventType.TEXT_DELTA, text_id="1", delta="Hel"),
    StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, tool_call=CALL, delta='{"x":'),
    StreamEvent(type=StreamEventType.REASONING_END, text_id="0"),
    StreamEvent(type=StreamEventType.TEXT_DELTA, text_id="1", delta="lo"),
    StreamEvent(type=StreamEventType.TOOL_CALL_DELTA, tool_call=CALL, delta=" 1}"),
    StreamEvent(type="something_else"),
    StreamEvent(type=StreamEventType.PROVIDER_EVENT, part=ContentPart(kind="search", provider_metadata={"p": {}})),
    StreamEvent(type=StreamEventType.TEXT_END, text_id="1"),
    StreamEvent(type=StreamEventType.TOOL_CALL_END, tool_call=CALL),
]


def accumulate(*events):
    accumulator = StreamAccumulator()
    for event in events:
        accumulator.process(event)
    return accumulator


def test_segments_are_put_together_in_the_order_of_their_start():
    response = accumulate(*EVENTS, FINISH).response()
    kinds = [str(part.kind) for part in response.message.content]
    assert kinds == ["thinking", "text", "tool_call", "search"]
    assert (response.text, response.reasoning) == ("Hello", "hm")
    assert [call.arguments for call in response.tool_calls] == [{"x": 1}]
    assert (response.finish_reason, response.usage) == (FINISH.finish_reason, FINISH.usage)
    assert [warning.message for warning in response.warnings] == ["careful"]


def test_there_is_no_response_before_the_end_but_a_partial_one():
    assert accumulate().partial_response is None
    accumulator = accumulate(*EVENTS[:6])
    assert accumulator.partial_response.text == "Hel"
    with pytest.raises(StreamError, match="not finished"):
        accumulator.response()


def test_the_response_of_finish_is_the_response():
    whole = Response(
        id="r", model="m", provider="p", message=Message.assistant("x"), finish_reason=FINISH.finish_reason
    )
    accumulator = accumulate(*EVENTS, StreamEvent(type=StreamEventType.FINISH, response=whole))
    assert accumulator.response() is whole
    assert accumulator.partial_response is whole


def test_a_failed_stream_raises_its_error_and_keeps_what_came():
    error = ServerError("overloaded")
    accumulator = accumulate(*EVENTS[:6], StreamEvent(type=StreamEventType.ERROR, error=error))
    with pytest.raises(ServerError) as caught:
        accumulator.response()
    assert caught.value is error
    assert accumulator.partial_response.text == "Hel"


def test_a_stream_of_several_steps_accumulates_to_its_last():
    second = [
        StreamEvent(type=StreamEventType.STREAM_START),
        StreamEvent(type=StreamEventType.TEXT_START, text_id="1"),
        StreamEvent(type=StreamEventType.TEXT_DELTA, text_id="1", delta="done"),
        StreamEvent(type=StreamEventType.TEXT_END, text_id="1", part=ContentPart(kind=ContentKind.TEXT, text="done")),
    ]
    accumulator = accumulate(*EVENTS, FINISH, *second)
    with pytest.raises(StreamError):
        accumulator.response()
    accumulator.process(FINISH)
    assert accumulator.response().message == Message.assistant("done")
