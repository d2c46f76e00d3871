"""The matrix of section 9.12: each profile does each task, over HTTP, in its provider's own wire format.

The provider is a server on loopback that plays a script; adapters, sessions, files and commands are real.
"""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from agent_loop import (
    EventKind,
    LocalExecutionEnvironment,
    ProviderProfile,
    Session,
    SessionConfig,
    SessionEvent,
    StopReason,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_profile,
)
from unified_llm import AnthropicAdapter, Client, OpenAIAdapter
from unified_llm.providers.gemini.adapter import GeminiAdapter

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

Json = dict[str, Any]
Call = tuple[str, Json]
Step = str | list[Call] | Callable[[], "str | list[Call]"]


class Anthropic:
    """The Messages API."""

    profile = staticmethod(create_anthropic_profile)

    @staticmethod
    def adapter(url: str) -> Any:
        return AnthropicAdapter(api_key="k", base_url=url)

    @staticmethod
    def answer(answer: str | list[Call]) -> list[Json]:
        blocks: list[tuple[Json, Json]] = []
        if isinstance(answer, str):
            blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": answer}))
        for number, (name, arguments) in enumerate(answer if isinstance(answer, list) else []):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
            blocks.append((block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
        events: list[Json] = []
        for index, (block, delta) in enumerate(blocks):
            events += [
                {"type": "content_block_start", "index": index, "content_block": block},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        usage = {"input_tokens": 7, "output_tokens": 1}
        reason = "end_turn" if isinstance(answer, str) else "tool_use"
        return [
            {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
            *events,
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]

    @staticmethod
    def messages(body: Json) -> list[Json]:
        return list(body["messages"])

    @staticmethod
    def first_text(body: Json) -> str:
        return str(body["messages"][0]["content"][0]["text"])


class OpenAI:
    """The Responses API."""

    profile = staticmethod(create_openai_profile)

    @staticmethod
    def adapter(url: str) -> Any:
        return OpenAIAdapter(api_key="k", base_url=f"{url}/v1")

    @staticmethod
    def answer(answer: str | list[Call]) -> list[Json]:
        events: list[Json] = []
        items: list[Json] = []
        if isinstance(answer, str):
            item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
            part = {"type": "output_text", "text": answer, "annotations": []}
            where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            items.append({**item, "content": [part]})
            events += [
                {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
                {"type": "response.output_text.delta", **where, "delta": answer},
                {"type": "response.output_item.done", "output_index": 0, "item": items[0]},
            ]
        for index, (name, arguments) in enumerate(answer if isinstance(answer, list) else []):
            item = {"id": f"fc_{index}", "type": "function_call", "call_id": f"call_{index}", "name": name}
            text = json.dumps(arguments)
            items.append({**item, "arguments": text, "status": "completed"})
            where = {"item_id": f"fc_{index}", "output_index": index}
            events += [
                {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
                {"type": "response.function_call_arguments.delta", **where, "delta": text},
                {"type": "response.output_item.done", "output_index": index, "item": items[-1]},
            ]
        response = {"id": "resp_1", "object": "response", "model": "m", "error": None}
        usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
        return [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            *events,
            {
                "type": "response.completed",
                "response": {**response, "status": "completed", "output": items, "usage": usage},
            },
        ]

    @staticmethod
    def messages(body: Json) -> list[Json]:
        return list(body["input"])

    @staticmethod
    def first_text(body: Json) -> str:
        content = body["input"][0]["content"]
        return str(content if isinstance(content, str) else content[0]["text"])


class Gemini:
    """generateContent, streamed."""

    profile = staticmethod(create_gemini_profile)

    @staticmethod
    def adapter(url: str) -> Any:
        return GeminiAdapter(api_key="k", base_url=url)

    @staticmethod
    def answer(answer: str | list[Call]) -> list[Json]:
        if isinstance(answer, str):
            parts: list[Json] = [{"text": answer}]
        else:
            parts = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in answer]
        usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        return [{"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}]

    @staticmethod
    def messages(body: Json) -> list[Json]:
        return list(body["contents"])

    @staticmethod
    def first_text(body: Json) -> str:
        return str(body["contents"][0]["parts"][0]["text"])


Wire = type[Anthropic] | type[OpenAI] | type[Gemini]


@dataclass
class Provider:
    """Plays scripts, told apart by the first word of a conversation."""

    wire: Wire
    scripts: dict[str, list[Step]] = field(default_factory=dict)
    bodies: list[Json] = field(default_factory=list)
    url: str = ""

    def answer(self, body: Json) -> list[Json]:
        self.bodies.append(body)
        step = self.scripts[self.wire.first_text(body).split()[0]].pop(0)
        return self.wire.answer(step() if callable(step) else step)

    def told(self, index: int = -1) -> str:
        """What the last message, or for the Responses API item, of a request says."""
        return json.dumps(self.wire.messages(self.bodies[index]), ensure_ascii=False)

    def settings(self, index: int) -> str:
        """A request without its messages and tools."""
        body = dict(self.bodies[index])
        for name in ("messages", "input", "contents", "tools", "system", "instructions", "systemInstruction"):
            body.pop(name, None)
        return json.dumps(body).lower()


@pytest.fixture(params=[OpenAI, Anthropic, Gemini], ids=["openai", "anthropic", "gemini"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    provider = Provider(request.param)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            frames = []
            for event in provider.answer(body):
                frames.append(f"event: {event['type']}\n" if "type" in event else "")
                frames.append(f"data: {json.dumps(event)}\n\n")
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write("".join(frames).encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield provider
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Agent:
    """A session that talks to the provider."""

    session: Session
    provider: Provider

    async def do(self, *steps: Step, **others: list[Step]) -> list[SessionEvent]:
        """Submit an input whose answers are given, and return all events."""
        self.provider.scripts = {"go": list(steps), **others}
        result = await self.session.submit("go")
        assert result.error is None
        assert result.stop_reason is StopReason.COMPLETED
        assert not any(self.provider.scripts.values()), "steps of the script were not played"
        await self.session.close()
        return [event async for event in self.session.events()]


@pytest.fixture
async def agent(provider: Provider, tmp_path: Path) -> AsyncIterator[Agent]:
    profile: ProviderProfile = provider.wire.profile()
    async with Client({profile.id: provider.wire.adapter(provider.url)}) as client:
        environment = LocalExecutionEnvironment(tmp_path)
        async with Session(profile, environment, client=client, config=SessionConfig()) as session:
            yield Agent(session, provider)


def outputs(events: list[SessionEvent]) -> list[Any]:
    ends = [event.data for event in events if event.kind is EventKind.TOOL_CALL_END]
    return [data.get("output", data.get("error")) for data in ends]


def edit(agent: Agent, path: str, old: str, new: str) -> Call:
    """One line replaced, in the way of the profile."""
    if agent.session.provider_profile.id == "openai":
        patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"
        return "apply_patch", {"patch": patch}
    return "edit_file", {"file_path": path, "old_string": old, "new_string": new}


def shell(command: str, **more: Any) -> Call:
    return "shell", {"command": command, **more}


HELLO: Call = ("write_file", {"file_path": "hello.py", "content": "print('Hello')\n"})


async def test_simple_file_creation(agent: Agent, tmp_path: Path) -> None:
    events = await agent.do([HELLO], "Done.")
    assert (tmp_path / "hello.py").read_text() == "print('Hello')\n"
    assert "Created hello.py" in agent.provider.told()
    deltas = [event.data["delta"] for event in events if event.kind is EventKind.ASSISTANT_TEXT_DELTA]
    assert "".join(deltas) == "Done."
    assert agent.session.usage.total_tokens == 24


async def test_read_then_edit(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("a = 1\nb = 2\n")
    await agent.do([("read_file", {"file_path": "f.py"})], [edit(agent, "f.py", "b = 2", "b = 3")], "Done.")
    assert "2 | b = 2" in agent.provider.told(1)
    assert (tmp_path / "f.py").read_text() == "a = 1\nb = 3\n"


async def test_edits_of_several_files(agent: Agent, tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("old\n")
    await agent.do([edit(agent, "one.txt", "old", "1"), edit(agent, "two.txt", "old", "2")], "Done.")
    assert [(tmp_path / name).read_text() for name in ("one.txt", "two.txt")] == ["1\n", "2\n"]


async def test_shell_command(agent: Agent) -> None:
    await agent.do([shell("echo out; echo err >&2; exit 3")], "It failed.")
    assert "out\\nerr\\n[exit code 3" in agent.provider.told()


async def test_shell_timeout(agent: Agent) -> None:
    await agent.do([shell("echo part; sleep 30", timeout_ms=100)], "Too slow.")
    assert "part\\n[ERROR: Command timed out after 100ms." in agent.provider.told()


async def test_grep_and_glob(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("needle = 1\n")
    await agent.do([("glob", {"pattern": "**/*.py"})], [("grep", {"pattern": "needle"})], "Found.")
    assert f"{tmp_path}/src/a.py" in agent.provider.told(1)
    assert "src/a.py:1:needle = 1" in agent.provider.told(2)


async def test_several_steps(agent: Agent, tmp_path: Path) -> None:
    await agent.do(
        [HELLO],
        [("read_file", {"file_path": "hello.py"})],
        [edit(agent, "hello.py", "print('Hello')", "print('Goodbye')")],
        [shell("python3 hello.py")],
        "It says goodbye.",
    )
    assert "Goodbye\\n[exit code 0" in agent.provider.told()
    assert len(agent.provider.bodies) == 5


async def test_output_is_truncated_for_the_model_alone(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("x" * 100_000)
    events = await agent.do([("read_file", {"file_path": "big.txt"})], "Big.")
    assert outputs(events) == ["1 | " + "x" * 100_000]
    assert "[WARNING: Tool output was truncated. 50004 characters" in agent.provider.told()
    assert len(agent.provider.told()) < 60_000


async def test_calls_run_together(agent: Agent, tmp_path: Path) -> None:
    meet = "touch {0}; for i in $(seq 500); do [ -e {1} ] && exit 0; sleep 0.01; done; exit 1"
    await agent.do([shell(meet.format("a", "b")), shell(meet.format("b", "a"))], "Met.")
    assert agent.provider.told().count("[exit code 0") == 2


async def test_steering_in_the_midst(agent: Agent) -> None:
    def steer() -> list[Call]:
        agent.session.steer("turn left")
        return [shell("true")]

    events = await agent.do(steer, "Left it is.")
    assert "turn left" in json.dumps(agent.provider.wire.messages(agent.provider.bodies[1])[-1])
    assert EventKind.STEERING_INJECTED in [event.kind for event in events]


async def test_effort_changes_between_calls(agent: Agent) -> None:
    agent.session.config.reasoning_effort = "low"

    def change() -> list[Call]:
        agent.session.config.reasoning_effort = "high"
        return [shell("true")]

    await agent.do(change, "Done.")
    assert '"low"' in agent.provider.settings(0)
    assert '"high"' in agent.provider.settings(1)


async def test_subagent_is_spawned_and_waited_for(agent: Agent, tmp_path: Path) -> None:
    events = await agent.do(
        [("spawn_agent", {"task": "child: write hello.py"})],
        [("wait", {"agent_id": "agent-1"})],
        "The child has done it.",
        **{"child:": [[HELLO], "I wrote it."]},
    )
    assert (tmp_path / "hello.py").exists()
    assert json.loads(outputs(events)[1])["output"] == "I wrote it."
    assert "I wrote it." in agent.provider.told()


async def test_loop_is_noticed(agent: Agent) -> None:
    agent.session.config.loop_detection_window = 4
    events = await agent.do(*[[shell("true")]] * 4, "I will stop.")
    assert EventKind.LOOP_DETECTION in [event.kind for event in events]
    assert "Loop detected" in agent.provider.told()


async def test_a_failed_call_is_tried_again(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("real\n")
    await agent.do([edit(agent, "f.txt", "imagined", "x")], [edit(agent, "f.txt", "real", "x")], "Done.")
    assert "was changed" in agent.provider.told(1)
    assert (tmp_path / "f.txt").read_text() == "x\n"


async def test_editing_format_of_the_provider(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_bytes(b"one\r\ntwo\r\nthree")
    await agent.do([edit(agent, "f.txt", "two", "2")], "Done.")
    assert (tmp_path / "f.txt").read_bytes() == b"one\r\n2\r\nthree"
    tools = json.dumps(agent.provider.bodies[0]["tools"])
    assert ("apply_patch" in tools, "edit_file" in tools) == (
        (True, False) if agent.session.provider_profile.id == "openai" else (False, True)
    )


async def test_the_smoke_test(agent: Agent, tmp_path: Path) -> None:
    """The seven steps of section 9.13, in one session."""
    session, provider = agent.session, agent.provider
    asked = ["create", "edit", "run", "read", "flask", "spawn", "sleep"]

    async def submit(text: str, *steps: Step, **others: list[Step]) -> str:
        # All answers are found by how the conversation began.
        provider.scripts = {"create": list(steps), **others}
        result = await session.submit(text)
        assert (result.error, result.stop_reason) == (None, StopReason.COMPLETED)
        return provider.told()

    await submit(asked[0], [HELLO], "Created.")
    assert "Hello" in await session.execution_env.read_file("hello.py")

    plus = "+" if session.provider_profile.id == "openai" else ""
    second = f"print('Hello')\n{plus}print('Goodbye')"
    goodbye = edit(agent, "hello.py", "print('Hello')", second)
    assert "1 | print('Hello')" in await submit(
        asked[1], [("read_file", {"file_path": "hello.py"})], [goodbye], "Done."
    )
    assert (tmp_path / "hello.py").read_text() == "print('Hello')\nprint('Goodbye')\n"

    assert "Hello\\nGoodbye\\n[exit code 0" in await submit(asked[2], [shell("python3 hello.py")], "It greets.")

    await session.execution_env.write_file("big.txt", "x" * 100_000)
    assert "[WARNING: Tool output was truncated." in await submit(
        asked[3], [("read_file", {"file_path": "big.txt"})], "Big."
    )

    def steer() -> list[Call]:
        session.steer("Just a single /health endpoint")
        return [shell("true")]

    health: Call = ("write_file", {"file_path": "app.py", "content": "# /health\n"})
    assert "Just a single /health endpoint" in await submit(asked[4], steer, [health], "Only that, then.")

    tests: Call = ("write_file", {"file_path": "test_hello.py", "content": "import hello\n"})
    told = await submit(
        asked[5],
        [("spawn_agent", {"task": "child: write tests for hello.py"})],
        [("wait", {"agent_id": "agent-1"})],
        "Reviewed.",
        **{"child:": [[tests], "I wrote test_hello.py."]},
    )
    assert "I wrote test_hello.py." in told
    assert (tmp_path / "test_hello.py").exists()

    # Nobody should have to wait for the profile's own.
    session.config.max_command_timeout_ms = 100
    assert "[ERROR: Command timed out after 100ms." in await submit(asked[6], [shell("sleep 30")], "Too slow.")

    await session.close()
    found = [event async for event in session.events()]
    assert [event.data["content"] for event in found if event.kind is EventKind.USER_INPUT] == asked
    called = [event.data["tool_name"] for event in found if event.kind is EventKind.TOOL_CALL_START]
    assert called[-5:] == ["shell", "write_file", "spawn_agent", "wait", "shell"]
    assert "1 | " + "x" * 100_000 in outputs(found)
