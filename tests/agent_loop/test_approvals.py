"""Approvals between validation and execution (sections 3.8 and 8)."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import (
    Allow,
    ApprovalRequest,
    Approver,
    Ask,
    Deny,
    EventKind,
    LocalExecutionEnvironment,
    ProviderProfile,
    ReadBeforeWrite,
    Session,
    SessionState,
    ToolResultsTurn,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_profile,
)
from unified_llm import Client, Response
from unified_llm.testing import ScriptedAdapter, respond


def call(name: str, **arguments: Any) -> Response:
    return respond(tool_calls=[(name, arguments)])


def start(directory: Path, *steps: Any, profile: ProviderProfile | None = None, **options: Any) -> Session:
    profile = profile or create_anthropic_profile("m")
    client = Client({profile.id: ScriptedAdapter(*steps, "Done.", name=profile.id)})
    return Session(profile, LocalExecutionEnvironment(directory), client=client, **options)


def results(session: Session) -> list[tuple[str, bool]]:
    turns = [turn for turn in session.history if isinstance(turn, ToolResultsTurn)]
    return [(str(result.content), result.is_error) for turn in turns for result in turn.results]


TOUCH = call("shell", command="touch made")


async def test_a_denied_call_is_not_executed_and_the_model_reads_why(tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []

    def no_shell(request: ApprovalRequest) -> Allow | Deny:
        seen.append((request.tool_name, request.arguments))
        return Deny("no commands here") if request.tool_name == "shell" else Allow()

    calls = [TOUCH, call("shell"), call("nonsense"), call("glob", pattern="*")]
    async with start(tmp_path, *calls, approvers=[no_shell]) as session:
        await session.submit("go")
    assert results(session)[0] == ("Denied: no commands here", True)
    assert not (tmp_path / "made").exists()
    # Only calls that could be executed are put before approvers.
    assert seen == [("shell", {"command": "touch made"}), ("glob", {"pattern": "*"})]
    ends = [event.data async for event in session.events() if event.kind is EventKind.TOOL_CALL_END]
    assert ends[0]["error"] == "Denied: no commands here"


@pytest.mark.parametrize(("answer", "made"), [(Allow(), True), (Deny("the user said no"), False)])
async def test_the_host_is_asked(tmp_path: Path, answer: Allow | Deny, made: bool) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Ask:
        return Ask(f"run {request.arguments['command']}?")

    async def ask_host(request: ApprovalRequest, question: str) -> Allow | Deny:
        asked.append(question)
        return answer

    async with start(tmp_path, TOUCH, approvers=[approver], ask_host=ask_host) as session:
        await session.submit("go")
    assert asked == ["run touch made?"]
    assert (tmp_path / "made").exists() is made
    assert results(session)[0][1] is not made


async def test_without_a_host_asking_is_denial_and_a_denial_spares_the_question(tmp_path: Path) -> None:
    ask: Approver = lambda request: Ask("may I?")  # noqa: E731
    async with start(tmp_path, TOUCH, approvers=[ask]) as session:
        await session.submit("go")
    assert results(session) == [("Denied: this needs a permission that nobody is here to give (may I?)", True)]

    def never(request: ApprovalRequest, question: str) -> Allow:
        raise AssertionError("asked although denied")

    async with start(tmp_path, TOUCH, approvers=[ask, lambda request: Deny("no")], ask_host=never) as session:
        await session.submit("go")
    assert results(session) == [("Denied: no", True)]


async def test_an_approver_that_fails_stops_the_call(tmp_path: Path) -> None:
    def broken(request: ApprovalRequest) -> Allow:
        raise ValueError("a bug")

    async with start(tmp_path, TOUCH, approvers=[broken]) as session:
        await session.submit("go")
    assert results(session) == [("Tool error (shell): a bug", True)]
    assert not (tmp_path / "made").exists()


async def test_an_abort_ends_the_waiting_for_an_answer(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def ask_host(request: ApprovalRequest, question: str) -> Allow:
        asked.set()
        await anyio.sleep_forever()
        return Allow()

    session = start(tmp_path, TOUCH, approvers=[lambda request: Ask("?")], ask_host=ask_host)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.submit, "go")
        await asked.wait()
        await session.abort()
    assert session.state is SessionState.CLOSED
    assert not (tmp_path / "made").exists()


async def test_subagents_are_bound_by_the_same_approvals(tmp_path: Path) -> None:
    steps = [call("spawn_agent", task="t"), TOUCH, "child done", call("wait", agent_id="agent-1")]
    session = start(tmp_path, approvers=[lambda request: Deny("no") if request.tool_name == "shell" else Allow()])
    parent, child = ScriptedAdapter(steps[0], steps[3], "Done."), ScriptedAdapter(*steps[1:3])

    class Both:
        async def complete(self, request: Any) -> Response:
            return await (child if request.messages[1].text == "t" else parent).complete(request)

    session.llm_client = Both()  # type: ignore[assignment]
    async with session:
        await session.submit("go")
    assert not (tmp_path / "made").exists()
    assert "child done" in results(session)[1][0]


@pytest.mark.parametrize("read", ["read_file", "read_many_files"])
async def test_read_before_write(tmp_path: Path, read: str) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    edit = call("edit_file", file_path="old.txt", old_string="old", new_string="new")
    reading = {
        "read_file": call(read, file_path=f"{tmp_path}/old.txt"),
        "read_many_files": call(read, include=["old.txt"]),
    }
    async with start(
        tmp_path,
        edit,
        call("write_file", file_path="./old.txt", content="x"),
        call("write_file", file_path="fresh.txt", content="x"),
        call("write_file", file_path="fresh.txt", content="y"),
        reading[read],
        edit,
        profile=create_gemini_profile("m"),
        approvers=[ReadBeforeWrite()],
    ) as session:
        await session.submit("go")
    assert [is_error for _, is_error in results(session)] == [True, True, False, False, False, False]
    assert f"{tmp_path}/old.txt exists, but you haven't read it" in results(session)[0][0]
    assert (tmp_path / "old.txt").read_text() == "new\n"
    assert (tmp_path / "fresh.txt").read_text() == "y"


async def test_read_before_write_knows_patches_and_keeps_sessions_apart(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    patch = call("apply_patch", patch="*** Begin Patch\n*** Add File: g\n+x\n*** Update File: f\n-a\n+b\n*** End Patch")
    guard = ReadBeforeWrite()
    profile = create_openai_profile("m")
    async with start(tmp_path, call("read_file", file_path="f"), profile=profile, approvers=[guard]) as first:
        await first.submit("go")
    async with start(
        tmp_path, patch, call("read_file", file_path="f"), patch, profile=profile, approvers=[guard]
    ) as second:
        await second.submit("go")
    assert [is_error for _, is_error in results(second)] == [True, False, False]
    assert (tmp_path / "f").read_text() == "b\n"


async def test_read_before_write_looks_behind_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "settings").write_text("precious")
    session = start(
        tmp_path,
        call("write_file", file_path="~/settings", content="gone"),
        call("read_file", file_path="~/settings"),
        call("write_file", file_path="~/settings", content="changed"),
        "Done.",
        approvers=[ReadBeforeWrite()],
    )
    async with session:
        await session.submit("Go.")
    assert [is_error for _, is_error in results(session)] == [True, False, False]
    assert (tmp_path / "settings").read_text() == "changed"
