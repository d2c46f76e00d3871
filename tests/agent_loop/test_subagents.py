"""Subagents (sections 7 and 9.9), through the tools that a model calls."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import (
    EventKind,
    LocalExecutionEnvironment,
    ProviderProfile,
    RegisteredTool,
    Session,
    SessionConfig,
    SessionState,
    StopReason,
    SubAgentStatus,
    ToolDefinition,
    ToolError,
    ToolResultsTurn,
    UserTurn,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_compatible_profile,
    create_openai_profile,
)
from agent_loop.subagents import SpawnRequest
from unified_llm import AuthenticationError, Client, Request, Response
from unified_llm.testing import ScriptedAdapter, events_of, respond

BOTH_BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
ANSWER = respond().usage.total_tokens
NAMES = ["spawn_agent", "send_input", "wait", "close_agent"]
Reply = Callable[[Request], Any]


class Models:
    """One adapter for a parent and its children, each of which is known by the first thing that it was told."""

    def __init__(self, **scripts: list[Any]) -> None:
        self.name = "anthropic"
        self.adapters = {name: ScriptedAdapter(*steps) for name, steps in scripts.items()}

    def _of(self, request: Request) -> ScriptedAdapter:
        return self.adapters[request.messages[1].text.split()[0]]

    async def complete(self, request: Request) -> Response:
        return await self._of(request).complete(request)

    def stream(self, request: Request) -> Any:
        return self._of(request).stream(request)

    def requests(self, name: str) -> list[Request]:
        return self.adapters[name].requests


def start(directory: Path, models: Models, **options: Any) -> Session:
    profile = options.pop("profile", None) or create_anthropic_profile("test-model")
    adapter: Any = models
    client = Client({"anthropic": adapter})
    return Session(profile, LocalExecutionEnvironment(directory), client=client, **options)


def call(*calls: tuple[str, dict[str, Any]]) -> Response:
    return respond(tool_calls=list(calls))


def spawn(task: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "spawn_agent", {"task": task, **arguments}


def wait(number: int = 1) -> tuple[str, dict[str, Any]]:
    return "wait", {"agent_id": f"agent-{number}"}


def results(session: Session) -> list[Any]:
    """What each call of the session came to: parsed where it is JSON."""
    found = []
    for turn in session.history:
        for result in turn.results if isinstance(turn, ToolResultsTurn) else ():
            text = str(result.content)
            found.append(json.loads(text) if text.startswith("{") else text)
    return found


@pytest.mark.parametrize(
    "profile",
    [
        create_openai_profile(),
        create_anthropic_profile(),
        create_gemini_profile(),
        create_openai_compatible_profile("m"),
    ],
    ids=lambda profile: profile.id,
)
def test_every_profile_offers_them(profile: ProviderProfile) -> None:
    assert profile.tool_registry.names()[-4:] == NAMES


@BOTH_BACKENDS
async def test_a_subagent_works_in_the_same_files_with_a_history_of_its_own(tmp_path: Path) -> None:
    models = Models(
        parent=[call(spawn("child write a file")), call(wait()), "All done."],
        child=[call(("write_file", {"file_path": "made.txt", "content": "by the child\n"})), "I wrote made.txt."],
    )
    async with start(tmp_path, models) as session:
        assert (await session.submit("parent go")).text == "All done."
        assert (tmp_path / "made.txt").read_text() == "by the child\n"
        handle = session.subagents.handles["agent-1"]
        assert isinstance(handle.session, Session)
        assert handle.status is SubAgentStatus.COMPLETED
        assert isinstance(handle.session.history[0], UserTurn)
        assert handle.session.history[0].content == "child write a file"
        assert handle.session.state is SessionState.IDLE
    assert results(session) == [
        {"agent_id": "agent-1", "status": "running"},
        {
            "agent_id": "agent-1",
            "output": "I wrote made.txt.",
            "success": True,
            "turns_used": 2,
            "reason": "completed",
        },
    ]
    assert "working as a subagent" in models.requests("child")[0].messages[0].text
    assert not set(NAMES) & {tool.name for tool in models.requests("child")[0].tools or []}
    assert handle.session.state is SessionState.CLOSED


@BOTH_BACKENDS
async def test_subagents_run_beside_each_other_and_the_parent(tmp_path: Path) -> None:
    arrived = [anyio.Event(), anyio.Event()]

    def meet(number: int) -> Reply:
        async def pause() -> None:
            arrived[number].set()
            with anyio.fail_after(5):
                await arrived[1 - number].wait()

        return lambda request: [pause, *events_of(respond(f"met {number}"))]

    models = Models(
        parent=[call(spawn("one"), spawn("two")), call(wait(2), wait(1)), "Done."], one=[meet(0)], two=[meet(1)]
    )
    async with start(tmp_path, models) as session:
        await session.submit("parent go")
    assert {result["output"] for result in results(session)[2:]} == {"met 1", "met 0"}


async def test_working_dir_model_and_max_turns(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/f.txt").write_text("needle\n")
    (tmp_path / "g.txt").write_text("needle\n")
    forever = call(("shell", {"command": "pwd"}), ("grep", {"pattern": "needle"}), ("glob", {"pattern": "*.txt"}))
    models = Models(
        parent=[call(spawn("child", working_dir="sub", model="other-model", max_turns=3)), call(wait()), "Done."],
        child=[forever] * 3,
    )
    async with start(tmp_path, models) as session:
        await session.submit("parent go")
        child = session.subagents.handles["agent-1"].session
        assert isinstance(child, Session)
        pwd, grep, glob = results(child)[:3]
    assert pwd.startswith(f"{tmp_path}/sub\n")
    assert grep == "f.txt:1:needle"
    assert glob == f"{tmp_path}/sub/f.txt"
    assert [request.model for request in models.requests("child")] == ["other-model"] * 3
    assert f"Working directory: {tmp_path}/sub\n" in models.requests("child")[0].messages[0].text
    assert models.requests("parent")[1].model == "test-model"
    assert results(session)[1] == {
        "agent_id": "agent-1",
        "output": "",
        "success": False,
        "turns_used": 3,
        "reason": "turn_limit",
    }


async def test_without_a_limit_there_is_one(tmp_path: Path) -> None:
    models = Models(parent=[call(spawn("child")), call(wait()), "Done."], child=[call(("nonsense", {}))] * 4)
    config = SessionConfig(subagent_max_turns=4, enable_loop_detection=False)
    async with start(tmp_path, models, config=config) as session:
        await session.submit("parent go")
    assert SessionConfig().subagent_max_turns == 50
    assert (results(session)[1]["reason"], results(session)[1]["turns_used"]) == ("turn_limit", 4)


async def test_an_error_of_a_child_is_a_result(tmp_path: Path) -> None:
    models = Models(
        parent=[call(spawn("child")), call(wait()), call(wait()), call(("close_agent", {"agent_id": "agent-1"})),
                call(("close_agent", {"agent_id": "agent-1"})), call(wait()), call(wait(7)),
                call(("send_input", {"agent_id": "agent-1", "message": "x"})), "Done."],
        child=[AuthenticationError("bad key")],
    )  # fmt: skip
    async with start(tmp_path, models) as session:
        result = await session.submit("parent go")
    assert result.stop_reason is StopReason.COMPLETED
    failed = {
        "agent_id": "agent-1",
        "output": "",
        "success": False,
        "turns_used": 0,
        "reason": "AuthenticationError: bad key",
    }
    closed = {"agent_id": "agent-1", "status": "failed"}
    assert results(session)[1:6] == [failed, failed, closed, closed, failed]
    assert "there is no subagent 'agent-7'; the subagents are: agent-1" in results(session)[6]
    assert "agent-1 is closed" in results(session)[7]


@BOTH_BACKENDS
async def test_send_input_steers_or_gives_more_to_do(tmp_path: Path) -> None:
    waiting, sent = anyio.Event(), anyio.Event()

    async def until_sent() -> None:
        waiting.set()
        await sent.wait()

    async def until_waiting() -> None:
        await waiting.wait()

    def late(*items: Any, then: Response) -> list[Any]:
        return [*items, *events_of(then)]

    def released(request: Request) -> Response:
        sent.set()
        return call(wait())

    def send(text: str) -> tuple[str, dict[str, Any]]:
        return "send_input", {"agent_id": "agent-1", "message": text}

    models = Models(
        parent=[call(spawn("child")), late(until_waiting, then=call(send("left"))), released, call(send("more")),
                call(wait()), "Done."],
        child=[late(until_sent, then=respond("First.")), "Turned left.", "More done."],
    )  # fmt: skip
    async with start(tmp_path, models) as session:
        await session.submit("parent go")
    outputs = [result["output"] for result in results(session) if "output" in result]
    assert outputs == ["Turned left.", "More done."]
    told = [message.text for message in models.requests("child")[2].messages[1:]]
    assert told == ["child", "First.", "left", "Turned left.", "more"]


async def test_depth_is_limited(tmp_path: Path) -> None:
    models = Models(
        parent=[call(spawn("child")), call(wait()), "Done."],
        child=[call(spawn("grandchild")), call(wait()), "Child done."],
        grandchild=[call(spawn("never")), "Grandchild done."],
    )
    async with start(tmp_path, models) as session:
        await session.submit("parent go")
        assert isinstance(child := session.subagents.handles["agent-1"].session, Session)
        assert results(child)[0].startswith("Unknown tool: spawn_agent")
    models = Models(
        parent=[call(spawn("child")), call(wait()), "Done."],
        child=[call(spawn("grandchild")), call(wait()), "Child done."],
        grandchild=[call(spawn("never")), "Grandchild done."],
    )
    async with start(tmp_path, models, config=SessionConfig(max_subagent_depth=2)) as session:
        await session.submit("parent go")
        assert isinstance(child := session.subagents.handles["agent-1"].session, Session)
        assert results(child)[1]["output"] == "Grandchild done."
    async with start(
        tmp_path, Models(parent=[call(spawn("x")), "Ok."]), config=SessionConfig(max_subagent_depth=0)
    ) as session:
        await session.submit("parent go")
    assert "nested deeper than 0" in results(session)[0]


@pytest.mark.parametrize(
    ("directory", "message"),
    [("..", "must be a subdirectory"), ("/etc", "must be a subdirectory"), ("nowhere", "no such directory")],
)
async def test_a_wrong_working_dir_is_refused(tmp_path: Path, directory: str, message: str) -> None:
    async with start(tmp_path, Models(parent=[call(spawn("x", working_dir=directory)), "Ok."])) as session:
        await session.submit("parent go")
    assert message in results(session)[0]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def read_pid(path: Path) -> int:
    with anyio.fail_after(5):
        while not (found := path.read_text().strip() if path.exists() else ""):
            await anyio.sleep(0.01)
    return int(found)


LONG = call(("shell", {"command": "sleep 300 & echo $! > pid; wait", "timeout_ms": 600_000}))


@BOTH_BACKENDS
@pytest.mark.parametrize("end", ["abort", "close"])
async def test_aborting_the_parent_ends_its_children_first(tmp_path: Path, end: str) -> None:
    models = Models(parent=[call(spawn("child")), call(wait())], child=[LONG])
    session = start(tmp_path, models)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "parent go")
        pid = await read_pid(tmp_path / "pid")
        with anyio.fail_after(3):
            await getattr(session, end)()
    assert not is_alive(pid)
    child = session.subagents.handles["agent-1"].session
    assert isinstance(child, Session)
    assert child.state is SessionState.CLOSED
    ends = [[event async for event in one.events()][-1] for one in (child, session)]
    assert [event.kind for event in ends] == [EventKind.SESSION_END] * 2
    assert ends[0].timestamp <= ends[1].timestamp
    assert len(models.requests("parent")) == 2


@BOTH_BACKENDS
async def test_a_childs_tool_may_abort_the_parent(tmp_path: Path) -> None:
    models = Models(parent=[call(spawn("child")), call(wait())], child=[call(("stop", {}))])
    session = start(tmp_path, models)

    async def stop(arguments: dict[str, Any], environment: Any) -> str:
        await session.abort()
        return "unreachable"

    definition = ToolDefinition(name="stop", description="stop")
    session.provider_profile.tool_registry.register(RegisteredTool(definition, stop))
    with anyio.fail_after(5):
        result = await session.submit("parent go")
    assert result.stop_reason is StopReason.ABORTED
    assert session.state is SessionState.CLOSED
    assert session.subagents.handles["agent-1"].status is SubAgentStatus.FAILED


@BOTH_BACKENDS
async def test_what_still_runs_when_the_input_ends_is_stopped_and_said(tmp_path: Path) -> None:
    async def until_running() -> None:
        await read_pid(tmp_path / "pid")

    models = Models(
        parent=[
            call(spawn("child")),
            [until_running, *events_of(respond("Done without waiting."))],
            call(wait()),
            "Ok.",
        ],
        child=[LONG],
    )
    async with start(tmp_path, models) as session:
        assert (await session.submit("parent go")).text == "Done without waiting."
        assert not is_alive(int((tmp_path / "pid").read_text()))
        assert session.state is SessionState.IDLE
        await session.submit("and the child?")
    warnings = [event.data["message"] async for event in session.events() if event.kind is EventKind.WARNING]
    assert warnings == ["Subagent agent-1 was still running when the input ended, and was stopped."]
    assert results(session)[1]["success"] is False


@BOTH_BACKENDS
async def test_cancelling_the_parents_submit_ends_its_children(tmp_path: Path) -> None:
    models = Models(parent=[call(spawn("child")), call(wait()), "Still here."], child=[LONG])
    async with start(tmp_path, models) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.submit, "parent go")
            pid = await read_pid(tmp_path / "pid")
            tasks.cancel_scope.cancel()
        assert not is_alive(pid)
        assert session.state is SessionState.IDLE
        assert (await session.submit("and now?")).text == "Still here."


async def test_an_error_of_the_parent_comes_out_as_it_is(tmp_path: Path) -> None:
    async def until_running() -> None:
        await read_pid(tmp_path / "pid")
        raise AuthenticationError("bad key")

    models = Models(parent=[call(spawn("child")), [until_running]], child=[LONG])
    session = start(tmp_path, models)
    result = await session.submit("parent go")
    assert isinstance(result.error, AuthenticationError)
    assert session.state is SessionState.CLOSED
    assert not is_alive(int((tmp_path / "pid").read_text()))


@BOTH_BACKENDS
async def test_an_idle_session_spawns_nothing_and_still_closes(tmp_path: Path) -> None:
    session = start(tmp_path, Models())
    with pytest.raises(ToolError, match="while the session processes an input"):
        await session.subagents.spawn(SpawnRequest(task="CHILD work"))
    assert not session.subagents.handles
    with anyio.fail_after(5):
        await session.close()
    assert session.state is SessionState.CLOSED


async def test_what_children_use_is_counted_with_what_the_session_used(tmp_path: Path) -> None:
    models = Models(
        parent=[call(spawn("child look")), call(wait()), "Done.", "Again."],
        child=[call(spawn("grandchild look")), call(wait()), "Looked."],
        grandchild=["Seen."],
    )
    async with start(tmp_path, models, config=SessionConfig(max_subagent_depth=2)) as session:
        await session.submit("parent go")
        assert session.usage.total_tokens == 3 * ANSWER
        assert session.total_usage.total_tokens == 7 * ANSWER
        result = session.subagents.handles["agent-1"].result
        assert result is not None
        assert result.usage.total_tokens == 4 * ANSWER
        await session.submit("go on")
        await session.close()
        ends = [event.data["usage"] async for event in session.events() if event.kind is EventKind.PROCESSING_END]
    assert [usage.total_tokens for usage in ends] == [7 * ANSWER, 8 * ANSWER]
    assert "usage" not in results(session)[1]
