"""Request -> the address, the body and the headers that the Gemini API gets."""

import base64
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.providers.gemini.adapter import GeminiAdapter
from unified_llm.providers.gemini.message import UNSIGNED
from unified_llm.providers.gemini.models import features_of
from unified_llm.providers.gemini.request import build_request
from unified_llm.providers.gemini.schema import resolve_references
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
from unified_llm.spec.tools import Tool, ToolChoice

MODEL = "gemini-3-flash-preview"
PNG = b"\x89PNG\r\n\x1a\n"
BASE64_PNG = base64.b64encode(PNG).decode()
WEATHER = Tool(
    name="weather",
    description="Looks at the sky",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
DECLARATION = {"name": "weather", "description": "Looks at the sky", "parametersJsonSchema": WEATHER.parameters}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def build(*messages, model=MODEL, options=None, **fields):
    fields = {"provider_options": {"gemini": options}, **fields} if options is not None else fields
    return build_request(Request(model=model, messages=list(messages or [Message.user("hi")]), **fields))


def codes(wire):
    return [warning.code for warning in wire.warnings]


def part(kind, **fields):
    return ContentPart(kind=kind, **fields)


def text(value, own=None):
    return part(ContentKind.TEXT, text=value, provider_metadata=own and {"gemini": own})


def call(call_id="call_1", name="weather", arguments=None, own=None):
    data = ToolCallData(id=call_id, name=name, arguments={} if arguments is None else arguments)
    return part(ContentKind.TOOL_CALL, tool_call=data, provider_metadata=own and {"gemini": own})


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def response(name, answer, **fields):
    return {"functionResponse": {"name": name, "response": answer, **fields}}


# Messages


def test_a_plain_request():
    wire = build(Message.user("hi"), temperature=0.5, top_p=0.9, max_tokens=100, stop_sequences=["END"])
    assert wire.body == {
        "contents": [user({"text": "hi"})],
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 100, "stopSequences": ["END"]},
    }
    assert wire.headers == {}
    assert wire.warnings == ()


def test_the_five_roles():
    wire = build(
        Message.system("a"),
        Message.user("b"),
        Message.developer("c"),
        Message.assistant([text("d"), call(own={"thoughtSignature": "S"})]),
        Message.tool_result("call_1", "e"),
    )
    assert wire.body == {
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "c"}]},
        "contents": [
            user({"text": "b"}),
            model({"text": "d"}, {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "S"}),
            user(response("weather", {"result": "e"})),
        ],
    }


def test_instructions_are_text():
    message = Message.system([text("a"), part(ContentKind.IMAGE, image=ImageData(data=PNG))])
    wire = build(message, Message.user("hi"))
    assert wire.body["systemInstruction"] == {"parts": [{"text": "a"}]}
    assert codes(wire) == ["system_part"]


def test_a_request_without_a_turn_is_refused_here():
    with pytest.raises(InvalidRequestError, match="at least one message"):
        build(Message.system("only this"))


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"city": "Rome"}, {"city": "Rome"}),
        ("", {}),
        (" \n", {}),
        ('{"city": "Rome"}', {"city": "Rome"}),
        ('{"city": ', {"invalid_json": '{"city": '}),
        ("[1]", {"invalid_json": "[1]"}),
    ],
)
def test_the_arguments_of_a_call_are_always_an_object(arguments, sent):
    wire = build(Message.user("go"), Message.assistant([call("c", "f", arguments)]), Message.tool_result("c", ""))
    assert wire.body["contents"][1]["parts"][0]["functionCall"]["args"] == sent


@pytest.mark.parametrize(
    ("content", "is_error", "sent"),
    [
        ("sunny", False, {"result": "sunny"}),
        ({"sky": "blue"}, False, {"sky": "blue"}),
        ([1, 2], False, {"result": [1, 2]}),
        ("no such city", True, {"error": "no such city"}),
        ({"code": 5}, True, {"error": {"code": 5}}),
        ("", True, {"error": "The tool failed without a message."}),
        ("", False, {"result": ""}),
    ],
)
def test_tool_results_are_objects(content, is_error, sent):
    wire = build(Message.user("go"), Message.assistant([call()]), Message.tool_result("call_1", content, is_error))
    assert wire.body["contents"][2] == user(response("weather", sent))


def test_parallel_results_stand_together_in_the_order_of_the_calls():
    wire = build(
        Message.user("go"),
        Message.assistant([call("a", "f"), call("b", "f"), call("c", "g")]),
        Message.tool_result("c", "3"),
        Message.user("hurry"),
        Message.tool_result("a", "1"),
        Message.tool_result("b", "2"),
        Message.assistant("so"),
    )
    assert wire.body["contents"][2:] == [
        user(response("f", {"result": "1"}), response("f", {"result": "2"}), response("g", {"result": "3"})),
        user({"text": "hurry"}),
        model({"text": "so"}),
    ]


def test_ids_of_the_models_own_go_back_and_ours_do_not():
    calls = [call("x7", own={"functionCall": {"id": "x7"}, "thoughtSignature": "S"}), call("call_9")]
    wire = build(
        Message.user("go"), Message.assistant(calls), Message.tool_result("x7", "1"), Message.tool_result("call_9", "2")
    )
    assert wire.body["contents"][1:] == [
        model(
            {"functionCall": {"name": "weather", "args": {}, "id": "x7"}, "thoughtSignature": "S"},
            {"functionCall": {"name": "weather", "args": {}}},
        ),
        user(response("weather", {"result": "1"}, id="x7"), response("weather", {"result": "2"})),
    ]


@pytest.mark.parametrize(("model_name", "nested"), [(MODEL, True), ("gemini-2.5-flash", False)])
def test_a_tool_result_may_hold_an_image(model_name, nested):
    result = Message.tool_result("call_1", "a picture", image_data=PNG, image_media_type="image/png")
    wire = build(Message.user("go"), Message.assistant([call()]), result, Message.user("and?"), model=model_name)
    picture = {"inlineData": {"mimeType": "image/png", "data": BASE64_PNG}}
    answer = {"result": "a picture"}
    if nested:
        assert wire.body["contents"][2:] == [user(response("weather", answer, parts=[picture])), user({"text": "and?"})]
    else:
        caption = {"text": "The image that weather returned:"}
        assert wire.body["contents"][2:] == [
            user(response("weather", answer)),
            user(caption, picture),
            user({"text": "and?"}),
        ]


def test_a_history_is_repaired():
    wire = build(
        Message.user("go"),
        Message.assistant([call("a"), call("b")]),
        Message.tool_result("b", "x"),
        Message.tool_result("z", "whose?"),
        Message.user([text(" "), text("and?")]),
    )
    first, second = wire.body["contents"][2]["parts"]
    assert "error" in first["functionResponse"]["response"]
    assert second["functionResponse"]["response"] == {"result": "x"}
    assert wire.body["contents"][3] == user({"text": "and?"})
    assert sorted(codes(wire)) == ["empty_text", "missing_tool_result", "orphan_tool_result"]


# Media


def image(**fields):
    return Message.user([part(ContentKind.IMAGE, image=ImageData(**fields))])


def document(**fields):
    return Message.user([part(ContentKind.DOCUMENT, document=DocumentData(**fields))])


def audio(**fields):
    return Message.user([part(ContentKind.AUDIO, audio=AudioData(**fields))])


def sent_part(message):
    ((sent,),) = [content["parts"] for content in build(message).body["contents"]]
    return sent


def inline(data, media_type):
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}


def test_media(tmp_path):
    path = tmp_path / "shot.jpg"
    path.write_bytes(b"jpeg bytes")
    assert sent_part(image(data=PNG)) == inline(PNG, "image/png")
    assert sent_part(image(data=PNG, media_type="image/jpg", detail="low")) == inline(PNG, "image/jpeg")
    assert sent_part(image(url=str(path))) == inline(b"jpeg bytes", "image/jpeg")
    assert sent_part(image(url="data:image/webp;base64,AAAA")) == {
        "inlineData": {"mimeType": "image/webp", "data": "AAAA"}
    }
    assert sent_part(image(url="https://x.example/a.jpg?s=1")) == {
        "fileData": {"mimeType": "image/jpeg", "fileUri": "https://x.example/a.jpg?s=1"}
    }
    assert sent_part(image(url="gs://bucket/a")) == {"fileData": {"fileUri": "gs://bucket/a"}}
    assert sent_part(document(data=b"%PDF-1")) == inline(b"%PDF-1", "application/pdf")
    assert sent_part(document(data=b"{}", media_type="application/json")) == inline(b"{}", "text/plain")
    assert sent_part(document(url="https://x.example/v", media_type="video/mp4")) == {
        "fileData": {"mimeType": "video/mp4", "fileUri": "https://x.example/v"}
    }
    assert sent_part(audio(data=b"RIFF")) == inline(b"RIFF", "audio/wav")
    assert sent_part(audio(data=b"ID3", media_type="audio/mpeg")) == inline(b"ID3", "audio/mpeg")


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (image(data=b"<svg/>", media_type="image/svg+xml"), InvalidRequestError, r"image/svg\+xml.*image/png"),
        (image(url="ftp://x/a.png"), InvalidRequestError, "neither an address nor"),
        (image(url="/no/such/file.png"), ConfigurationError, r"/no/such/file\.png: No such file"),
    ],
)
def test_media_that_cannot_be_sent_are_refused_here(message, error, said):
    with pytest.raises(error, match=said):
        build(message)


def test_text_and_image_in_one_message():
    wire = build(Message.user([text("what is this?"), part(ContentKind.IMAGE, image=ImageData(data=PNG))]))
    assert wire.body["contents"] == [user({"text": "what is this?"}, inline(PNG, "image/png"))]


# What comes from a provider and goes back to it


def thinking(value="", metadata=None, kind=ContentKind.THINKING):
    data = ThinkingData(text=value, redacted=kind is ContentKind.REDACTED_THINKING)
    return part(kind, thinking=data, provider_metadata=metadata)


def test_signatures_go_back_on_the_parts_they_came_on():
    signed = {"thoughtSignature": "S"}
    wire = build(
        Message.user("go"),
        Message.assistant(
            [
                thinking("hm", {"gemini": {}}),
                text("so"),
                text("", {"thoughtSignature": "T"}),
                call("a", own=signed),
                call("b"),
                part("executableCode", provider_metadata={"gemini": {"executableCode": {"code": "1"}}}),
            ]
        ),
        Message.tool_result("a", "1"),
        Message.tool_result("b", "2"),
    )
    assert wire.body["contents"][1] == model(
        {"text": "hm", "thought": True},
        {"text": "so"},
        {"text": "", "thoughtSignature": "T"},
        {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "S"},
        {"functionCall": {"name": "weather", "args": {}}},
        {"executableCode": {"code": "1"}},
    )
    assert wire.warnings == ()


@pytest.mark.parametrize(("model_name", "signature"), [(MODEL, UNSIGNED), ("gemini-2.5-pro", None)])
def test_calls_of_other_providers_say_why_they_are_unsigned(model_name, signature):
    assistant = Message.assistant([call("a"), call("b")])
    answers = [Message.tool_result("a", "1"), Message.tool_result("b", "2")]
    first, second = build(Message.user("go"), assistant, *answers, model=model_name).body["contents"][1]["parts"]
    assert first.get("thoughtSignature") == signature
    assert "thoughtSignature" not in second


@pytest.mark.parametrize(
    ("foreign", "code"),
    [
        (thinking("hm", {"anthropic": {}}), "foreign_thinking"),
        (thinking("x", None, ContentKind.REDACTED_THINKING), "foreign_thinking"),
        (thinking("by hand"), "foreign_thinking"),
        (part("web_search_call", provider_metadata={"openai": {}}), "foreign_part"),
    ],
)
def test_what_another_provider_made_is_left_out_with_a_warning(foreign, code):
    wire = build(Message.user("go"), Message.assistant([foreign, text("so")]))
    assert wire.body["contents"][1] == model({"text": "so"})
    assert codes(wire) == [code]


# Tools


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (ToolChoice(mode="named", tool_name="weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_tool_choice(choice, sent):
    body = build(tools=[WEATHER], tool_choice=choice).body
    assert body["tools"] == [{"functionDeclarations": [DECLARATION]}]
    assert body.get("toolConfig") == (sent and {"functionCallingConfig": sent})


@pytest.mark.parametrize("choice", ["required", ToolChoice(mode="named", tool_name="weather")])
def test_a_choice_without_tools_is_refused_here(choice):
    with pytest.raises(InvalidRequestError, match="needs tools"):
        build(tool_choice=choice, options={"tools": [{"googleSearch": {}}]})


def test_a_choice_without_tools_that_asks_for_nothing_is_not_sent():
    assert "toolConfig" not in build(tool_choice="none").body


def test_grounding_is_added_to_the_tools():
    options = {"tools": [{"googleSearch": {}}], "toolConfig": {"includeServerSideToolInvocations": True}}
    body = build(tools=[WEATHER], tool_choice="auto", options=options).body
    assert body["tools"] == [{"functionDeclarations": [DECLARATION]}, {"googleSearch": {}}]
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "AUTO"},
        "includeServerSideToolInvocations": True,
    }


# Schemas


def test_a_schema_without_references_is_sent_as_it_is():
    assert resolve_references(SCHEMA) is SCHEMA


def test_references_are_replaced_by_what_they_refer_to():
    schema = {
        "type": "object",
        "properties": {
            "headers": {"type": "object", "properties": {"a": {"type": "string"}}},
            "actions": {"type": "array", "items": {"$ref": "#/properties/headers"}},
            "deep": {"$ref": "#/$defs/Deep", "description": "how deep"},
            "odd": {"const": {"$ref": "#/$defs/Deep"}},
        },
        "$defs": {"Deep": {"$ref": "#/$defs/De~1ep"}, "De/ep": {"anyOf": [{"type": "null"}, {"type": "integer"}]}},
    }
    resolved = resolve_references(schema)
    assert resolved["properties"]["actions"]["items"] == schema["properties"]["headers"]
    assert resolved["properties"]["deep"] == {
        "anyOf": [{"type": "null"}, {"type": "integer"}],
        "description": "how deep",
    }
    assert resolved["properties"]["odd"] == schema["properties"]["odd"]
    assert "$defs" not in resolved


def test_a_schema_that_contains_itself_keeps_its_references():
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    resolved = resolve_references(schema)
    assert resolved["properties"]["tree"] == node
    assert resolved["$defs"] == {"Node": node}
    assert resolve_references({"type": "object", "properties": {"me": {"$ref": "#"}}})["properties"]["me"]


def test_references_that_lead_nowhere_stay():
    for reference in ("#/$defs/Gone", "https://x.example/schema", "#/properties/0"):
        schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
        assert resolve_references(schema)["properties"] == schema["properties"]


def test_a_schema_that_would_grow_beyond_reason_is_sent_as_it_is():
    names = [f"D{number}" for number in range(40)]
    definitions = {
        name: {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{after}"}, "b": {"$ref": f"#/$defs/{after}"}}}
        for name, after in zip(names, [*names[1:], "End"], strict=True)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": {**definitions, "End": {}}}
    assert resolve_references(schema) is schema


schemas = st.recursive(
    st.sampled_from([{"type": "string"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"$ref": "#"}, {"$ref": "x"}]),
    lambda children: (
        st.fixed_dictionaries({"anyOf": st.lists(children, max_size=3)})
        | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), children)})
    ),
    max_leaves=6,
)


@given(schemas, schemas, schemas)
def test_resolving_ends_and_changes_nothing_in_place(root, first, second):
    schema = {"type": "object", **root, "$defs": {"A": first, "B": second}}
    before = json.dumps(schema)
    resolved = resolve_references(schema)
    assert json.dumps(schema) == before
    assert "$ref" not in json.dumps(resolved) or "$defs" in resolved


# Options and settings


@pytest.mark.parametrize(
    ("model_name", "effort", "sent", "warned"),
    [
        (MODEL, None, None, []),
        (MODEL, "low", {"thinkingLevel": "LOW", "includeThoughts": True}, []),
        (MODEL, "none", {"thinkingLevel": "MINIMAL", "includeThoughts": False}, []),
        ("gemini-3.1-pro-preview", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}, []),
        ("gemini-flash-latest", "max", {"thinkingLevel": "HIGH", "includeThoughts": True}, []),
        ("gemini-2.5-flash", "medium", {"thinkingBudget": 8192, "includeThoughts": True}, []),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0, "includeThoughts": False}, []),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128, "includeThoughts": True}, []),
        ("gemini-2.0-flash", "high", None, ["reasoning_effort_dropped"]),
        ("gemini-2.0-flash", "none", None, []),
    ],
)
def test_reasoning_effort(model_name, effort, sent, warned):
    wire = build(model=model_name, reasoning_effort=effort)
    assert wire.body.get("generationConfig", {}).get("thinkingConfig") == sent
    assert codes(wire) == warned


@pytest.mark.parametrize(
    "options",
    [
        {"thinkingConfig": {"thinkingBudget": 5}},
        {"thinking_config": {"thinkingBudget": 5}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}},
    ],
)
def test_the_callers_own_thinking_wins(options):
    body = build(reasoning_effort="high", options=options).body
    assert body == {
        "contents": [user({"text": "hi"})],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 5}},
    }


def test_options_override_and_are_not_changed():
    safety = [{"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "BLOCK_NONE"}]
    options = {
        "safetySettings": safety,
        "extra_headers": {"x": "1"},
        "generation_config": {"topK": 3, "maxOutputTokens": 7},
        "tools": [],
    }
    request = Request(
        model=MODEL,
        messages=[Message.user("hi")],
        max_tokens=100,
        provider_options={"gemini": options, "openai": {"a": 1}},
    )
    wire = build_request(request)
    assert wire.body == {
        "contents": [user({"text": "hi"})],
        "generationConfig": {"maxOutputTokens": 7, "topK": 3},
        "safetySettings": safety,
    }
    assert wire.headers == {"x": "1"}
    assert set(request.provider_options["gemini"]) == {"safetySettings", "extra_headers", "generation_config", "tools"}


def test_cached_content_has_instructions_and_tools_of_its_own():
    wire = build(
        Message.system("be brief"),
        Message.user("hi"),
        tools=[WEATHER],
        tool_choice="auto",
        options={"cachedContent": "cachedContents/1"},
    )
    assert wire.body == {"contents": [user({"text": "hi"})], "cachedContent": "cachedContents/1"}
    assert codes(wire) == ["cached_content"] * 3


def test_metadata_is_left_out_with_a_warning():
    wire = build(metadata={"team": "blue"})
    assert wire.body == {"contents": [user({"text": "hi"})]}
    assert codes(wire) == ["metadata_dropped"]


JSON = {"responseMimeType": "application/json"}


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (None, None),
        (ResponseFormat(type="text"), None),
        (ResponseFormat(type="json"), JSON),
        (ResponseFormat(type="json_schema", json_schema=SCHEMA), {**JSON, "responseJsonSchema": SCHEMA}),
    ],
)
def test_response_formats(response_format, sent):
    assert build(response_format=response_format).body.get("generationConfig") == sent
    beside_tools = build(response_format=response_format, tools=[WEATHER]).body
    assert beside_tools.get("generationConfig") == sent
    assert "systemInstruction" not in beside_tools


@pytest.mark.parametrize(
    ("response_format", "said"),
    [
        (ResponseFormat(type="json"), "one JSON object"),
        (ResponseFormat(type="json_schema", json_schema=SCHEMA), json.dumps(SCHEMA)),
    ],
)
def test_older_models_are_told_the_format_beside_tools(response_format, said):
    body = build(
        Message.system("a"),
        Message.user("b"),
        model="gemini-2.5-flash",
        response_format=response_format,
        tools=[WEATHER],
    ).body
    first, second = body["systemInstruction"]["parts"]
    assert first == {"text": "a"}
    assert said in second["text"]
    assert "generationConfig" not in body


def test_models_are_told_from_their_names():
    assert features_of("models/gemini-2.5-flash-lite").thinking == "budget"
    assert features_of("gemini-4-argon").signed_calls
    assert features_of("gemini-1.5-pro").thinking == "none"


# The adapter


async def send(request, **arguments):
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(200, json={"candidates": [{"content": {}, "finishReason": "STOP"}]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        adapter = GeminiAdapter("secret", http_client=client, **arguments)
        await adapter.initialize()
        response = await adapter.complete(request)
        events = [event async for event in adapter.stream(request)]
    assert events[-1].response.finish_reason == response.finish_reason
    return response, sent


async def test_what_the_adapter_sends():
    request = Request(model=MODEL, messages=[Message.user("hi")])
    answer, (whole, stream) = await send(request, base_url="http://here/v1beta/", default_headers={"X-Custom": "value"})
    assert str(whole.url) == f"http://here/v1beta/models/{MODEL}:generateContent"
    assert str(stream.url) == f"http://here/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    for sent in (whole, stream):
        assert sent.headers["x-goog-api-key"] == "secret"
        assert "secret" not in str(sent.url)
        assert sent.headers["x-custom"] == "value"
        assert json.loads(sent.content) == {"contents": [user({"text": "hi"})]}
    assert (answer.model, answer.provider) == (MODEL, "gemini")


@pytest.mark.parametrize(
    ("name", "path"), [("tunedModels/mine", "tunedModels/mine"), ("models/x", "models/x"), ("a?b", "models/a%3Fb")]
)
async def test_the_model_is_part_of_the_address(name, path):
    _, (whole, _) = await send(Request(model=name, messages=[Message.user("hi")]), base_url="http://here")
    assert whole.url.raw_path.decode() == f"/v1beta/{path}:generateContent"


async def test_an_empty_key_is_found_at_once():
    with pytest.raises(ConfigurationError, match="api_key"):
        await GeminiAdapter("").initialize()


def test_every_tool_choice_is_supported():
    adapter = GeminiAdapter("key")
    assert all(adapter.supports_tool_choice(mode) for mode in ("auto", "none", "required", "named"))
    assert not adapter.supports_tool_choice("sometimes")


def test_a_tool_message_of_plain_text_is_a_result():
    tool = Message(role=Role.TOOL, content="ok", tool_call_id="call_1")
    assert build(Message.user("go"), Message.assistant([call()]), tool).body["contents"][2] == user(
        response("weather", {"result": "ok"})
    )
