"""A session from outside: inputs, limits, steering, errors, the end (sections 2 and 9)."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from agent_loop import (
    AssistantTurn,
    EventKind,
    LocalExecutionEnvironment,
    RegisteredTool,
    Session,
    SessionConfig,
    SessionError,
    SessionEvent,
    SessionState,
    SteeringTurn,
    StopReason,
    SystemTurn,
    ToolDefinition,
    ToolOutput,
    ToolResultsTurn,
    UserTurn,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_profile,
)
from agent_loop.profiles import ProviderProfile
from unified_llm import (
    AuthenticationError,
    Client,
    ContentKind,
    ContentPart,
    ContextLengthError,
    Message,
    RateLimitError,
    Request,
    Response,
    RetryPolicy,
    Role,
    ServerError,
    ThinkingData,
    Warning,
)
from unified_llm.testing import ScriptedAdapter, events_of, respond

BOTH_BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
AT_ONCE = RetryPolicy(max_retries=2, base_delay=0, jitter=False)


def start(directory: Path, *steps: Any, profile: ProviderProfile | None = None, **options: Any) -> Session:
    adapter = ScriptedAdapter(*steps, name="anthropic")
    return Session(
        profile or create_anthropic_profile("test-model"),
        LocalExecutionEnvironment(directory),
        client=Client({"anthropic": adapter}),
        retry_policy=AT_ONCE,
        **options,
    )


def definition_of(properties: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(name="custom", description="Custom.", parameters={"type": "object", "properties": properties})


def requests(session: Session) -> list[Request]:
    adapter = session.llm_client.providers["anthropic"]
    assert isinstance(adapter, ScriptedAdapter)
    return adapter.requests


async def events(session: Session) -> list[SessionEvent]:
    """All events of a session, which is closed for that."""
    await session.close()
    return [event async for event in session.events()]


def kinds(found: list[SessionEvent]) -> list[EventKind]:
    return [event.kind for event in found]


def of_kind(found: list[SessionEvent], kind: EventKind) -> list[SessionEvent]:
    return [event for event in found if event.kind is kind]


def call(name: str, **arguments: Any) -> Response:
    return respond(tool_calls=[(name, arguments)])


def tool(name: str, executor: Callable[..., Any], **properties: Any) -> RegisteredTool:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return RegisteredTool(ToolDefinition(name=name, description=name, parameters=parameters), executor)


@BOTH_BACKENDS
async def test_events_of_a_turn_in_order(tmp_path: Path) -> None:
    session = start(tmp_path, call("shell", command="echo hi"), "All done.")
    async with session:
        result = await session.submit("say hi")
    assert (result.text, result.stop_reason, result.error) == ("All done.", StopReason.COMPLETED, None)
    found = await events(session)
    assert kinds(found) == [
        EventKind.SESSION_START,
        EventKind.USER_INPUT,
        EventKind.ASSISTANT_TEXT_START,
        EventKind.ASSISTANT_TEXT_END,
        EventKind.TOOL_CALL_START,
        EventKind.TOOL_CALL_OUTPUT_DELTA,
        EventKind.TOOL_CALL_END,
        EventKind.ASSISTANT_TEXT_START,
        EventKind.ASSISTANT_TEXT_DELTA,
        EventKind.ASSISTANT_TEXT_DELTA,
        EventKind.ASSISTANT_TEXT_END,
        EventKind.PROCESSING_END,
        EventKind.SESSION_END,
    ]
    assert [type(turn) for turn in session.history] == [UserTurn, AssistantTurn, ToolResultsTurn, AssistantTurn]
    assert {event.session_id for event in found} == {session.id}
    assert found[5].data == {"call_id": "call_1", "delta": "hi\n"}
    assert found[6].data["output"].startswith("hi\n[exit code 0, ")


async def test_file_is_created_read_edited_and_run(tmp_path: Path) -> None:
    session = start(
        tmp_path,
        call("write_file", file_path="hello.py", content="print('Hello')\n"),
        call("read_file", file_path="hello.py"),
        call(
            "edit_file",
            file_path="hello.py",
            old_string="print('Hello')\n",
            new_string="print('Hello')\nprint('Bye')\n",
        ),
        call("shell", command="python3 hello.py"),
        "Done.",
    )
    async with session:
        await session.submit("go")
    assert (tmp_path / "hello.py").read_text() == "print('Hello')\nprint('Bye')\n"
    results = [turn.results[0] for turn in session.history if isinstance(turn, ToolResultsTurn)]
    assert not any(result.is_error for result in results)
    assert results[1].content == "1 | print('Hello')"
    assert "Hello\nBye\n[exit code 0" in str(results[3].content)


async def test_request_carries_what_the_profile_and_the_configuration_say(tmp_path: Path) -> None:
    session = start(
        tmp_path,
        "Good.",
        "Better.",
        profile=create_anthropic_profile("test-model", beta_headers=["context-1m"]),
        config=SessionConfig(reasoning_effort="high", user_instructions="Speak Latin."),
    )
    async with session:
        await session.submit("one")
        session.config.reasoning_effort = "low"
        session.provider_profile.model = "other-model"
        await session.submit("two")
    first, second = requests(session)
    assert (first.model, first.provider, first.reasoning_effort) == ("test-model", "anthropic", "high")
    assert (second.model, second.reasoning_effort) == ("other-model", "low")
    assert first.tool_choice is not None
    assert first.tool_choice.mode == "auto"
    assert [one.name for one in first.tools or []] == session.provider_profile.tool_registry.names()
    assert first.provider_options == {"anthropic": {"beta_headers": ["context-1m"]}}
    assert [message.role for message in second.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER]
    assert first.messages[0].text.endswith("Speak Latin.")


async def test_inputs_follow_one_another(tmp_path: Path) -> None:
    session = start(tmp_path, "First.", "Second.")
    async with session:
        assert (await session.submit("one")).text == "First."
        assert session.state is SessionState.IDLE
        assert (await session.submit("two")).text == "Second."
    assert [message.text for message in requests(session)[1].messages[1:]] == ["one", "First.", "two"]


async def test_thinking_goes_back_as_it_came(tmp_path: Path) -> None:
    thinking = ContentPart(
        kind=ContentKind.THINKING,
        thinking=ThinkingData(text="hm", signature="sealed"),
        provider_metadata={"anthropic": {"opaque": [1]}},
    )
    answer = call("shell", command="true")
    answer = answer.model_copy(update={"message": Message.assistant([thinking, *answer.message.content])})
    session = start(tmp_path, answer, "Done.")
    async with session:
        await session.submit("go")
    assert requests(session)[1].messages[2].content == answer.message.content
    assert isinstance(session.history[1], AssistantTurn)
    assert session.history[1].reasoning == "hm"


async def test_round_limit_counts_per_input(tmp_path: Path) -> None:
    steps = [call("shell", command="true")] * 4
    session = start(tmp_path, *steps, config=SessionConfig(max_tool_rounds_per_input=2))
    async with session:
        for _ in range(2):
            assert (await session.submit("go")).stop_reason is StopReason.ROUND_LIMIT
            assert session.state is SessionState.IDLE
    assert [event.data for event in of_kind(await events(session), EventKind.TURN_LIMIT)] == [{"round": 2}] * 2
    assert len(requests(session)) == 4


async def test_turn_limit_counts_over_the_session(tmp_path: Path) -> None:
    session = start(tmp_path, "One.", call("shell", command="true"), config=SessionConfig(max_turns=2))
    async with session:
        assert (await session.submit("go")).stop_reason is StopReason.COMPLETED
        assert (await session.submit("go")).stop_reason is StopReason.TURN_LIMIT
        assert (await session.submit("go")).stop_reason is StopReason.TURN_LIMIT
    assert of_kind(await events(session), EventKind.TURN_LIMIT)[0].data == {"total_turns": 2}
    assert len(requests(session)) == 2


async def test_question_awaits_the_user(tmp_path: Path) -> None:
    session = start(tmp_path, "Which **colour**?\n", "Red it is.", "Really?", config=SessionConfig())
    async with session:
        assert (await session.submit("paint")).stop_reason is StopReason.AWAITING_INPUT
        assert session.state is SessionState.AWAITING_INPUT
        assert (await session.submit("red")).stop_reason is StopReason.COMPLETED
        session.config.awaits_input = lambda text: False
        assert (await session.submit("sure")).stop_reason is StopReason.COMPLETED
    ends = of_kind(await events(session), EventKind.PROCESSING_END)
    assert [event.data["state"] for event in ends] == ["awaiting_input", "idle", "idle"]


async def test_the_host_is_listened_to_before_each_request(tmp_path: Path) -> None:
    session = start(tmp_path, call("note"), call("note"), "Done.")
    session.listen = iter(["before all", "", " turn left\n"]).__next__
    session.provider_profile.tool_registry.register(tool("note", lambda arguments, environment: "ok"))
    async with session:
        await session.submit("go")
    said = [[message.text for message in one.messages if message.role is Role.USER] for one in requests(session)]
    assert said == [["go", "before all"], ["go", "before all"], ["go", "before all", "turn left"]]


async def test_steering_comes_after_the_round_in_progress(tmp_path: Path) -> None:
    session = start(tmp_path, call("steer_me"), "Done.", "Again.")

    def steer(arguments: dict[str, Any], environment: Any) -> str:
        session.steer("turn left")
        return "ok"

    session.provider_profile.tool_registry.register(tool("steer_me", steer))
    async with session:
        await session.submit("go")
        session.steer("before the next")
        await session.submit("on")
    assert [message.role for message in requests(session)[1].messages[1:]] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
    ]
    assert requests(session)[1].messages[-1].text == "turn left"
    assert [message.text for message in requests(session)[2].messages[-2:]] == ["on", "before the next"]
    assert [type(turn) for turn in session.history][3] is SteeringTurn
    steered = of_kind(await events(session), EventKind.STEERING_INJECTED)
    assert [event.data["content"] for event in steered] == ["turn left", "before the next"]


async def test_follow_ups_are_inputs_of_their_own(tmp_path: Path) -> None:
    session = start(tmp_path, "One.", "Two.", "Three.")
    async with session:
        session.follow_up("second")
        session.follow_up("third")
        assert (await session.submit("first")).text == "Three."
    inputs = of_kind(await events(session), EventKind.USER_INPUT)
    assert [event.data["content"] for event in inputs] == ["first", "second", "third"]


async def test_misuse_is_refused(tmp_path: Path) -> None:
    session = start(tmp_path, call("again"), "Done.")
    refused: list[SessionError] = []

    async def submit_again(arguments: dict[str, Any], environment: Any) -> str:
        with pytest.raises(SessionError, match="still processing") as raised:
            await session.submit("again")
        refused.append(raised.value)
        return "refused"

    session.provider_profile.tool_registry.register(tool("again", submit_again))
    async with session:
        await session.submit("go")
    assert len(refused) == 1
    for misuse in (session.steer, session.follow_up):
        with pytest.raises(SessionError, match="closed"):
            misuse("too late")
    with pytest.raises(SessionError, match="closed"):
        await session.submit("too late")


async def test_a_blank_message_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    session = start(tmp_path, "Done.")
    async with session:
        for misuse in (session.steer, session.follow_up):
            with pytest.raises(SessionError, match="message is empty"):
                misuse("")
        with pytest.raises(SessionError, match="message is empty"):
            await session.submit(" \n")
        assert (await session.submit("go")).text == "Done."
    assert [message.text for message in requests(session)[0].messages[1:]] == ["go"]


async def test_loop_is_told_to_the_model_but_not_stopped(tmp_path: Path) -> None:
    steps = [call("shell", command="true")] * 4
    session = start(tmp_path, *steps, "Done.", config=SessionConfig(loop_detection_window=4))
    async with session:
        assert (await session.submit("go")).text == "Done."
    assert len(of_kind(await events(session), EventKind.LOOP_DETECTION)) == 1
    assert requests(session)[4].messages[-1].text.startswith("Loop detected: the last 4 tool calls")
    assert isinstance(session.history[-2], SteeringTurn)


async def test_loop_detection_can_be_off(tmp_path: Path) -> None:
    config = SessionConfig(loop_detection_window=2, enable_loop_detection=False)
    session = start(tmp_path, *[call("shell", command="true")] * 3, "Done.", config=config)
    async with session:
        await session.submit("go")
    assert not of_kind(await events(session), EventKind.LOOP_DETECTION)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"file_path": "x', "not valid JSON"),
        ("[1,2]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"file_path": 3}', "3 is not of type 'string'"),
        ("", "'file_path' is a required property"),
    ],
)
async def test_bad_arguments_come_back_to_the_model(tmp_path: Path, arguments: str, message: str) -> None:
    session = start(tmp_path, respond(tool_calls=[("read_file", arguments)]), "I see.")
    async with session:
        result = await session.submit("go")
    assert result.stop_reason is StopReason.COMPLETED
    replayed = requests(session)[1].messages[2].content[0].tool_call
    assert replayed is not None
    assert isinstance(replayed.arguments, dict)
    answer = requests(session)[1].messages[3].content[0].tool_result
    assert answer is not None
    assert answer.is_error
    assert str(answer.content).startswith("Invalid arguments for tool: read_file: ")
    assert message in str(answer.content)


async def test_unknown_and_failing_tools_come_back_to_the_model(tmp_path: Path) -> None:
    def fail(arguments: dict[str, Any], environment: Any) -> str:
        raise ValueError("no such luck")

    session = start(tmp_path, respond(tool_calls=[("nonsense", {}), ("fail", {})]), "I see.")
    session.provider_profile.tool_registry.register(tool("fail", fail))
    async with session:
        await session.submit("go")
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert [result.is_error for result in turn.results] == [True, True]
    assert str(turn.results[0].content).startswith("Unknown tool: nonsense")
    assert turn.results[1].content == "Tool error (fail): no such luck"
    ends = of_kind(await events(session), EventKind.TOOL_CALL_END)
    assert {event.data["error"] for event in ends} == {result.content for result in turn.results}


async def test_model_reads_less_than_the_events_hold(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("x" * 100_000)
    session = start(tmp_path, call("read_file", file_path="big.txt"), "Big.")
    async with session:
        await session.submit("go")
    (end,) = of_kind(await events(session), EventKind.TOOL_CALL_END)
    assert end.data["output"] == "1 | " + "x" * 100_000
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert "[WARNING: Tool output was truncated. 50004 characters" in str(turn.results[0].content)


async def test_images_are_handed_to_the_model(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG pretend")
    session = start(tmp_path, call("read_file", file_path="dot.png"), "A dot.")
    async with session:
        await session.submit("look")
    result = requests(session)[1].messages[3].content[0].tool_result
    assert result is not None
    assert (result.image_data, result.image_media_type) == (b"\x89PNG pretend", "image/png")


@BOTH_BACKENDS
async def test_calls_run_together_and_results_keep_their_order(tmp_path: Path) -> None:
    met = [anyio.Event(), anyio.Event()]

    async def meet(arguments: dict[str, Any], environment: Any) -> str:
        number = arguments["number"]
        met[number].set()
        with anyio.fail_after(5):
            await met[1 - number].wait()
        return f"met {number}"

    session = start(tmp_path, respond(tool_calls=[("meet", {"number": 1}), ("meet", {"number": 0})]), "Done.")
    session.provider_profile.tool_registry.register(tool("meet", meet, number={"type": "integer"}))
    async with session:
        await session.submit("go")
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert [result.content for result in turn.results] == ["met 1", "met 0"]


@BOTH_BACKENDS
async def test_edits_of_one_file_run_in_the_models_order(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("0\n")
    edits = [
        ("edit_file", {"file_path": path, "old_string": f"{number}\n", "new_string": f"{number + 1}\n"})
        for number, path in enumerate(["file", "./file", "file", "./file", "file"])
    ]
    session = start(tmp_path, respond(tool_calls=edits), "Done.")
    async with session:
        await session.submit("go")
    assert (tmp_path / "file").read_text() == "5\n"


async def test_calls_run_one_by_one_where_the_profile_says_so(tmp_path: Path) -> None:
    running: list[int] = []

    async def alone(arguments: dict[str, Any], environment: Any) -> ToolOutput:
        running.append(1)
        await anyio.lowlevel.checkpoint()
        assert sum(running) == 1
        running.append(-1)
        return ToolOutput(text="ok")

    session = start(tmp_path, respond(tool_calls=[("alone", {})] * 3), "Done.")
    session.provider_profile.supports_parallel_tool_calls = False
    session.provider_profile.tool_registry.register(tool("alone", alone))
    async with session:
        await session.submit("go")
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert not any(result.is_error for result in turn.results)


async def test_later_tool_of_the_same_name_wins(tmp_path: Path) -> None:
    session = start(tmp_path, call("shell"), "Done.")
    session.provider_profile.tool_registry.register(tool("shell", lambda arguments, environment: "mine"))
    async with session:
        await session.submit("go")
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert turn.results[0].content == "mine"


async def test_transient_errors_are_retried(tmp_path: Path) -> None:
    session = start(tmp_path, RateLimitError("slow down"), ServerError("oops"), "Here.")
    async with session:
        assert (await session.submit("go")).text == "Here."
    assert len(requests(session)) == 3
    assert not of_kind(await events(session), EventKind.ERROR)


async def test_used_up_retries_leave_the_session_usable(tmp_path: Path) -> None:
    session = start(tmp_path, *[ServerError("oops")] * 3, "Back.")
    async with session:
        result = await session.submit("go")
        assert result.stop_reason is StopReason.ERROR
        assert isinstance(result.error, ServerError)
        assert session.state is SessionState.IDLE
        assert (await session.submit("again")).text == "Back."
    (error,) = of_kind(await events(session), EventKind.ERROR)
    assert error.data == {"message": "oops", "error": "ServerError"}


@pytest.mark.parametrize(
    "answer",
    [respond("Half of an answer"), respond(reasoning="Half a thought"), call("shell", command="half")],
    ids=["text", "reasoning", "call"],
)
async def test_a_stream_that_has_begun_is_not_retried(tmp_path: Path, answer: Response) -> None:
    broken = [*events_of(answer)[:3], ServerError("gone")]
    session = start(tmp_path, broken)
    async with session:
        result = await session.submit("go")
    assert isinstance(result.error, ServerError)
    assert len(requests(session)) == 1


async def test_context_overflow_is_a_warning(tmp_path: Path) -> None:
    session = start(tmp_path, ContextLengthError("too long"))
    async with session:
        result = await session.submit("go")
        assert isinstance(result.error, ContextLengthError)
        assert session.state is SessionState.IDLE
    found = await events(session)
    assert "too long" in of_kind(found, EventKind.WARNING)[0].data["message"]
    assert not of_kind(found, EventKind.ERROR)


@pytest.mark.parametrize("error", [AuthenticationError("bad key"), RuntimeError("a bug")])
async def test_other_errors_close_the_session(tmp_path: Path, error: Exception) -> None:
    session = start(tmp_path, error)
    result = await session.submit("go")
    assert result.error is error
    assert session.state is SessionState.CLOSED
    assert kinds(await events(session))[-3:] == [EventKind.ERROR, EventKind.PROCESSING_END, EventKind.SESSION_END]
    assert len(requests(session)) == 1


async def test_missing_working_directory_is_an_error_of_the_submit(tmp_path: Path) -> None:
    session = start(tmp_path / "missing")
    result = await session.submit("go")
    assert "does not exist" in str(result.error)
    assert session.state is SessionState.CLOSED


async def test_warnings_of_a_response_are_events(tmp_path: Path) -> None:
    answer = respond("Fine.").model_copy(update={"warnings": [Warning(message="stop was dropped")]})
    session = start(tmp_path, answer)
    async with session:
        await session.submit("go")
    assert of_kind(await events(session), EventKind.WARNING)[0].data == {"message": "stop was dropped"}


async def test_context_usage_is_warned_of_once(tmp_path: Path) -> None:
    session = start(tmp_path, *[call("shell", command="true")] * 2, "Done.")
    session.provider_profile.context_window_size = 1_000
    async with session:
        await session.submit("x" * 3_300)
    warnings = of_kind(await events(session), EventKind.WARNING)
    assert [event.data["message"] for event in warnings] == ["Context usage at ~82% of context window"]


async def test_without_streaming_the_answer_comes_whole(tmp_path: Path) -> None:
    session = start(tmp_path, "A whole answer.", config=SessionConfig(stream=False))
    async with session:
        await session.submit("go")
    found = await events(session)
    assert EventKind.ASSISTANT_TEXT_DELTA not in kinds(found)
    assert of_kind(found, EventKind.ASSISTANT_TEXT_END)[0].data["text"] == "A whole answer."


async def test_an_earlier_conversation_goes_on(tmp_path: Path) -> None:
    first = start(tmp_path, call("shell", command="echo kept"), "Done.")
    async with first:
        await first.submit("go")
    second = start(tmp_path, "I remember.", history=[*first.history, SystemTurn("Be brief.", first.clock())])
    async with second:
        await second.submit("what was it?")
    roles = [message.role for message in requests(second)[0].messages[1:]]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT, Role.SYSTEM, Role.USER]


async def test_history_may_be_rewritten_between_inputs(tmp_path: Path) -> None:
    session = start(tmp_path, "One.", "Two.")
    async with session:
        await session.submit("a long story")
        session.history[:] = [UserTurn("summary", session.clock())]
        await session.submit("on")
    assert [message.text for message in requests(session)[1].messages[1:]] == ["summary", "on"]


async def test_arguments_are_reported(tmp_path: Path) -> None:
    session = start(tmp_path, call("shell", command="true", description="nothing"), "Done.")
    async with session:
        await session.submit("go")
    (begun,) = of_kind(await events(session), EventKind.TOOL_CALL_START)
    assert json.loads(json.dumps(begun.data)) == {
        "tool_name": "shell",
        "call_id": "call_1",
        "arguments": {"command": "true", "description": "nothing"},
    }


async def test_a_flood_of_output_is_not_kept_in_pieces(tmp_path: Path) -> None:
    session = start(tmp_path, call("shell", command="yes | head -c 5000000"), "Done.")
    async with session:
        await session.submit("go")
    found = await events(session)
    deltas = [event.data["delta"] for event in of_kind(found, EventKind.TOOL_CALL_OUTPUT_DELTA)]
    assert 1024 * 1024 <= sum(map(len, deltas)) < 1_200_000
    assert "There is more output" in deltas[-1]
    assert len(of_kind(found, EventKind.TOOL_CALL_END)[0].data["output"]) > 4_999_999


async def test_a_client_that_only_completes_will_do(tmp_path: Path) -> None:
    class CompleteOnly:
        async def complete(self, request: Request) -> Response:
            return respond("Fine.")

    client: Any = CompleteOnly()
    session = Session(create_anthropic_profile(), LocalExecutionEnvironment(tmp_path), client=client)
    async with session:
        assert (await session.submit("go")).text == "Fine."


def test_a_session_may_be_made_outside_of_an_event_loop(tmp_path: Path) -> None:
    session = start(tmp_path, "Fine.")

    async def use() -> str:
        async with session:
            return (await session.submit("go")).text

    assert anyio.run(use, backend="trio") == "Fine."


async def test_timeouts_of_the_shell(tmp_path: Path) -> None:
    given: list[int] = []

    class Watching(LocalExecutionEnvironment):
        async def exec_command(self, command: str, timeout_ms: int, *args: Any, **options: Any) -> Any:
            if command == "true":
                given.append(timeout_ms)
            return await super().exec_command(command, timeout_ms, *args, **options)

    steps = [call("shell", command="true"), call("shell", command="true", timeout_ms=900_000.0)]
    for profile in (create_anthropic_profile(), create_openai_profile()):
        client = Client({profile.id: ScriptedAdapter(*steps, "Done.", name=profile.id)})
        async with Session(profile, Watching(tmp_path), client=client) as session:
            await session.submit("go")
    assert given == [120_000, 600_000, 10_000, 600_000]


async def test_timeout_is_told_to_the_model(tmp_path: Path) -> None:
    session = start(tmp_path, call("shell", command="echo part; sleep 30", timeout_ms=200), "I see.")
    async with session:
        await session.submit("go")
    turn = session.history[2]
    assert isinstance(turn, ToolResultsTurn)
    assert turn.results[0].is_error
    assert str(turn.results[0].content).startswith(
        "part\n[ERROR: Command timed out after 200ms. Partial output is shown above.\n"
        "You can retry with a longer timeout by setting the timeout_ms parameter.]"
    )


async def test_cancelling_an_asyncio_task_kills_what_it_started(tmp_path: Path) -> None:
    session = start(tmp_path, call("wait_for_it"))
    started, ended = anyio.Event(), anyio.Event()

    async def wait_for_it(arguments: dict[str, Any], environment: LocalExecutionEnvironment) -> str:
        def on_output(text: str) -> None:
            started.set()

        try:
            await environment.exec_command("echo $$ > pid; echo up; sleep 300", 600_000, on_output=on_output)
        finally:
            ended.set()
        return "unreachable"

    session.provider_profile.tool_registry.register(tool("wait_for_it", wait_for_it))
    async with session:
        task = asyncio.create_task(session.submit("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        with pytest.raises(ProcessLookupError):
            os.killpg(int((tmp_path / "pid").read_text()), 0)


async def accept(arguments: dict[str, Any], environment: LocalExecutionEnvironment) -> str:
    return "accepted"


def leave_program(arguments: dict[str, Any], environment: LocalExecutionEnvironment) -> str:
    raise SystemExit(2)


def fail_to_tell(arguments: dict[str, Any]) -> list[str]:
    raise KeyError("path")


def complain_of_name(arguments: dict[str, Any], environment: Any) -> str:
    raise ValueError("no file \udcff.txt")


@BOTH_BACKENDS
@pytest.mark.parametrize(
    ("tool", "complaint"),
    [
        (RegisteredTool(definition_of({"x": {"type": "strng"}}), accept), "strng"),
        (RegisteredTool(definition_of({"x": {"pattern": "("}}), accept), "unterminated"),
        (RegisteredTool(definition_of({"x": {"$ref": "#/$defs/none"}}), accept), "$defs/none"),
        (RegisteredTool(definition_of({}), leave_program), "2"),
        (RegisteredTool(definition_of({}), complain_of_name), "no file \ufffd.txt"),
    ],
    ids=["type", "pattern", "reference", "exit", "name"],
)
async def test_a_faulty_tool_is_an_error_result_and_never_the_session_s_end(
    tmp_path: Path, tool: RegisteredTool, complaint: str
) -> None:
    profile = create_anthropic_profile("test-model")
    profile.tool_registry.register(tool)
    session = start(tmp_path, respond(tool_calls=[("custom", {"x": "1"})]), "I see.", profile=profile)
    async with session:
        result = await session.submit("Go.")
        assert (result.stop_reason, session.state) == (StopReason.COMPLETED, SessionState.IDLE)
    (answer,) = session.history[2].results  # type: ignore[union-attr]
    assert answer.is_error
    assert str(answer.content).startswith("Tool error (custom): ")
    assert complaint in str(answer.content)
    assert complaint in of_kind(await events(session), EventKind.TOOL_CALL_END)[0].data["error"]


async def test_a_tool_that_can_t_tell_what_it_writes_is_executed_all_the_same(tmp_path: Path) -> None:
    profile = create_anthropic_profile("test-model")
    profile.tool_registry.register(RegisteredTool(definition_of({}), accept, writes=fail_to_tell))
    session = start(tmp_path, respond(tool_calls=[("custom", {}), ("custom", {})]), "Done.", profile=profile)
    async with session:
        await session.submit("Go.")
    assert [one.content for one in session.history[2].results] == ["accepted"] * 2  # type: ignore[union-attr]


async def test_half_characters_reach_neither_the_model_nor_the_events(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))).touch()
    (tmp_path / "AGENTS.md").write_bytes("Größe first, then a stray ".encode() + b"\xff.")
    profile = create_gemini_profile("test-model")
    profile.id = "anthropic"
    calls = [("glob", {"pattern": "caf*"}), ("list_dir", {}), ("read_file", {"file_path": "caf\udce9"})]
    session = start(tmp_path, respond(tool_calls=calls), "Done.", profile=profile)
    async with session:
        await session.submit("Go.")
    for message in requests(session)[1].messages:
        message.model_dump_json().encode()
    assert "stray \ufffd." in requests(session)[1].messages[0].text
    ends = [event.data for event in await events(session) if event.kind is EventKind.TOOL_CALL_END]
    assert [str(data).isprintable() for data in ends] == [True] * 3
    assert sum("caf\ufffd.txt" in str(data.get("output")) for data in ends) == 2


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("empty.png", b"", "empty.png is empty."),
        ("note.png", b"see below\n", "1 | see below"),
        ("photo.png", b"\xff\xd8\xff\xe0 pretend", "Image photo.png (image/jpeg, 12 bytes)."),
        ("noise.gif", b"\0\1\2", "not a text file"),
        ("poster.png", b"\x89PNG" + bytes(4_000_000), "models take 3750000 at most"),
    ],
)
async def test_only_what_is_an_image_is_sent_as_one(tmp_path: Path, name: str, data: bytes, shown: str) -> None:
    (tmp_path / name).write_bytes(data)
    session = start(tmp_path, call("read_file", file_path=name), "Seen.")
    async with session:
        await session.submit("Look.")
    (result,) = session.history[2].results  # type: ignore[union-attr]
    assert shown in str(result.content)
    assert result.image_media_type == ("image/jpeg" if name == "photo.png" else None)


@pytest.mark.parametrize("limit", ["default_command_timeout_ms", "max_command_timeout_ms"])
async def test_a_time_limit_of_zero_is_none(tmp_path: Path, limit: str) -> None:
    profile = create_openai_profile("test-model")
    profile.id = "anthropic"
    config = SessionConfig(**{limit: 0})  # type: ignore[arg-type]
    session = start(tmp_path, call("shell", command="sleep 0.1; echo slept"), "Ok.", profile=profile, config=config)
    async with session:
        await session.submit("Go.")
    (result,) = session.history[2].results  # type: ignore[union-attr]
    assert str(result.content).startswith("slept\n[exit code 0")


@BOTH_BACKENDS
@pytest.mark.parametrize("with_patches", [False, True])
async def test_no_edit_is_lost_to_another_under_a_second_name(tmp_path: Path, with_patches: bool) -> None:
    (tmp_path / "file").write_text("".join(f"line {number};\n" for number in range(20)))
    (tmp_path / "link").symlink_to("file")
    profile = create_openai_profile("test-model") if with_patches else create_anthropic_profile("test-model")
    profile.id = "anthropic"
    calls: list[tuple[str, dict[str, Any]]] = []
    for number in range(20):
        name, old, new = ("file", "link")[number % 2], f"line {number};", f"LINE {number};"
        patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n-{old}\n+{new}\n*** End Patch"
        edit = {"file_path": name, "old_string": old, "new_string": new}
        calls.append(("apply_patch", {"patch": patch}) if with_patches else ("edit_file", edit))
    session = start(tmp_path, respond(tool_calls=calls), "Done.", profile=profile)
    async with session:
        await session.submit("Go.")
    assert not [one for one in session.history[2].results if one.is_error]  # type: ignore[union-attr]
    assert (tmp_path / "file").read_text() == "".join(f"LINE {number};\n" for number in range(20))


async def test_any_effort_that_a_provider_knows_is_passed_on(tmp_path: Path) -> None:
    efforts = ["low", "medium", "high", "xhigh", None]
    session = start(tmp_path, *["Done."] * len(efforts))
    async with session:
        for effort in efforts:
            session.config.reasoning_effort = effort
            await session.submit("go")
    assert [request.reasoning_effort for request in requests(session)] == efforts


async def test_every_kind_of_event_has_its_time(tmp_path: Path) -> None:
    config = SessionConfig(max_tool_rounds_per_input=3, loop_detection_window=2)
    session = start(tmp_path, *[call("shell", command="echo hi")] * 3, ContextLengthError("full"), ServerError("busy"),
                    ServerError("busy"), ServerError("busy"), "Done.", config=config)  # fmt: skip
    async with session:
        session.steer("Be brief.")
        for text in ("until the limit", "too long", "too busy", "to the end"):
            await session.submit(text)
    found = kinds(await events(session))
    assert set(found) == set(EventKind)
    assert found.index(EventKind.STEERING_INJECTED) == found.index(EventKind.USER_INPUT) + 1
    limit = found.index(EventKind.TURN_LIMIT)
    assert found[limit - 1] is EventKind.LOOP_DETECTION
    rest = [kind for kind in found[limit + 1 :] if kind is not EventKind.ASSISTANT_TEXT_DELTA]
    assert rest == [
        *[EventKind.PROCESSING_END, EventKind.USER_INPUT, EventKind.WARNING],
        *[EventKind.PROCESSING_END, EventKind.USER_INPUT, EventKind.ERROR],
        *[EventKind.PROCESSING_END, EventKind.USER_INPUT],
        *[EventKind.ASSISTANT_TEXT_START, EventKind.ASSISTANT_TEXT_END],
        *[EventKind.PROCESSING_END, EventKind.SESSION_END],
    ]


async def test_an_argument_that_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    """Models know shells that take a directory; run without it, their command would work elsewhere."""
    session = start(
        tmp_path,
        call("shell", command="touch here", workdir="sub"),
        call("grep", pattern="x", include="*.py"),
        "I see.",
    )
    async with session:
        await session.submit("go")
    results = [turn.results[0] for turn in session.history if isinstance(turn, ToolResultsTurn)]
    assert ["'workdir' was unexpected" in str(results[0].content), "'include'" in str(results[1].content)] == [
        True,
        True,
    ]
    assert not (tmp_path / "here").exists()
