"""The integration smoke test (section 8.10): six calls that any program makes, on each provider.

Always against the provider's own wire format, played here; and against the provider itself where SMOKE_TEST is set in
the environment beside its key, which costs a few cents.
"""

import importlib.util
import os
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from unified_llm import (
    Client,
    ContentKind,
    ContentPart,
    ImageData,
    Message,
    NotFoundError,
    Tool,
    generate,
    generate_object,
    stream,
)

_spec = importlib.util.spec_from_file_location("native_wire", Path(__file__).with_name("native_wire.py"))
assert _spec is not None
assert _spec.loader is not None
wire: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = wire
_spec.loader.exec_module(wire)
Say, Refuse = wire.Say, wire.Refuse

PROVIDERS = ("anthropic", "openai", "gemini")
PLACES = [
    pytest.param((provider, where), id=f"{provider}-{where}") for provider in PROVIDERS for where in ("wire", "real")
]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@dataclass
class Place:
    """Where calls go. `script` says what the played provider answers next; a real one knows by itself."""

    provider: str
    client: Client
    script: list[Any] = field(default_factory=list)

    def expect(self, *answers: Any) -> dict[str, Any]:
        self.script += answers
        return {"model": wire.model_of(self.provider), "provider": self.provider, "client": self.client}


@pytest.fixture
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    provider, where = request.param
    if where == "real":
        yield Place(provider, real_client(provider, os.environ))
        return
    script: list[Any] = []
    server = wire.NativeServer(provider, *[lambda _: script.pop(0)] * 2)
    yield Place(provider, server.client(), script)
    assert script == []


def real_client(provider: str, environ: Mapping[str, str]) -> Client:
    if "SMOKE_TEST" not in environ:
        pytest.skip("SMOKE_TEST is not set: no provider is called")
    client = Client.from_env(environ)
    if provider not in client.providers:
        pytest.skip(f"no key for {provider} in the environment")
    return client


every_place = pytest.mark.parametrize("place", PLACES, indirect=True)


def png(width: int = 32, height: int = 32) -> bytes:
    """A red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\xff\x00\x00" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@every_place
async def test_step_1_basic_generation(place: Place) -> None:
    call = place.expect(Say("Hello to you."))
    result = await generate(prompt="Say hello in one sentence.", max_tokens=1000, **call)
    assert result.text
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0
    assert result.finish_reason.reason == "stop"


@every_place
async def test_step_2_streaming(place: Place) -> None:
    result = stream(prompt="Write a haiku.", **place.expect(Say("Waves come in and go.")))
    texts = [text async for text in result.text_stream]
    assert texts
    assert "".join(texts) == (await result.response()).text


@every_place
async def test_step_3_tools_in_parallel(place: Place) -> None:
    def weather(location: str) -> str:
        return f"18 degrees and sunny in {location}"

    schema = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
    tool = Tool(name="weather", description="The weather at a place.", parameters=schema, execute=weather)
    places = ("San Francisco", "New York")
    call = place.expect(
        Say(calls=[(f"call_{number}", "weather", {"location": name}) for number, name in enumerate(places)]),
        Say("It is 18 degrees in San Francisco and New York."),
    )
    prompt = "What is the weather in San Francisco and New York?"
    result = await generate(prompt=prompt, tools=[tool], max_tool_rounds=3, **call)
    assert len(result.steps) >= 2
    assert "San Francisco" in result.text
    assert "New York" in result.text


@every_place
async def test_step_4_image_input(place: Place) -> None:
    image = ContentPart(kind=ContentKind.IMAGE, image=ImageData(data=png(), media_type="image/png"))
    question = ContentPart(kind=ContentKind.TEXT, text="What do you see?")
    call = place.expect(Say("A red square."))
    assert (await generate(messages=[Message.user([question, image])], **call)).text


@every_place
async def test_step_5_structured_output(place: Place) -> None:
    call = place.expect(Say('{"name": "Alice", "age": 30}'))
    result = await generate_object(prompt="Extract: Alice is 30 years old", schema=PERSON, **call)
    assert result.output == {"name": "Alice", "age": 30}


@every_place
async def test_step_6_an_unknown_model_is_not_found(place: Place) -> None:
    call = place.expect(Refuse(404))
    with pytest.raises(NotFoundError):
        await generate(prompt="test", **{**call, "model": "nonexistent-model-xyz"})
