"""Request -> the body of a Chat Completions call."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.providers.openai_compatible.request import build_request
from unified_llm.providers.openai_compatible.response import parse_response
from unified_llm.spec.errors import ConfigurationError, InvalidRequestError
from unified_llm.spec.messages import (
    AudioData,
    ContentKind,
    ContentPart,
    DocumentData,
    ImageData,
    Message,
    Role,
    ThinkingData,
    ToolCallData,
)
from unified_llm.spec.request import Request, ResponseFormat
from unified_llm.spec.tools import Tool

PNG = b"\x89PNG\r\n\x1a\n"
WEATHER = Tool(name="weather", description="Tells the weather", parameters={"type": "object", "properties": {}})


def build(*messages, stream=False, **fields):
    request = Request(model="m", messages=list(messages) or [Message.user("Hi")], **fields)
    return build_request(request, provider="here", stream=stream)


def sent(*messages, **fields):
    return build(*messages, **fields).body["messages"]


def text(value):
    return ContentPart(kind=ContentKind.TEXT, text=value)


def call(id, name="weather", raw="{}"):
    return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData.from_text(id, name, raw))


def test_the_smallest_request_has_nothing_but_model_and_messages():
    wire = build(Message.user("Hi"))
    assert wire.body == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert (wire.headers, wire.warnings) == ({}, ())


def test_a_streamed_request_asks_for_usage():
    body = build(stream=True).body
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_the_settings_have_the_names_of_the_protocol():
    body = build(
        temperature=0.0, top_p=0.5, max_tokens=7, stop_sequences=["END"], reasoning_effort="high", tools=[WEATHER]
    ).body
    assert body["temperature"] == 0.0
    assert body["top_p"] == 0.5
    assert body["max_tokens"] == 7
    assert body["stop"] == ["END"]
    assert body["reasoning_effort"] == "high"
    function = {"name": "weather", "description": "Tells the weather", "parameters": WEATHER.parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"mode": "named", "tool_name": "weather"}, {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_every_tool_choice(choice, wire):
    assert build(tools=[WEATHER], tool_choice=choice).body["tool_choice"] == wire


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_without_tools_is_not_sent(choice):
    assert "tool_choice" not in build(tool_choice=choice).body


def test_response_formats():
    schema = {"title": "A person, maybe", "type": "object", "properties": {}}
    assert "response_format" not in build(response_format=ResponseFormat(type="text")).body
    assert build(response_format=ResponseFormat(type="json")).body["response_format"] == {"type": "json_object"}
    format = ResponseFormat(type="json_schema", json_schema=schema, strict=True)
    assert build(response_format=format).body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "A_person_maybe", "schema": schema, "strict": True},
    }
    untitled = ResponseFormat(type="json_schema", json_schema={"type": "object"})
    assert build(response_format=untitled).body["response_format"]["json_schema"]["name"] == "response"


def test_options_override_the_body_and_add_headers():
    options = {"temperature": 1, "seed": 3, "extra_headers": {"x-title": "t"}}
    wire = build(temperature=0.0, provider_options={"here": options, "elsewhere": {"top_k": 1}})
    assert (wire.body["temperature"], wire.body["seed"]) == (1, 3)
    assert "top_k" not in wire.body
    assert "extra_headers" not in wire.body
    assert wire.headers == {"x-title": "t"}
    assert "extra_headers" in options


def test_metadata_is_left_out_with_a_warning():
    wire = build(metadata={"user": "u"})
    assert "metadata" not in wire.body
    assert [warning.code for warning in wire.warnings] == ["metadata_dropped"]


def test_roles():
    messages = sent(
        Message.system([text("One."), text("Two.")]),
        Message.developer("Three."),
        Message.user([text("Four."), text("Five.")]),
        Message.assistant([text("Six"), text("Seven")]),
        Message(role=Role.USER, content="Eight", name="ann"),
    )
    assert messages == [
        {"role": "system", "content": "One.\n\nTwo."},
        {"role": "system", "content": "Three."},
        {"role": "user", "content": [{"type": "text", "text": "Four."}, {"type": "text", "text": "Five."}]},
        {"role": "assistant", "content": "SixSeven"},
        {"role": "user", "content": "Eight", "name": "ann"},
    ]


def test_a_tool_round_trip():
    messages = sent(
        Message.user("Weather?"),
        Message.assistant([text("Let me see."), call("a", raw='{"city": "Paris"}'), call("b")]),
        Message.tool_result("a", "sunny"),
        Message.tool_result("b", {"sky": "grün"}),
        Message.assistant("Fine."),
    )
    assert messages[1] == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
            {"id": "b", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        ],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "a", "content": "sunny"}
    assert messages[3] == {"role": "tool", "tool_call_id": "b", "content": '{"sky": "grün"}'}


@pytest.mark.parametrize("raw", ["", "  ", '{"path": "x', "[1,2]", "null"])
def test_arguments_that_are_no_object_go_back_as_an_empty_one(raw):
    messages = sent(Message.user("Go"), Message.assistant([call("a", raw=raw)]), Message.tool_result("a", "no"))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert messages[1]["content"] is None


def test_arguments_without_the_original_text_are_written_out():
    part = ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id="a", name="weather", arguments={"q": "é"}))
    messages = sent(Message.user("Go"), Message.assistant([part]), Message.tool_result("a", "no"))
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {"q": "é"}


def test_a_failed_tool_says_so_in_words():
    history = (Message.user("Go"), Message.assistant([call("a"), call("b")]))
    messages = sent(
        *history, Message.tool_result("a", "no such city", True), Message.tool_result("b", "Error: none", True)
    )
    assert [message["content"] for message in messages[2:]] == ["Error: no such city", "Error: none"]


def test_results_stand_right_behind_their_calls():
    messages = sent(
        Message.user("Go"),
        Message.assistant([call("a"), call("b")]),
        Message.tool_result("a", "1"),
        Message.user("By the way"),
        Message.tool_result("b", "2"),
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]


def test_the_image_of_a_result_follows_as_a_message_of_the_user():
    messages = sent(
        Message.user("Look"),
        Message.assistant([call("a"), call("b")]),
        Message.tool_result("a", "a picture", image_data=PNG, image_media_type="image/png"),
        Message.tool_result("b", "done"),
        Message.assistant("I see."),
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    label, image = messages[4]["content"]
    assert "a" in label["text"]
    assert image["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_an_incomplete_history_is_repaired_with_warnings():
    wire = build(Message.user("Go"), Message.assistant([call("a")]), Message.user(""), Message.user("Well?"))
    assert [message["role"] for message in wire.body["messages"]] == ["user", "assistant", "tool", "user"]
    assert {warning.code for warning in wire.warnings} == {"missing_tool_result", "empty_text"}


def test_images_by_url_bytes_and_path(tmp_path):
    file = tmp_path / "picture.jpg"
    file.write_bytes(b"jpeg")

    def url_of(**fields):
        part = ContentPart(kind=ContentKind.IMAGE, image=ImageData(**fields))
        [message] = sent(Message.user([text("What?"), part]))
        return message["content"][1]["image_url"]

    assert url_of(url="https://e.org/a.png", detail="low") == {"url": "https://e.org/a.png", "detail": "low"}
    assert url_of(data=PNG)["url"].startswith("data:image/png;base64,")
    assert url_of(data=b"jpeg", media_type="image/jpg")["url"].startswith("data:image/jpeg;base64,")
    assert url_of(url=str(file)) == {"url": f"data:image/jpeg;base64,{base64.b64encode(b'jpeg').decode()}"}


def test_media_that_can_not_be_sent_is_refused_before_anything_is():
    image = ContentPart(kind=ContentKind.IMAGE, image=ImageData(data=b"<svg/>", media_type="image/svg+xml"))
    missing = ContentPart(kind=ContentKind.IMAGE, image=ImageData(url="./no-such-file.png"))
    audio = ContentPart(kind=ContentKind.AUDIO, audio=AudioData(url="https://e.org/a.wav"))
    document = ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData(url="https://e.org/a.pdf"))
    for part, error, words in (
        (image, InvalidRequestError, "svg"),
        (missing, ConfigurationError, "no-such-file"),
        (audio, InvalidRequestError, "audio"),
        (document, InvalidRequestError, "document"),
    ):
        with pytest.raises(error, match=words):
            sent(Message.user([part]))


@pytest.mark.parametrize(
    ("media_type", "format"), [("audio/wav", "wav"), ("audio/x-wav", "wav"), ("audio/mpeg", "mp3")]
)
def test_audio_and_documents_as_bytes(media_type, format):
    audio = ContentPart(kind=ContentKind.AUDIO, audio=AudioData(data=b"a", media_type=media_type))
    document = ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData(data=b"d", file_name="d.pdf"))
    [message] = sent(Message.user([audio, document]))
    assert message["content"] == [
        {"type": "input_audio", "input_audio": {"data": "YQ==", "format": format}},
        {"type": "file", "file": {"filename": "d.pdf", "file_data": "data:application/pdf;base64,ZA=="}},
    ]


@pytest.mark.parametrize(
    "thoughts",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "opaque", "index": 0}]},
    ],
)
def test_reasoning_goes_back_as_it_came(thoughts):
    response = answered({"content": "Yes.", **thoughts})
    assert response.message.content[0].kind == ContentKind.THINKING
    assert sent(Message.user("?"), response.message, Message.user("Sure?"))[1] == {
        "role": "assistant",
        "content": "Yes.",
        **thoughts,
    }


def test_reasoning_in_a_content_list_goes_back_as_one():
    blocks = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
        {"type": "reference", "reference_ids": [1]},
    ]
    assert sent(Message.user("?"), answered({"content": blocks}).message)[1]["content"] == blocks


def test_the_extras_of_calls_and_messages_go_back():
    extra = {"google": {"thought_signature": "opaque"}}
    message = {
        "content": None,
        "extra_content": extra,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
        ],
    }
    back = sent(Message.user("?"), answered(message).message, Message.tool_result("a", "1"))[1]
    assert back == {"role": "assistant", **message}


def test_reasoning_of_another_provider_is_left_out_with_one_warning():
    thought = ContentPart(
        kind=ContentKind.THINKING,
        thinking=ThinkingData(text="Hm.", signature="s"),
        provider_metadata={"elsewhere": {"signature": "s"}},
    )
    hidden = ContentPart(kind=ContentKind.REDACTED_THINKING, thinking=ThinkingData(text="x", redacted=True))
    wire = build(Message.user("?"), Message.assistant([thought, hidden, text("Yes.")]), Message.user("Sure?"))
    assert wire.body["messages"][1] == {"role": "assistant", "content": "Yes."}
    assert [warning.code for warning in wire.warnings] == ["reasoning_dropped"]


def answered(message):
    body = {"id": "1", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    return parse_response(body, provider="here", model="m")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(raw=st.text(max_size=20) | json_values.map(json.dumps))
def test_arguments_are_always_valid_json(raw):
    messages = sent(Message.user("Go"), Message.assistant([call("a", raw=raw)]), Message.tool_result("a", "no"))
    assert isinstance(json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]), dict)
