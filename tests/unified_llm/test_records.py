"""Records survive JSON, and say which field is wrong."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from unified_llm import (
    AdapterTimeout,
    AudioData,
    ContentKind,
    ContentPart,
    DocumentData,
    FinishReason,
    ImageData,
    Message,
    RateLimitError,
    RateLimitInfo,
    Request,
    Response,
    ResponseFormat,
    Role,
    ThinkingData,
    Tool,
    ToolCall,
    ToolCallData,
    ToolChoice,
    ToolResultData,
    Usage,
    Warning,
)

ALL_BYTES = bytes(range(256))

PARTS = [
    ContentPart(kind=ContentKind.TEXT, text="é你🙂\u2028"),
    ContentPart(kind=ContentKind.IMAGE, image=ImageData(data=ALL_BYTES, detail="low")),
    ContentPart(kind=ContentKind.IMAGE, image=ImageData(url="./picture.png")),
    ContentPart(kind=ContentKind.AUDIO, audio=AudioData(data=b"", media_type="audio/wav")),
    ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData(data=ALL_BYTES, file_name="a.pdf")),
    ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text("1", "f", '{"x": [1, null]}')),
    ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text("2", "f", "not json")),
    ContentPart(
        kind=ContentKind.TOOL_RESULT,
        tool_result=ToolResultData(tool_call_id="1", content={"a": 1}, image_data=ALL_BYTES),
    ),
    ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text="", signature="sig")),
    ContentPart(kind=ContentKind.REDACTED_THINKING, thinking=ThinkingData(text="opaque", redacted=True)),
    ContentPart(kind="server_tool_use", provider_metadata={"anthropic": {"id": "x", "deep": [1.5]}}),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.kind))
def test_messages_survive_json(part: ContentPart) -> None:
    message = Message(role=Role.ASSISTANT, content=[part, part], name="n")
    assert Message.model_validate_json(message.model_dump_json()) == message


def test_requests_survive_json() -> None:
    request = Request(
        model="m",
        messages=[Message(role=Role.USER, content=PARTS), Message.tool_result("1", [1, 2], is_error=True)],
        provider="p",
        tools=[Tool(name="t", description="d", parameters={"type": "object"})],
        tool_choice=ToolChoice(mode="named", tool_name="t"),
        response_format=ResponseFormat(type="json_schema", json_schema={"type": "object"}),
        stop_sequences=["\n"],
        metadata={"k": "v"},
        provider_options={"anthropic": {"thinking": {"budget_tokens": 1}}},
    )
    assert Request.model_validate_json(request.model_dump_json()) == request


def test_responses_survive_json() -> None:
    response = Response(
        id="r",
        model="m",
        provider="p",
        message=Message(role=Role.ASSISTANT, content=PARTS),
        finish_reason=FinishReason(reason="tool_calls", raw="tool_use"),
        usage=Usage(input_tokens=1, output_tokens=2, total_tokens=3, cache_read_tokens=0, raw={"x": 1}),
        raw={"body": [None]},
        warnings=[Warning(message="w", code="c")],
        rate_limit=RateLimitInfo.model_validate({"requests_limit": 5, "reset_at": "2026-01-02T03:04:05Z"}),
    )
    assert response.tool_calls[1].parse_error is not None
    assert Response.model_validate_json(response.model_dump_json()) == response


@given(st.binary())
def test_any_bytes_survive_json(data: bytes) -> None:
    image = ImageData(data=data)
    assert ImageData.model_validate_json(image.model_dump_json()) == image


def test_a_tools_function_is_not_serialised() -> None:
    tool = Tool(name="t", description="d", execute=lambda: None)
    assert "execute" not in tool.model_dump()
    assert Tool.model_validate_json(tool.model_dump_json()).execute is None


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (Message, {"role": "boss", "content": "x"}, "role"),
        (Message, {"role": "user"}, "content"),
        (Message, {"role": "user", "content": "x", "colour": "red"}, "colour"),
        (ContentPart, {"kind": "image"}, "needs its field 'image'"),
        (ImageData, {}, "exactly one of url and data"),
        (ImageData, {"url": "a", "data": b"b"}, "exactly one of url and data"),
        (Tool, {"name": "1st", "description": "d"}, "tool name '1st'"),
        (Tool, {"name": "a.b", "description": "d"}, "tool name 'a.b'"),
        (Tool, {"name": "", "description": "d"}, "tool name ''"),
        (Tool, {"name": "x" * 65, "description": "d"}, "64 characters"),
        (Tool, {"name": "t", "description": "d", "parameters": {"type": "array"}}, '"type": "object"'),
        (ToolChoice, {"mode": "named"}, "tool_name goes with mode 'named'"),
        (ResponseFormat, {"type": "json_schema"}, "json_schema"),
        (Request, {"model": "m", "messages": [], "temprature": 1}, "temprature"),
    ],
)
def test_what_is_wrong_is_named(kind: Any, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        kind(**arguments)
    assert named in str(caught.value)


def test_records_are_immutable() -> None:
    message = Message.user("hi")
    with pytest.raises(ValidationError):
        message.role = Role.SYSTEM  # type: ignore[misc]


COUNT = st.none() | st.integers(0, 10**9)
USAGE = st.builds(Usage, input_tokens=st.integers(0, 10**9), reasoning_tokens=COUNT, cache_read_tokens=COUNT)


@given(USAGE, USAGE)
def test_usages_add_field_by_field(a: Usage, b: Usage) -> None:
    total = a + b
    assert total.input_tokens == a.input_tokens + b.input_tokens
    for field in ("reasoning_tokens", "cache_read_tokens", "cache_write_tokens"):
        left, right = getattr(a, field), getattr(b, field)
        expected = None if left is None and right is None else (left or 0) + (right or 0)
        assert getattr(total, field) == expected


def test_text_and_calls_are_read_out_of_a_response() -> None:
    response = Response(
        id="r",
        model="m",
        provider="p",
        message=Message(role=Role.ASSISTANT, content=[*PARTS[:1], *PARTS[5:7], *PARTS[:1]]),
        finish_reason=FinishReason(reason="tool_calls"),
    )
    assert response.text == "é你🙂\u2028" * 2
    assert response.tool_calls[0] == ToolCall(
        id="1", name="f", arguments={"x": [1, None]}, raw_arguments='{"x": [1, null]}'
    )
    assert response.tool_calls[1].arguments == {}
    assert response.reasoning is None


@pytest.mark.parametrize("options", [{}, {"indent": 2}, {"exclude_none": True}])
def test_half_a_character_can_be_written(options: dict[str, Any]) -> None:
    message = Message.tool_result("c", {"name \udcff": "\udcff \U0001f600"})
    text = message.model_dump_json(**options)
    text.encode()
    back = Message.model_validate_json(text)
    assert back == Message.tool_result("c", {"name \ufffd": "\ufffd \U0001f600"})
    assert text == back.model_dump_json(**options)


def test_what_is_no_json_is_still_refused() -> None:
    request = Request(model="m", messages=[Message.user("\udcff")], provider_options={"x": object()})
    with pytest.raises(PydanticSerializationError):
        request.model_dump_json()


class Stuck(Exception):
    """An exception that can't go to another process, as those of HTTP libraries can't."""

    def __reduce__(self) -> str:
        raise TypeError("no")


def test_an_error_goes_to_another_process_whatever_caused_it() -> None:
    error = RateLimitError("slow", cause=Stuck("inner"), provider="p", status_code=429, retry_after=3, raw={"a": 1})
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is RateLimitError
    assert (back.message, back.provider, back.status_code, back.retry_after) == ("slow", "p", 429, 3)
    assert "Stuck: inner" in str(back.cause)
    kept = pickle.loads(pickle.dumps(RateLimitError("slow", cause=ValueError("inner"))))
    assert repr(kept.cause) == "ValueError('inner')"


def test_an_adapter_waits_as_long_as_the_specification_says() -> None:
    limits = AdapterTimeout()
    assert (limits.connect, limits.request, limits.stream_read) == (10, 120, 30)
