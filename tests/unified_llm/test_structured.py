"""generate_object() and stream_object() (sections 4.5 and 4.6)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel
from unified_llm import (
    Client,
    ConfigurationError,
    NoObjectGeneratedError,
    ResponseFormat,
    ServerError,
    Tool,
    generate_object,
    stream_object,
)
from unified_llm.api.structured import parse_partial
from unified_llm.testing import ScriptedAdapter, respond

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
ALICE = '{"name": "Alice", "age": 30}'


class Person(BaseModel):
    name: str
    age: int


def client_of(adapter: ScriptedAdapter) -> Client:
    return Client({"scripted": adapter}, "scripted")


async def test_the_output_is_parsed_and_the_schema_is_sent() -> None:
    with ScriptedAdapter(ALICE) as adapter:
        result = await generate_object("m", "who?", schema=PERSON, client=client_of(adapter))
        assert adapter.requests[0].response_format == ResponseFormat(
            type="json_schema", json_schema=PERSON, strict=True
        )
    assert result.output == {"name": "Alice", "age": 30}
    assert result.text == ALICE


async def test_a_model_class_is_a_schema_too() -> None:
    with ScriptedAdapter(ALICE, ALICE) as adapter:
        result = await generate_object("m", "who?", schema=Person, client=client_of(adapter))
        assert result.output == Person(name="Alice", age=30)
        assert await stream_object("m", "who?", schema=Person, client=client_of(adapter)).object() == result.output


@pytest.mark.parametrize("text", [f"```json\n{ALICE}\n```", f"```\n{ALICE}```\n", f"\n {ALICE} "])
async def test_a_markdown_fence_around_the_object_is_forgiven(text: str) -> None:
    with ScriptedAdapter(text, text) as adapter:
        assert (await generate_object("m", "?", schema=PERSON, client=client_of(adapter))).output["age"] == 30
        assert (await stream_object("m", "?", schema=PERSON, client=client_of(adapter)).object())["age"] == 30


@pytest.mark.parametrize(
    ("answer", "schema", "message"),
    [
        ("I don't know", PERSON, "it is not JSON"),
        ('{"name": "Alice"}', PERSON, "'age' is a required property"),
        ('{"name": "Alice", "age": "old"}', PERSON, r"at \$\.age: 'old' is not of type 'integer'"),
        ('{"name": "Alice", "age": "old"}', Person, "doesn't match Person: age: "),
        ("nonsense", Person, "doesn't match Person: Invalid JSON"),
        (respond("", finish_reason="content_filter"), PERSON, "no text.*'content_filter'"),
        (respond('{"name": "Al', finish_reason="length"), PERSON, "not JSON.*'length'"),
        ("[" * 100_000, PERSON, "not JSON"),
    ],
)
async def test_an_unusable_answer_is_an_error_and_not_retried(answer: Any, schema: Any, message: str) -> None:
    with ScriptedAdapter(answer) as adapter, pytest.raises(NoObjectGeneratedError, match=message) as caught:
        await generate_object("m", "?", schema=schema, client=client_of(adapter))
    assert caught.value.raw is not None
    assert caught.value.raw["text"] == (answer if isinstance(answer, str) else answer.text)


async def test_a_wrong_schema_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError, match=r"schema is not a valid JSON Schema, at \$\.type"):
        await generate_object("m", "?", schema={"type": "objekt"}, client=Client())
    for schema in ({"type": "array"}, {"type": "string"}, {"type": ["array", "object"]}):
        with pytest.raises(ConfigurationError, match="schema must have an object at its root"):
            await generate_object("m", "?", schema=schema, client=Client())
    with pytest.raises(ConfigurationError, match="schema must have an object at its root"):
        stream_object("m", "?", schema=RootModel[list[int]], client=Client())
    with pytest.raises(ConfigurationError, match="response_format and schema"):
        stream_object("m", "?", schema=PERSON, response_format=ResponseFormat(type="json"), client=Client())


async def test_partial_objects_grow_to_the_final_one() -> None:
    with ScriptedAdapter(ALICE) as adapter:
        async with stream_object("m", "?", schema=PERSON, client=client_of(adapter)) as result:
            partials = [partial async for partial in result]
            assert partials == [{}, {"name": "Alice"}, {"name": "Alice", "age": 30}]
            assert await result.object() == partials[-1]
        assert (await result.response()).text == ALICE


async def test_tools_may_run_before_the_object_comes() -> None:
    tool = Tool(name="look", description="look", execute=lambda: "Alice, 30")
    with ScriptedAdapter(respond("{wait", tool_calls=[("look", {})]), ALICE) as adapter:
        result = stream_object("m", "?", schema=PERSON, tools=[tool], client=client_of(adapter))
        assert [partial async for partial in result][-1] == {"name": "Alice", "age": 30}


async def test_errors_of_the_stream_pass_through() -> None:
    with ScriptedAdapter(ServerError("down")) as adapter:
        result = stream_object("m", "?", schema=PERSON, max_retries=0, client=client_of(adapter))
        with pytest.raises(ServerError, match="down"):
            async for _ in result:
                pass
        with pytest.raises(ServerError, match="down"):
            await result.object()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=st.dictionaries(st.text(), JSON), fenced=st.booleans(), ascii_only=st.booleans())
def test_every_beginning_of_an_object_parses(value: Any, fenced: bool, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    if fenced:
        text = f"```json\n{text}\n```"
    for end in range(len(text)):
        partial = parse_partial(text[:end])
        assert partial is None or partial.keys() <= value.keys()
    assert parse_partial(text) == value


@pytest.mark.parametrize("schema", [None, 5, "object", True, int, dict, {"type": "object", "default": object()}])
async def test_what_is_no_schema_is_refused_before_anything_is_sent(schema: Any) -> None:
    with ScriptedAdapter() as adapter:
        with pytest.raises(ConfigurationError, match="schema"):
            await generate_object("m", "hi", schema=schema, client=client_of(adapter))
        with pytest.raises(ConfigurationError, match="schema"):
            stream_object("m", "hi", schema=schema, client=client_of(adapter))


async def test_a_schema_that_leads_nowhere_but_to_itself_fits_nothing() -> None:
    with ScriptedAdapter(ALICE) as adapter, pytest.raises(NoObjectGeneratedError, match="refers to itself"):
        await generate_object("m", "hi", schema={"$ref": "#"}, client=client_of(adapter))


async def test_a_dialect_that_nobody_knows_is_read_as_the_newest() -> None:
    with ScriptedAdapter(ALICE) as adapter:
        schema = {"$schema": "https://example.invalid/schema", **PERSON}
        result = await generate_object("m", "hi", schema=schema, client=client_of(adapter))
    assert result.output == {"name": "Alice", "age": 30}


async def test_half_a_character_in_the_object_is_replaced() -> None:
    with ScriptedAdapter(r'{"name": "A\ud83d", "age": 30}') as adapter:
        result = await generate_object("m", "hi", schema=PERSON, client=client_of(adapter))
    assert result.output["name"] == "A\ufffd"
