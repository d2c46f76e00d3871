"""Request -> the body and headers that the Responses API gets."""

import base64
import json

import httpx
import pytest
from unified_llm.providers.openai.adapter import OpenAIAdapter
from unified_llm.providers.openai.models import features_of
from unified_llm.providers.openai.request import build_request
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
    ToolResultData,
)
from unified_llm.spec.request import Request, ResponseFormat
from unified_llm.spec.tools import Tool, ToolChoice

MODEL = "gpt-5.2"
PNG = b"\x89PNG\r\n\x1a\n"
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
WEATHER = Tool(
    name="weather",
    description="Looks at the sky",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Looks at the sky",
    "parameters": WEATHER.parameters,
    "strict": False,
}
SCHEMA = {"type": "object", "title": "A person", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def build(*messages, model=MODEL, options=None, **fields):
    fields = {"provider_options": {"openai": options}, **fields} if options is not None else fields
    return build_request(Request(model=model, messages=list(messages or [Message.user("hi")]), **fields))


def codes(wire):
    return [warning.code for warning in wire.warnings]


def part(kind, **fields):
    return ContentPart(kind=kind, **fields)


def text(value, **fields):
    return part(ContentKind.TEXT, text=value, **fields)


def call(call_id="call_1", name="weather", arguments=None, *, own=None, **fields):
    data = ToolCallData(id=call_id, name=name, arguments={} if arguments is None else arguments, **fields)
    return part(ContentKind.TOOL_CALL, tool_call=data, provider_metadata=own and {"openai": own})


def says(value, role="user"):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": value}]}


def said(value, position, **fields):
    content = [{"type": "output_text", "annotations": [], "text": value}]
    return {
        "type": "message",
        "id": f"msg_{position}",
        "role": "assistant",
        "status": "completed",
        "content": content,
        **fields,
    }


# Messages


def test_a_plain_request():
    wire = build(Message.user("hi"), temperature=0.5, top_p=0.9, max_tokens=100, metadata={"team": "blue"})
    assert wire.body == {
        "model": MODEL,
        "input": [says("hi")],
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 100,
        "metadata": {"team": "blue"},
        "temperature": 0.5,
        "top_p": 0.9,
        "store": False,
    }
    assert wire.headers == {}
    assert wire.warnings == ()


def test_the_five_roles():
    wire = build(
        Message.system("a"),
        Message.developer("b"),
        Message.user("c"),
        Message.assistant([text("d"), call()]),
        Message.tool_result("call_1", "e"),
        Message.system("f"),
    )
    assert wire.body["instructions"] == "a\n\nf"
    assert wire.body["input"] == [
        says("b", "developer"),
        says("c"),
        said("d", 2),
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "e"},
    ]


def test_without_system_messages_there_are_no_instructions():
    assert "instructions" not in build().body


def test_instructions_are_text():
    message = Message.system([text("a"), part(ContentKind.IMAGE, image=ImageData(data=PNG))])
    wire = build(message, Message.user("hi"))
    assert wire.body["instructions"] == "a"
    assert codes(wire) == ["system_part"]


def test_turns_of_the_same_role_stay_apart():
    wire = build(Message.user("a"), Message.assistant("b"), Message.assistant([text("c"), text("d")]))
    assert [item["id"] for item in wire.body["input"][1:]] == ["msg_1", "msg_2"]
    assert [block["text"] for block in wire.body["input"][2]["content"]] == ["c", "d"]


def test_a_request_without_a_turn_is_refused_here():
    with pytest.raises(InvalidRequestError, match="at least one message"):
        build(Message.system("only this"))
    assert build(Message.system("a"), options={"prompt": {"id": "p"}}).body["input"] == []


@pytest.mark.parametrize(
    ("arguments", "raw", "sent"),
    [
        ({"city": "Róma"}, None, '{"city": "Róma"}'),
        ({"city": "Rome"}, '{"city":"Rome"}', '{"city":"Rome"}'),
        ({}, "", "{}"),
        ("", "", "{}"),
        (" \n", " \n", "{}"),
        ('{"city": ', '{"city": ', "{}"),
        ("[1]", "[1]", "{}"),
    ],
)
def test_the_arguments_of_a_call_are_always_the_text_of_an_object(arguments, raw, sent):
    wire = build(
        Message.user("go"),
        Message.assistant([call("c", "f", arguments, raw_arguments=raw)]),
        Message.tool_result("c", ""),
    )
    assert wire.body["input"][1]["arguments"] == sent


@pytest.mark.parametrize(
    ("content", "is_error", "sent"),
    [
        ("sunny", False, "sunny"),
        ({"sky": "blå"}, False, '{"sky": "blå"}'),
        ([1, 2], False, "[1, 2]"),
        ("no such city", True, "Error: no such city"),
        ("error 5", True, "error 5"),
        ("", True, "Error: "),
        ("", False, ""),
    ],
)
def test_tool_results(content, is_error, sent):
    wire = build(Message.user("go"), Message.assistant([call()]), Message.tool_result("call_1", content, is_error))
    assert wire.body["input"][2] == {"type": "function_call_output", "call_id": "call_1", "output": sent}


def test_a_tool_result_may_hold_an_image():
    result = Message.tool_result("call_1", "a picture", image_data=PNG, image_media_type="image/png")
    wire = build(Message.user("go"), Message.assistant([call()]), result)
    assert wire.body["input"][2]["output"] == [
        {"type": "input_text", "text": "a picture"},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
    ]


def test_parallel_results_keep_their_order_whatever_is_said_between():
    wire = build(
        Message.user("go"),
        Message.assistant([call("a"), call("b")]),
        Message.tool_result("a", "1"),
        Message.user("hurry"),
        Message.tool_result("b", "2"),
    )
    assert [item["type"] for item in wire.body["input"]] == [
        "message",
        *("function_call", "function_call"),
        *("function_call_output", "message", "function_call_output"),
    ]


def test_ids_that_are_too_long_are_shortened_on_both_sides():
    wire = build(Message.user("go"), Message.assistant([call("x" * 65)]), Message.tool_result("x" * 65, "ok"))
    ids = {item["call_id"] for item in wire.body["input"][1:]}
    assert len(ids) == 1
    assert len(ids.pop()) <= 64


def test_a_history_is_repaired():
    wire = build(
        Message.user("go"),
        Message.assistant([call("a"), call("b")]),
        Message.tool_result("b", "x"),
        Message.tool_result("z", "whose?"),
        Message.user([text(" "), text("and?")]),
    )
    outputs = {item["call_id"]: item["output"] for item in wire.body["input"] if "output" in item}
    assert outputs["b"] == "x"
    assert outputs["a"].startswith("Error: ")
    assert "z" not in outputs
    assert sorted(codes(wire)) == ["empty_text", "missing_tool_result", "orphan_tool_result"]


def test_a_history_that_is_stored_elsewhere_is_not_repaired():
    wire = build(Message.tool_result("call_1", "x"), options={"previous_response_id": "resp_1"})
    assert wire.body["input"] == [{"type": "function_call_output", "call_id": "call_1", "output": "x"}]
    assert wire.body["previous_response_id"] == "resp_1"
    assert wire.warnings == ()


# Media


def image(**fields):
    return Message.user([part(ContentKind.IMAGE, image=ImageData(**fields))])


def document(**fields):
    return Message.user([part(ContentKind.DOCUMENT, document=DocumentData(**fields))])


def content_of(wire):
    (item,) = wire.body["input"]
    (block,) = item["content"]
    return block


def test_images(tmp_path):
    path = tmp_path / "shot.jpg"
    path.write_bytes(b"jpeg bytes")
    local = "data:image/jpeg;base64," + base64.b64encode(b"jpeg bytes").decode()
    remote = "https://x.example/a.png"
    given = "data:image/jpg;base64,AAAA"
    assert content_of(build(image(url=remote, detail="low"))) == {
        "type": "input_image",
        "image_url": remote,
        "detail": "low",
    }
    assert content_of(build(image(data=PNG)))["image_url"] == PNG_URL
    assert content_of(build(image(data=PNG)))["detail"] == "auto"
    assert content_of(build(image(url=str(path))))["image_url"] == local
    assert content_of(build(image(url=given)))["image_url"] == "data:image/jpeg;base64,AAAA"


def test_documents(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b")
    pdf = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1").decode()
    assert content_of(build(document(data=b"%PDF-1", file_name="paper.pdf"))) == {
        "type": "input_file",
        "filename": "paper.pdf",
        "file_data": pdf,
    }
    assert content_of(build(document(data=b"%PDF-1")))["filename"] == "document.pdf"
    assert content_of(build(document(url=str(path))))["file_data"].startswith("data:text/csv;base64,")
    assert content_of(build(document(url="https://x.example/a.pdf"))) == {
        "type": "input_file",
        "file_url": "https://x.example/a.pdf",
    }


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (image(data=b"<svg/>", media_type="image/svg+xml"), InvalidRequestError, r"image/svg\+xml.*image/png"),
        (image(url="gs://bucket/a.png"), InvalidRequestError, "neither a web address nor"),
        (image(data=b"x" * (20 * 1024 * 1024 + 3)), InvalidRequestError, "at most 20,971,520"),
        (image(url="/no/such/file.png"), ConfigurationError, r"/no/such/file\.png: No such file"),
        (document(url="ftp://x/a.pdf"), InvalidRequestError, "neither a web address nor"),
        (Message.user([part(ContentKind.AUDIO, audio=AudioData(data=b"x"))]), InvalidRequestError, "audio"),
    ],
)
def test_media_that_cannot_be_sent_are_refused_here(message, error, said):
    with pytest.raises(error, match=said):
        build(message)


def test_text_and_image_in_one_message():
    wire = build(Message.user([text("what is this?"), part(ContentKind.IMAGE, image=ImageData(data=PNG))]))
    assert [block["type"] for block in wire.body["input"][0]["content"]] == ["input_text", "input_image"]


def test_media_of_the_assistant_are_not_sent_back_unless_they_came_from_here():
    foreign = part(ContentKind.IMAGE, image=ImageData(data=PNG))
    own = part(
        ContentKind.IMAGE,
        image=ImageData(data=PNG),
        provider_metadata={"openai": {"type": "image_generation_call", "id": "ig_1", "status": "completed"}},
    )
    wire = build(Message.user("draw"), Message.assistant([text("here"), foreign, own]))
    assert wire.body["input"][2] == {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": base64.b64encode(PNG).decode(),
    }
    assert len(wire.body["input"]) == 3
    assert codes(wire) == ["assistant_media"]


# What comes from a provider and goes back to it

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}


def thinking(value="", metadata=None, signature=None, kind=ContentKind.THINKING):
    data = ThinkingData(text=value, signature=signature, redacted=kind is ContentKind.REDACTED_THINKING)
    return part(kind, thinking=data, provider_metadata=metadata)


def test_reasoning_goes_back_before_what_it_led_to():
    own = {"id": "fc_1", "status": "completed", "reasoning_id": "rs_1"}
    assistant = Message.assistant([thinking("", {"openai": REASONING}), call(own=own)])
    wire = build(Message.user("go"), assistant, Message.tool_result("call_1", "ok"))
    assert wire.body["input"][1:3] == [
        REASONING,
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "weather",
            "arguments": "{}",
            "id": "fc_1",
            "status": "completed",
        },
    ]
    assert wire.warnings == ()


def test_without_its_reasoning_nothing_goes_back_under_its_id():
    message = {"id": "msg_a", "status": "completed", "reasoning_id": "rs_1"}
    search = {"type": "web_search_call", "id": "ws_1", "reasoning_id": "rs_1"}
    assistant = Message.assistant(
        [
            part("web_search_call", provider_metadata={"openai": search}),
            text("so", provider_metadata={"openai": message}),
            call(own={"id": "fc_1", "reasoning_id": "rs_1"}),
        ]
    )
    wire = build(Message.user("go"), assistant, Message.tool_result("call_1", "ok"))
    assert wire.body["input"][1:3] == [
        said("so", 1),
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
    ]
    assert codes(wire) == ["orphan_item"]


def test_only_the_last_part_of_a_reasoning_item_carries_it():
    first = thinking("one", {"openai": {"id": "rs_1"}})
    second = thinking("two", {"openai": REASONING})
    wire = build(Message.user("go"), Message.assistant([first, second, text("so")]))
    assert wire.body["input"][1] == REASONING
    assert wire.warnings == ()


@pytest.mark.parametrize(
    "foreign",
    [
        thinking("hm", {"anthropic": {}}, "sig"),
        thinking("x", {"anthropic": {}}, kind=ContentKind.REDACTED_THINKING),
        thinking("by hand"),
    ],
)
def test_reasoning_of_other_providers_is_left_out_with_a_warning(foreign):
    wire = build(Message.user("go"), Message.assistant([foreign, text("so")]))
    assert wire.body["input"][1:] == [said("so", 1)]
    assert codes(wire) == ["foreign_thinking"]


def test_items_we_do_not_model_go_both_ways_verbatim():
    ask = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "click"}}
    answer = {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}}
    file = {"type": "input_image", "file_id": "file_1", "detail": "auto"}
    foreign = part("code", provider_metadata={"gemini": {}})
    wire = build(
        Message.user("go"),
        Message.assistant([part("computer_call", provider_metadata={"openai": ask}), foreign]),
        Message.user([part("computer_call_output", provider_metadata={"openai": answer})]),
        Message.user([text("see"), part("input_image", provider_metadata={"openai": file})]),
    )
    assert wire.body["input"][1:3] == [ask, answer]
    assert wire.body["input"][3]["content"] == [{"type": "input_text", "text": "see"}, file]
    assert codes(wire) == ["foreign_part"]


def test_custom_tool_calls():
    assistant = Message.assistant([call("c1", "patch", "*** Begin", type="custom", raw_arguments="*** Begin")])
    wire = build(Message.user("go"), assistant, Message.tool_result("c1", "ok"))
    assert wire.body["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    ]


def test_a_refusal_goes_back_as_one():
    own = {"id": "msg_a", "status": "completed", "content": {"type": "refusal"}}
    wire = build(Message.user("go"), Message.assistant([text("no", provider_metadata={"openai": own})]))
    assert wire.body["input"][1]["content"] == [{"type": "refusal", "refusal": "no"}]


# Tools


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (ToolChoice(mode="named", tool_name="weather"), {"type": "function", "name": "weather"}),
    ],
)
def test_tool_choice(choice, sent):
    body = build(tools=[WEATHER], tool_choice=choice).body
    assert body["tools"] == [TOOL]
    assert body.get("tool_choice") == sent


def test_a_choice_without_tools_is_refused_here():
    with pytest.raises(InvalidRequestError, match="needs tools"):
        build(tool_choice="required")


def test_a_choice_without_tools_that_asks_for_nothing_is_not_sent():
    assert "tool_choice" not in build(tool_choice="none").body


def test_built_in_tools_are_added_to_the_tools():
    search = {"type": "web_search"}
    assert build(tools=[WEATHER], options={"tools": [search]}).body["tools"] == [TOOL, search]
    assert build(tool_choice="required", options={"tools": [search]}).body["tool_choice"] == "required"


# Options and settings


def test_options_override_and_are_not_changed():
    options = {
        "max_output_tokens": 7,
        "truncation": "auto",
        "extra_headers": {"x": "1"},
        "text": {"verbosity": "low"},
        "reasoning": {"summary": "auto"},
        "tools": [],
    }
    request = Request(
        model=MODEL,
        messages=[Message.user("hi")],
        max_tokens=100,
        reasoning_effort="low",
        response_format=ResponseFormat(type="json"),
        provider_options={"openai": options, "gemini": {"a": 1}},
    )
    wire = build_request(request)
    assert (wire.body["max_output_tokens"], wire.body["truncation"]) == (7, "auto")
    assert wire.body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert wire.body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert wire.headers == {"x": "1"}
    assert not {"extra_headers", "tools", "a", "stream"} & wire.body.keys()
    assert request.provider_options["openai"]["tools"] == []
    assert "store" not in request.provider_options["openai"]


@pytest.mark.parametrize(
    ("model", "options", "include"),
    [
        (MODEL, {}, ["reasoning.encrypted_content"]),
        ("some-server-model", {}, ["reasoning.encrypted_content"]),
        (MODEL, {"store": True}, None),
        (MODEL, {"include": []}, None),
        (MODEL, {"include": ["file_search_call.results"]}, ["reasoning.encrypted_content", "file_search_call.results"]),
        (MODEL, {"store": True, "include": ["reasoning.encrypted_content"]}, ["reasoning.encrypted_content"]),
        ("gpt-4o", {}, None),
        ("gpt-4.1-mini-2025-04-14", {"include": ["message.output_text.logprobs"]}, ["message.output_text.logprobs"]),
    ],
)
def test_reasoning_is_asked_for_unless_it_is_stored_or_not_there(model, options, include):
    body = build(model=model, options=options).body
    assert body.get("include") == include
    assert body["store"] is options.get("store", False)


@pytest.mark.parametrize(
    ("model", "effort", "sampled"),
    [
        ("gpt-5.2", None, True),
        ("gpt-5.2", "none", True),
        ("gpt-5.2", "high", False),
        ("gpt-5-mini-2025-08-07", None, False),
        ("gpt-5-chat-latest", None, True),
        ("o3", None, False),
        ("gpt-4o", None, True),
        ("ft:gpt-4.1:me", None, True),
        ("llama-4", "high", True),
    ],
)
def test_temperature_goes_only_to_models_that_take_it(model, effort, sampled):
    wire = build(model=model, reasoning_effort=effort, temperature=0.2)
    assert ("temperature" in wire.body) is sampled
    assert codes(wire) == ([] if sampled else ["temperature_dropped"])
    assert wire.body.get("reasoning") == (effort and {"effort": effort})


def test_models_are_told_from_their_names():
    assert not features_of("openai/gpt-4o").reasons
    assert features_of("gpt-6.2-sol").sampling == "without_effort"
    assert features_of("o4-mini").reasons


def test_stop_sequences_are_left_out_with_a_warning():
    wire = build(stop_sequences=["END"])
    assert "stop" not in wire.body
    assert codes(wire) == ["stop_dropped"]


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (None, None),
        (ResponseFormat(type="text"), None),
        (ResponseFormat(type="json"), {"format": {"type": "json_object"}}),
        (
            ResponseFormat(type="json_schema", json_schema=SCHEMA, strict=True),
            {"format": {"type": "json_schema", "name": "A_person", "schema": SCHEMA, "strict": True}},
        ),
        (
            ResponseFormat(type="json_schema", json_schema={"type": "object"}),
            {"format": {"type": "json_schema", "name": "response", "schema": {"type": "object"}, "strict": False}},
        ),
    ],
)
def test_response_formats(response_format, sent):
    assert build(response_format=response_format).body.get("text") == sent


def test_an_instance_of_another_name_has_its_own_options_and_metadata():
    own = thinking("", {"openai": REASONING})
    request = Request(
        model="grok",
        messages=[Message.user("go"), Message.assistant([own, text("so")])],
        provider_options={"openai": {"a": 1}, "xai": {"b": 2}},
    )
    body = build_request(request, provider="xai").body
    assert "a" not in body
    assert body["b"] == 2
    assert len(body["input"]) == 2


# The adapter


async def test_what_the_adapter_sends():
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(200, json={"id": "r", "status": "completed", "output": []})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        adapter = OpenAIAdapter(
            "sk-1",
            base_url="http://here/v1/",
            default_headers={"X-Custom": "value"},
            http_client=client,
            organization="org-1",
            project="proj-1",
        )
        await adapter.initialize()
        response = await adapter.complete(Request(model=MODEL, messages=[Message.user("hi")]))
    (request,) = sent
    assert str(request.url) == "http://here/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.headers["openai-organization"] == "org-1"
    assert request.headers["openai-project"] == "proj-1"
    assert request.headers["x-custom"] == "value"
    assert json.loads(request.content)["input"] == [says("hi")]
    assert (response.model, response.provider) == (MODEL, "openai")


async def test_an_empty_key_is_found_at_once():
    with pytest.raises(ConfigurationError, match="api_key"):
        await OpenAIAdapter("").initialize()


def test_every_tool_choice_is_supported():
    adapter = OpenAIAdapter("key")
    assert all(adapter.supports_tool_choice(mode) for mode in ("auto", "none", "required", "named"))
    assert not adapter.supports_tool_choice("sometimes")


def test_a_tool_message_of_plain_text_is_a_result():
    tool = Message(role=Role.TOOL, content="ok", tool_call_id="call_1")
    assert build(Message.user("go"), Message.assistant([call()]), tool).body["input"][2]["output"] == "ok"


def test_other_parts_of_a_tool_message_follow_as_a_users():
    result = part(ContentKind.TOOL_RESULT, tool_result=ToolResultData(tool_call_id="call_1", content="ok"))
    tool = Message(role=Role.TOOL, content=[result, part(ContentKind.IMAGE, image=ImageData(data=PNG))])
    wire = build(Message.user("go"), Message.assistant([call()]), tool)
    assert [item["type"] for item in wire.body["input"][2:]] == ["function_call_output", "message"]
    assert wire.body["input"][3]["role"] == "user"
