"""Request -> the body and headers that the Messages API gets."""

import base64

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.providers.anthropic.adapter import AnthropicAdapter
from unified_llm.providers.anthropic.caching import count_breakpoints
from unified_llm.providers.anthropic.models import features_of
from unified_llm.providers.anthropic.output_schema import close_schema
from unified_llm.providers.anthropic.request import build_request
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

MODEL = "claude-sonnet-4-5"
PNG = b"\x89PNG\r\n\x1a\n"
WEATHER = Tool(
    name="weather",
    description="Looks at the sky",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def build(*messages, model=MODEL, options=None, cache=False, **fields):
    options = {"auto_cache": cache, **(options or {})}
    return build_request(
        Request(
            model=model,
            messages=list(messages or [Message.user("hi")]),
            provider_options={"anthropic": options},
            **fields,
        )
    )


def codes(wire):
    return [warning.code for warning in wire.warnings]


def part(kind, **fields):
    return ContentPart(kind=kind, **fields)


def call(call_id="t1", name="weather", arguments=None, **fields):
    return part(
        ContentKind.TOOL_CALL, tool_call=ToolCallData(id=call_id, name=name, arguments=arguments or {}), **fields
    )


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


# Messages


def test_a_plain_request():
    wire = build(Message.user("hi"), temperature=0.5, top_p=None, max_tokens=10, stop_sequences=["END"])
    assert wire.body == {
        "model": MODEL,
        "max_tokens": 10,
        "messages": [{"role": "user", "content": [text("hi")]}],
        "temperature": 0.5,
        "stop_sequences": ["END"],
    }
    assert wire.headers == {}
    assert wire.warnings == ()


def test_max_tokens_is_4096_unless_said():
    assert build().body["max_tokens"] == 4096


def test_system_and_developer_messages_make_the_system_parameter():
    wire = build(Message.system("a"), Message.user("hi"), Message.developer("b"), Message.assistant("yo"))
    assert wire.body["system"] == [text("a"), text("b")]
    assert [turn["role"] for turn in wire.body["messages"]] == ["user", "assistant"]


def test_turns_alternate():
    wire = build(
        Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d"), Message.user("e")
    )
    assert wire.body["messages"] == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
        {"role": "user", "content": [text("e")]},
    ]


def test_tool_results_come_first_in_the_turn_that_answers_the_calls():
    wire = build(
        Message.user("go"),
        Message.assistant([call("t1"), call("t2")]),
        Message.user("a note"),
        Message.tool_result("t1", "sunny"),
        Message.tool_result("t2", {"rain": True}, is_error=True),
        tools=[WEATHER],
    )
    assert wire.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
                {"type": "tool_use", "id": "t2", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
                {"type": "tool_result", "tool_use_id": "t2", "content": '{"rain": true}', "is_error": True},
                text("a note"),
            ],
        },
    ]
    assert wire.warnings == ()


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
def test_the_input_of_a_call_is_always_an_object(arguments, sent):
    data = ToolCallData(id="t1", name="weather", arguments=arguments)
    message = Message.assistant([part(ContentKind.TOOL_CALL, tool_call=data)])
    wire = build(Message.user("go"), message, Message.tool_result("t1", ""))
    assert wire.body["messages"][1]["content"][0]["input"] == sent


def test_ids_of_other_providers_are_made_acceptable_on_both_sides():
    wire = build(
        Message.user("go"), Message.assistant([call("call|a.b")]), Message.tool_result("call|a.b", "x"), tools=[WEATHER]
    )
    assert wire.body["messages"][1]["content"][0]["id"] == "call_a_b"
    assert wire.body["messages"][2]["content"][0]["tool_use_id"] == "call_a_b"


def test_a_tool_result_may_hold_an_image():
    result = Message.tool_result("t1", "a picture", image_data=PNG, image_media_type="image/png")
    wire = build(Message.user("go"), Message.assistant([call()]), result)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert wire.body["messages"][2]["content"][0]["content"] == [text("a picture"), {"type": "image", "source": source}]


def test_a_failed_tool_always_says_something():
    wire = build(Message.user("go"), Message.assistant([call()]), Message.tool_result("t1", "", is_error=True))
    assert wire.body["messages"][2]["content"][0]["content"] == "The tool failed without a message."


def test_a_history_is_repaired():
    wire = build(
        Message.user("go"),
        Message.assistant([call("t1"), call("t2")]),
        Message.tool_result("t2", "b"),
        Message.tool_result("t9", "whose?"),
        Message.assistant("done"),
        Message.user([part(ContentKind.TEXT, text=" "), part(ContentKind.TEXT, text="and?")]),
    )
    results = wire.body["messages"][2]["content"]
    assert [(block["tool_use_id"], block.get("is_error")) for block in results] == [("t2", None), ("t1", True)]
    assert wire.body["messages"][4]["content"] == [text("and?")]
    assert sorted(codes(wire)) == ["empty_text", "missing_tool_result", "orphan_tool_result"]


def test_a_request_without_a_turn_is_refused_here():
    with pytest.raises(InvalidRequestError, match="at least one message"):
        build(Message.system("only this"))


def test_an_answer_to_be_continued_does_not_end_in_white_space():
    assert build(Message.user("go"), Message.assistant("I say ")).body["messages"][1]["content"] == [text("I say")]


# Media


def image(**fields):
    return Message.user([part(ContentKind.IMAGE, image=ImageData(**fields))])


def document(**fields):
    return Message.user([part(ContentKind.DOCUMENT, document=DocumentData(**fields))])


def source_of(wire):
    return wire.body["messages"][0]["content"][0]["source"]


def base64_source(data, media_type):
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def test_images(tmp_path):
    path = tmp_path / "shot.jpg"
    path.write_bytes(b"jpeg bytes")
    data_url = "data:image/jpg;base64," + base64.b64encode(PNG).decode()
    assert source_of(build(image(url="https://x.example/a.svg"))) == {"type": "url", "url": "https://x.example/a.svg"}
    assert source_of(build(image(data=PNG))) == base64_source(PNG, "image/png")
    assert source_of(build(image(data=PNG, media_type="image/jpg"))) == base64_source(PNG, "image/jpeg")
    assert source_of(build(image(url=str(path)))) == base64_source(b"jpeg bytes", "image/jpeg")
    assert source_of(build(image(url=data_url))) == base64_source(PNG, "image/jpeg")


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (image(data=b"<svg/>", media_type="image/svg+xml"), InvalidRequestError, r"image/svg\+xml.*image/png"),
        (image(url="gs://bucket/a.png"), InvalidRequestError, "neither a web address nor"),
        (image(url="/no/such/file.png"), ConfigurationError, r"/no/such/file\.png: No such file"),
        (document(data=b"PK", media_type="application/zip"), InvalidRequestError, "application/zip"),
        (Message.user([part(ContentKind.AUDIO, audio=AudioData(data=b"x"))]), InvalidRequestError, "audio"),
    ],
)
def test_media_that_cannot_be_sent_are_refused_here(message, error, said):
    with pytest.raises(error, match=said):
        build(message)


def test_documents():
    wire = build(document(data=b"%PDF-1.7", file_name="paper.pdf"))
    assert wire.body["messages"][0]["content"] == [
        {"type": "document", "source": base64_source(b"%PDF-1.7", "application/pdf"), "title": "paper.pdf"}
    ]
    assert source_of(build(document(data=b"# hi", file_name="notes.md"))) == {
        "type": "text",
        "media_type": "text/plain",
        "data": "# hi",
    }
    assert source_of(build(document(url="https://x.example/a.pdf"))) == {
        "type": "url",
        "url": "https://x.example/a.pdf",
    }


def test_generated_media_are_not_sent_back():
    picture = part(ContentKind.IMAGE, image=ImageData(data=PNG))
    wire = build(Message.user("draw"), Message.assistant([part(ContentKind.TEXT, text="here"), picture]))
    assert wire.body["messages"][1]["content"] == [text("here")]
    assert codes(wire) == ["assistant_media"]


# What comes from a provider and goes back to it


def thinking(value, signature=None, metadata=None, kind=ContentKind.THINKING):
    data = ThinkingData(text=value, signature=signature, redacted=kind is ContentKind.REDACTED_THINKING)
    return part(kind, thinking=data, provider_metadata=metadata)


def test_thinking_goes_back_as_it_came():
    own = {"anthropic": {}}
    wire = build(
        Message.user("go"),
        Message.assistant(
            [
                thinking("hm", "sig1", own),
                thinking("", "sig2", own),
                thinking("by hand", "sig3"),
                thinking("opaque", kind=ContentKind.REDACTED_THINKING),
                part(ContentKind.TEXT, text="so"),
            ]
        ),
    )
    assert wire.body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig1"},
        {"type": "thinking", "thinking": "", "signature": "sig2"},
        {"type": "thinking", "thinking": "by hand", "signature": "sig3"},
        {"type": "redacted_thinking", "data": "opaque"},
        text("so"),
    ]
    assert wire.warnings == ()


@pytest.mark.parametrize(
    "foreign",
    [
        thinking("hm", "sig", {"openai": {"id": "rs_1"}}),
        thinking("x", None, {"openai": {}}, ContentKind.REDACTED_THINKING),
        thinking("unsigned"),
    ],
)
def test_reasoning_of_other_providers_is_left_out_with_a_warning(foreign):
    wire = build(Message.user("go"), Message.assistant([foreign, part(ContentKind.TEXT, text="so")]))
    assert wire.body["messages"][1]["content"] == [text("so")]
    assert codes(wire) == ["foreign_thinking"]


def test_blocks_we_do_not_model_go_back_verbatim():
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted": "E"}], "caller": {"a": 1}}
    own = part("web_search_tool_result", provider_metadata={"anthropic": block})
    foreign = part("code", provider_metadata={"gemini": {}})
    cited = part(ContentKind.TEXT, text="so", provider_metadata={"anthropic": {"citations": [{"n": 1}]}})
    wire = build(Message.user("go"), Message.assistant([own, foreign, cited]))
    assert wire.body["messages"][1]["content"] == [block, text("so", citations=[{"n": 1}])]
    assert codes(wire) == ["foreign_part"]


# Tools


TOOL = {"name": "weather", "description": "Looks at the sky", "input_schema": WEATHER.parameters}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        (ToolChoice(mode="named", tool_name="weather"), {"type": "tool", "name": "weather"}),
    ],
)
def test_tool_choice(choice, sent):
    body = build(tools=[WEATHER], tool_choice=choice).body
    assert body["tools"] == [TOOL]
    assert body.get("tool_choice") == sent


def test_tool_choice_none_leaves_the_tools_out():
    body = build(tools=[WEATHER], tool_choice="none").body
    assert "tools" not in body
    assert "tool_choice" not in body


def test_tool_choice_none_keeps_the_tools_that_the_history_speaks_of():
    history = [Message.user("go"), Message.assistant([call()]), Message.tool_result("t1", "x")]
    body = build(*history, tools=[WEATHER], tool_choice="none").body
    assert (body["tools"], body["tool_choice"]) == ([TOOL], {"type": "none"})


def test_a_choice_without_tools_is_refused_here():
    with pytest.raises(InvalidRequestError, match="needs tools"):
        build(tool_choice="required")


def test_server_tools_are_added_to_the_tools():
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert build(tools=[WEATHER], options={"tools": [search]}).body["tools"] == [TOOL, search]
    assert cached(build(tools=[WEATHER], options={"tools": [search]}, cache=True).body["tools"][1])
    assert "cache_control" not in search


# Options, betas and settings


def test_options_override_and_are_not_changed():
    options = {
        "top_k": 5,
        "max_tokens": 7,
        "auto_cache": False,
        "beta_headers": ["a", "b"],
        "extra_headers": {"x": "1"},
    }
    request = Request(model=MODEL, messages=[Message.user("hi")], provider_options={"anthropic": options, "openai": {}})
    wire = build_request(request)
    assert (wire.body["top_k"], wire.body["max_tokens"]) == (5, 7)
    assert wire.headers == {"x": "1", "anthropic-beta": "a,b"}
    assert request.provider_options["anthropic"]["beta_headers"] == ["a", "b"]
    assert not {"auto_cache", "beta_headers", "extra_headers", "stream"} & wire.body.keys()


def test_metadata_other_than_the_user_is_left_out():
    wire = build(metadata={"user_id": "u1", "team": "x"})
    assert wire.body["metadata"] == {"user_id": "u1"}
    assert codes(wire) == ["metadata_dropped"]


@pytest.mark.parametrize(
    ("model", "fields", "sent", "warned"),
    [
        (MODEL, {"temperature": 0.2, "top_p": 0.5}, {"temperature": 0.2}, ["top_p_dropped"]),
        (MODEL, {"temperature": 1.5}, {"temperature": 1.0}, ["temperature_lowered"]),
        ("claude-3-5-haiku-latest", {"temperature": 0.2, "top_p": 0.5}, {"temperature": 0.2, "top_p": 0.5}, []),
        ("claude-opus-4-8", {"temperature": 0.2, "top_p": 0.5}, {}, ["temperature_dropped", "top_p_dropped"]),
        ("smollm", {"temperature": 0.2, "top_p": 0.5}, {"temperature": 0.2, "top_p": 0.5}, []),
        (MODEL, {"temperature": 0.2, "reasoning_effort": "low"}, {}, ["temperature_dropped"]),
        (MODEL, {"stop_sequences": [" ", "x"]}, {"stop_sequences": ["x"]}, ["stop_dropped"]),
        (MODEL, {"stop_sequences": []}, {}, []),
    ],
)
def test_settings(model, fields, sent, warned):
    wire = build(model=model, **fields)
    assert {key: wire.body[key] for key in ("temperature", "top_p", "stop_sequences") if key in wire.body} == sent
    assert codes(wire) == warned


# Reasoning


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        (MODEL, None, {"max_tokens": 4096}),
        (MODEL, "none", {"max_tokens": 4096}),
        (MODEL, "low", {"max_tokens": 6144, "thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-3-7-sonnet", "high", {"max_tokens": 20480, "thinking": {"type": "enabled", "budget_tokens": 16384}}),
        (
            "claude-opus-4-6",
            "high",
            {"max_tokens": 20480, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        (
            "claude-opus-4-5",
            "minimal",
            {
                "max_tokens": 5120,
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "output_config": {"effort": "low"},
            },
        ),
    ],
)
def test_reasoning_effort(model, effort, sent):
    body = build(model=model, reasoning_effort=effort).body
    assert {key: body[key] for key in ("max_tokens", "thinking", "output_config") if key in body} == sent


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": "claude-3-5-sonnet-20241022"}, "doesn't reason"),
        ({"tools": [WEATHER], "tool_choice": "required"}, "forced tool call"),
        ({"max_tokens": 1000}, "max_tokens above 1024"),
    ],
)
def test_reasoning_that_would_be_refused_is_left_out(fields, reason):
    wire = build(reasoning_effort="high", **fields)
    assert "thinking" not in wire.body
    assert codes(wire) == ["reasoning_effort_dropped"]
    assert reason in wire.warnings[0].message


def test_reasoning_is_not_begun_in_the_middle_of_tool_calls():
    history = [Message.user("go"), Message.assistant([call()]), Message.tool_result("t1", "x")]
    assert "thinking" not in build(*history, tools=[WEATHER], reasoning_effort="low").body
    signed = Message.assistant([thinking("hm", "sig"), call()])
    assert "thinking" in build(history[0], signed, history[2], tools=[WEATHER], reasoning_effort="low").body


def test_thinking_in_the_apis_own_terms_wins():
    own = {"type": "enabled", "budget_tokens": 10_000}
    body = build(reasoning_effort="low", options={"thinking": own}).body
    assert (body["thinking"], body["max_tokens"]) == (own, 14_096)


# Structured output


def json_schema(schema=SCHEMA):
    return ResponseFormat(type="json_schema", json_schema=schema)


def test_native_structured_output():
    wire = build(response_format=json_schema(), reasoning_effort="low", model="claude-opus-4-6")
    closed = {**SCHEMA, "additionalProperties": False}
    assert wire.body["output_config"] == {"format": {"type": "json_schema", "schema": closed}, "effort": "low"}
    assert wire.answer_tool is None


def test_structured_output_through_a_forced_tool():
    wire = build(response_format=json_schema(), model="claude-3-5-haiku")
    assert wire.answer_tool == "structured_output"
    assert [tool["input_schema"] for tool in wire.body["tools"]] == [SCHEMA]
    assert wire.body["tool_choice"] == {"type": "tool", "name": "structured_output"}
    with_tools = build(response_format=json_schema(), model="claude-3-5-haiku", tools=[WEATHER])
    assert [tool["name"] for tool in with_tools.body["tools"]] == ["weather", "structured_output"]
    assert with_tools.body["tool_choice"] == {"type": "any"}


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": json_schema({"type": "array", "items": {"type": "string"}}), "model": "claude-3-5-haiku"},
        {"response_format": json_schema(), "model": "claude-3-7-sonnet", "options": {"thinking": {"type": "enabled"}}},
        {"response_format": ResponseFormat(type="json")},
    ],
)
def test_structured_output_through_instructions(fields):
    wire = build(Message.system("Be brief"), Message.user("hi"), **fields)
    assert wire.body["system"][0] == text("Be brief")
    assert "JSON" in wire.body["system"][1]["text"]
    assert wire.answer_tool is None
    assert "tools" not in wire.body


def test_a_schema_is_closed_and_its_constraints_are_spoken():
    schema = {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "description": "Years"},
            "pet": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"type": "null"}]},
        },
        "$defs": {
            "Cat": {"type": "object", "properties": {"lives": {"type": "integer"}}, "additionalProperties": True}
        },
    }
    assert close_schema(schema) == {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "description": "Years (minimum: 0)"},
            "pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"type": "null"}]},
        },
        "$defs": {
            "Cat": {"type": "object", "properties": {"lives": {"type": "integer"}}, "additionalProperties": False}
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"not": {"type": "null"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}},
        },
    ],
)
def test_a_schema_that_cannot_be_closed_is_not_sent_natively(schema):
    assert close_schema(schema) is None
    assert build(response_format=json_schema(schema)).answer_tool == "structured_output"


# Prompt caching


def cached(block):
    return block.get("cache_control") == {"type": "ephemeral"}


def test_breakpoints_on_system_tools_and_last_user_turn():
    wire = build(
        Message.system("a"),
        Message.system("b"),
        Message.user("one"),
        Message.assistant("two"),
        Message.user([part(ContentKind.TEXT, text="three"), part(ContentKind.TEXT, text="four")]),
        tools=[WEATHER, Tool(name="clock", description="Time")],
        cache=True,
        options={"beta_headers": ["x"]},
    )
    assert [cached(block) for block in wire.body["system"]] == [False, True]
    assert [cached(tool) for tool in wire.body["tools"]] == [False, True]
    assert [[cached(block) for block in turn["content"]] for turn in wire.body["messages"]] == [
        [False],
        [False],
        [False, True],
    ]
    assert wire.headers["anthropic-beta"] == "prompt-caching-2024-07-31,x"


def test_caching_can_be_turned_off():
    wire = build(Message.system("a"), Message.user("b"), tools=[WEATHER], cache=False)
    assert count_breakpoints(wire.body) == 0
    assert "anthropic-beta" not in wire.headers


def test_a_breakpoint_of_the_callers_own_brings_the_header():
    mine = part(ContentKind.TEXT, text="a", provider_metadata={"anthropic": {"cache_control": {"type": "ephemeral"}}})
    assert build(Message.user([mine])).headers == {"anthropic-beta": "prompt-caching-2024-07-31"}


@given(st.integers(0, 6), st.booleans(), st.booleans())
def test_never_more_than_four_breakpoints_unless_the_caller_wants_more(own, system, tools):
    mark = {"anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}}
    messages = [Message.user([part(ContentKind.TEXT, text=str(n), provider_metadata=mark)]) for n in range(own)]
    wire = build(
        *([Message.system("s")] if system else []),
        *messages,
        Message.user("last"),
        tools=[WEATHER] if tools else None,
        cache=True,
    )
    count = count_breakpoints(wire.body)
    assert count == max(own, min(4, own + 1 + system + tools))


# Models


@pytest.mark.parametrize(
    ("model", "thinking_mode", "effort", "structured", "sampling"),
    [
        ("claude-2.1", "none", False, False, "both"),
        ("claude-3-5-sonnet-20241022", "none", False, False, "both"),
        ("claude-3-7-sonnet-latest", "budget", False, False, "both"),
        ("claude-opus-4-20250514", "budget", False, False, "both"),
        ("claude-sonnet-4@20250514", "budget", False, False, "both"),
        ("claude-opus-4-1-20250805", "budget", False, False, "one"),
        ("claude-haiku-4-5-20251001", "budget", False, True, "one"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "budget", False, True, "one"),
        ("claude-opus-4-5", "budget", True, True, "one"),
        ("claude-sonnet-4-6", "adaptive", True, True, "one"),
        ("anthropic/claude-opus-4.7", "adaptive", True, True, "none"),
        ("claude-sonnet-5", "adaptive", True, True, "none"),
        ("claude-mythos-preview", "adaptive", True, True, "none"),
        ("MiniMax-M2", "budget", False, False, "both"),
    ],
)
def test_features_follow_from_the_name(model, thinking_mode, effort, structured, sampling):
    features = features_of(model)
    assert (features.thinking, features.effort) == (thinking_mode, effort)
    assert (features.structured_output, features.sampling) == (structured, sampling)


# The adapter


async def test_what_the_adapter_sends():
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(200, json={"id": "m", "model": MODEL, "content": [], "stop_reason": "end_turn"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        for base_url in ("http://host", "http://host/", "http://host/v1"):
            adapter = AnthropicAdapter(
                api_key="secret",
                base_url=base_url,
                default_headers={"X-Team": "blue", "Anthropic-Beta": "always"},
                http_client=client,
            )
            await adapter.complete(Request(model=MODEL, messages=[Message.user("hi")]))
    assert {str(request.url) for request in sent} == {"http://host/v1/messages"}
    headers = sent[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"], headers["x-team"]) == ("secret", "2023-06-01", "blue")
    assert headers["anthropic-beta"] == "always,prompt-caching-2024-07-31"


async def test_an_adapter_without_a_key_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="api_key"):
        await AnthropicAdapter(api_key="").initialize()


async def test_another_name_is_another_providers_options():
    adapter = AnthropicAdapter(api_key="k", name="claude_at_home")
    assert adapter.name == "claude_at_home"
    options = {"claude_at_home": {"top_k": 1}, "anthropic": {"top_k": 2}}
    request = Request(model=MODEL, messages=[Message.user("hi")], provider_options=options)
    assert build_request(request, provider=adapter.name).body["top_k"] == 1


def test_every_tool_choice_is_supported():
    adapter = AnthropicAdapter(api_key="k")
    assert all(adapter.supports_tool_choice(mode) for mode in ("auto", "none", "required", "named"))
    assert not adapter.supports_tool_choice("sometimes")


def test_results_in_a_users_message_are_results_too():
    result = part(ContentKind.TOOL_RESULT, tool_result=ToolResultData(tool_call_id="t1", content="x"))
    note = part(ContentKind.TEXT, text="note")
    wire = build(Message.user("go"), Message.assistant([call()]), Message(role=Role.USER, content=[note, result]))
    assert [block["type"] for block in wire.body["messages"][2]["content"]] == ["tool_result", "text"]


def test_a_tool_message_of_text_is_the_result_of_its_call():
    message = Message(role=Role.TOOL, content=[part(ContentKind.TEXT, text="sunny")], tool_call_id="t1")
    wire = build(Message.user("go"), Message.assistant([call()]), message)
    assert wire.body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}]
