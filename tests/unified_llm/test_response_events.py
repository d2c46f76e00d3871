"""An answer turned into a stream, and back."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from unified_llm import (
    ContentKind,
    ContentPart,
    FinishReason,
    Message,
    Response,
    Role,
    StreamAccumulator,
    StreamEventType,
    ThinkingData,
    Usage,
)
from unified_llm.provider_utils.response_events import events_of
from unified_llm.spec.messages import ToolCallData

TEXTS = st.text(max_size=20)
PARTS = st.lists(
    st.one_of(
        TEXTS.map(lambda text: ContentPart(kind=ContentKind.TEXT, text=text)),
        TEXTS.map(lambda text: ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=text, signature="s"))),
        st.just(
            ContentPart(
                kind=ContentKind.REDACTED_THINKING, thinking=ThinkingData(text="opaque-redacted", redacted=True)
            )
        ),
        st.just(ContentPart(kind="their_own", provider_metadata={"p": {"a": 1}})),
        st.integers().map(
            lambda number: ContentPart(
                kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text(f"call_{number}", "add", '{"a": 1}')
            )
        ),
    ),
    max_size=5,
    unique_by=lambda part: part.tool_call.id if part.tool_call else object(),
)


def response_of(parts: list[ContentPart]) -> Response:
    return Response(
        id="",
        model="",
        provider="",
        message=Message(role=Role.ASSISTANT, content=parts),
        finish_reason=FinishReason(reason="stop"),
        usage=Usage(input_tokens=1, output_tokens=2, total_tokens=3),
    )


@given(PARTS, st.none() | st.integers(1, 7))
def test_the_events_add_up_to_the_answer(parts: list[ContentPart], chunk: int | None) -> None:
    response = response_of(parts)
    accumulator = StreamAccumulator()
    for event in events_of(response, chunk=chunk):
        accumulator.process(replace(event, response=None))  # what the events tell by themselves
    assert accumulator.response() == response


@given(PARTS)
def test_in_one_piece_there_is_at_most_one_delta_a_part(parts: list[ContentPart]) -> None:
    types = [event.type for event in events_of(response_of(parts), chunk=None)]
    assert types[0] == StreamEventType.STREAM_START
    assert types[-1] == StreamEventType.FINISH
    assert len([kind for kind in types if str(kind).endswith("_delta")]) <= len(parts)


def test_redacted_reasoning_shows_no_text() -> None:
    part = ContentPart(kind=ContentKind.REDACTED_THINKING, thinking=ThinkingData(text="opaque", redacted=True))
    assert all(event.reasoning_delta is None for event in events_of(response_of([part])))
