"""generate() and its tool loop (sections 4.3, 4.7 and 5)."""

import asyncio
import threading
from typing import Any

import anyio
import pytest
from unified_llm import (
    AbortController,
    AbortError,
    AbortSignal,
    Client,
    ConfigurationError,
    GenerateResult,
    Message,
    RateLimitError,
    RequestTimeoutError,
    RetryPolicy,
    Role,
    ServerError,
    TimeoutConfig,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    generate,
    set_default_client,
)
from unified_llm.testing import ScriptedAdapter, respond

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
QUICK = RetryPolicy(base_delay=0, jitter=False)


def client_of(adapter: ScriptedAdapter) -> Client:
    return Client({"scripted": adapter}, "scripted")


def tool(name: str, execute: Any = None, **properties: dict[str, Any]) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=name, description=name, parameters=parameters, execute=execute)


async def with_tools(tools: list[Tool], *calls: tuple[str, Any], **options: Any) -> GenerateResult:
    """Generate with one round of the calls, then a final answer."""
    with ScriptedAdapter(respond(tool_calls=calls), "done") as adapter:
        result = await generate("m", "go", tools=tools, client=client_of(adapter), **options)
        assert [r.tool_call_id for r in result.steps[0].tool_results] == [c.id for c in result.steps[0].tool_calls]
        sent = adapter.requests[1].messages
        assert [m.role for m in sent] == [Role.USER, Role.ASSISTANT, *[Role.TOOL] * len(calls)]
        assert result.text == "done"
        return result


async def test_a_prompt_becomes_a_user_message_behind_the_system_message() -> None:
    with ScriptedAdapter("hello", "again") as adapter:
        result = await generate("m", "hi", system="be brief", client=client_of(adapter), max_tokens=5)
        assert adapter.requests[0].messages == [Message.system("be brief"), Message.user("hi")]
        assert adapter.requests[0].max_tokens == 5
        await generate(model="m", messages=[Message.user("a")], client=client_of(adapter))
    assert result.text == result.response.text == result.steps[0].text == "hello"
    assert result.finish_reason.reason == "stop"
    assert result.usage == result.total_usage
    assert result.tool_calls == result.tool_results == []
    assert result.reasoning is None


async def test_the_default_client_is_used_unless_one_is_given() -> None:
    with ScriptedAdapter("from the default") as adapter:
        set_default_client(client_of(adapter))
        try:
            assert (await generate("m", "hi")).text == "from the default"
        finally:
            set_default_client(None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of prompt and messages must be given"),
        ({"prompt": "a", "messages": [Message.user("b")]}, "prompt and messages are both given"),
        ({"messages": []}, "messages is empty"),
        ({"prompt": " "}, "prompt is empty"),
        ({"prompt": "a", "max_tool_rounds": -1}, "max_tool_rounds"),
        ({"prompt": "a", "max_retries": -1}, "max_retries"),
        ({"prompt": "a", "temperature": "hot"}, "temperature: .*'hot'"),
        ({"prompt": "a", "tool_choice": "sometimes"}, r"tool_choice\.mode"),
        ({"prompt": "a", "tools": [tool("t"), tool("t")]}, "tools must have different names"),
    ],
)
async def test_misuse_is_refused_before_anything_is_sent(arguments: dict[str, Any], message: str) -> None:
    adapter = ScriptedAdapter()
    with pytest.raises(ConfigurationError, match=message):
        await generate("m", client=client_of(adapter), **arguments)
    assert adapter.requests == []


async def test_an_unknown_argument_is_a_type_error_that_names_it() -> None:
    with pytest.raises(TypeError, match="temprature"):
        await generate("m", "hi", client=Client(), temprature=1)  # type: ignore[call-arg]


@BOTH
async def test_calls_run_together_and_results_keep_the_calls_order() -> None:
    started = {"a": anyio.Event(), "b": anyio.Event()}

    async def first() -> str:
        started["a"].set()
        await started["b"].wait()
        return "A"

    async def second() -> str:
        started["b"].set()
        await started["a"].wait()
        return "B"

    result = await with_tools([tool("first", first), tool("second", second)], ("first", {}), ("second", {}))
    assert [r.content for r in result.steps[0].tool_results] == ["A", "B"]
    assert not any(r.is_error for r in result.steps[0].tool_results)
    assert result.total_usage == Usage(input_tokens=20, output_tokens=10, total_tokens=30)


async def test_sync_tools_run_together_too() -> None:
    barrier = threading.Barrier(2, timeout=5)

    def meet() -> int:
        return barrier.wait()

    result = await with_tools([tool("meet", meet)], ("meet", {}), ("meet", {}))
    assert sorted(str(r.content) for r in result.steps[0].tool_results) == ["0", "1"]


@pytest.mark.parametrize("failure", [ValueError("broken"), asyncio.CancelledError()])
async def test_one_failing_tool_leaves_its_siblings_alone(failure: BaseException) -> None:
    async def fail() -> None:
        raise failure

    async def work() -> str:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return "fine"

    result = await with_tools([tool("work", work), tool("fail", fail)], ("work", {}), ("fail", {}), ("work", {}))
    assert [r.is_error for r in result.steps[0].tool_results] == [False, True, False]
    assert [r.content for r in result.steps[0].tool_results][::2] == ["fine", "fine"]


async def test_an_unknown_tool_is_an_error_result() -> None:
    result = await with_tools([tool("known", lambda: "x")], ("guessed", {}))
    (answer,) = result.steps[0].tool_results
    assert answer.is_error
    assert answer.content == "Unknown tool: guessed. The tools are: known"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ({"a": 1}, {"a": 1}),
        ([1, None], [1, None]),
        (7, "7"),
        (None, "null"),
        (True, "true"),
        (
            Usage(input_tokens=1).model_dump(exclude_none=True),
            {"input_tokens": 1, "output_tokens": 0, "total_tokens": 0},
        ),
        (ToolResult(tool_call_id="?", content="own"), "own"),
    ],
)
async def test_any_json_value_is_a_result(value: Any, content: Any) -> None:
    result = await with_tools([tool("give", lambda: value)], ("give", {}))
    assert result.steps[0].tool_results == [ToolResult(tool_call_id="call_1", content=content)]


async def test_a_value_that_is_not_json_is_an_error_result() -> None:
    result = await with_tools([tool("give", lambda: object())], ("give", {}))
    assert result.steps[0].tool_results[0].is_error
    assert "not JSON" in str(result.steps[0].tool_results[0].content)


async def test_context_is_injected_where_it_is_named() -> None:
    seen: dict[str, Any] = {}
    controller = AbortController()

    def look(query: str, messages: list[Message], abort_signal: AbortSignal, tool_call_id: str) -> str:
        seen.update(query=query, messages=messages, abort_signal=abort_signal, tool_call_id=tool_call_id)
        return "ok"

    await with_tools(
        [tool("look", look, query={"type": "string"})], ("look", {"query": "q"}), abort_signal=controller.signal
    )
    assert seen == {
        "query": "q",
        "messages": [Message.user("go")],
        "abort_signal": controller.signal,
        "tool_call_id": "call_1",
    }


async def test_a_declared_argument_is_the_models_even_under_an_injected_name() -> None:
    result = await with_tools(
        [tool("send", lambda messages: messages, messages={"type": "string"})], ("send", {"messages": "mine"})
    )
    assert result.steps[0].tool_results[0].content == "mine"


async def test_a_handler_may_take_the_arguments_as_one_dictionary() -> None:
    async def echo(arguments: dict[str, Any], tool_call_id: str) -> dict[str, Any]:
        return {**arguments, "id": tool_call_id}

    result = await with_tools([tool("echo", echo, a={"type": "integer"})], ("echo", {"a": 1}))
    assert result.steps[0].tool_results[0].content == {"a": 1, "id": "call_1"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"n": "many"}, "at $.n: 'many' is not of type 'integer'"),
        ({}, "'n' is a required property"),
        ('{"n": 1', "not valid JSON"),
        ("[1]", "must be a JSON object"),
    ],
)
async def test_invalid_arguments_come_back_to_the_model(arguments: Any, told: str) -> None:
    result = await with_tools([tool("count", lambda n: n, n={"type": "integer"})], ("count", arguments))
    (answer,) = result.steps[0].tool_results
    assert answer.is_error
    assert told in str(answer.content)


async def test_blank_arguments_mean_none() -> None:
    result = await with_tools([tool("ping", lambda: "pong")], ("ping", ""))
    assert result.steps[0].tool_results[0].content == "pong"


async def test_invalid_arguments_can_be_repaired() -> None:
    async def repair(call: ToolCall, error: Exception) -> dict[str, Any]:
        assert "Invalid arguments for count" in str(error)
        return {"n": int(call.arguments["n"])}

    count = tool("count", lambda n: n + 1, n={"type": "integer"})
    result = await with_tools([count], ("count", {"n": "41"}), repair_tool_call=repair)
    assert result.steps[0].tool_results[0] == ToolResult(tool_call_id="call_1", content="42")
    result = await with_tools([count], ("count", {"n": "x"}), repair_tool_call=lambda call, error: None)
    assert result.steps[0].tool_results[0].is_error
    result = await with_tools([count], ("count", {"n": "x"}), repair_tool_call=lambda call, error: call)
    assert "even after repair" in str(result.steps[0].tool_results[0].content)


async def test_a_reference_out_of_the_schema_is_never_fetched() -> None:
    far = tool("far", lambda n: n, n={"$ref": "http://127.0.0.1:9/schema.json"})
    result = await with_tools([far], ("far", {"n": 1}))
    assert "which it doesn't contain" in str(result.steps[0].tool_results[0].content)


async def test_the_number_of_rounds_is_bounded() -> None:
    call = respond(tool_calls=[("ping", {})])
    ping = tool("ping", lambda: "pong")
    for rounds in (0, 1, 3):
        with ScriptedAdapter(*[call] * (rounds + 1)) as adapter:
            result = await generate("m", "go", tools=[ping], max_tool_rounds=rounds, client=client_of(adapter))
            assert len(result.steps) == rounds + 1
            assert [len(step.tool_results) for step in result.steps] == [1] * rounds + [0]
            assert result.tool_calls[0].name == "ping"
            assert len(adapter.requests[-1].messages) == 1 + 2 * rounds


async def test_stop_when_ends_the_loop_after_the_tools_ran() -> None:
    with ScriptedAdapter(respond(tool_calls=[("ping", {})])) as adapter:
        result = await generate(
            "m",
            "go",
            tools=[tool("ping", lambda: "pong")],
            max_tool_rounds=5,
            stop_when=lambda steps: steps[-1].tool_results[0].content == "pong",
            client=client_of(adapter),
        )
    assert result.tool_results[0].content == "pong"


async def test_passive_tools_are_left_to_the_caller() -> None:
    with ScriptedAdapter(respond(tool_calls=[("ask", {})])) as adapter:
        result = await generate("m", "go", tools=[tool("ask")], max_tool_rounds=5, client=client_of(adapter))
    assert [call.name for call in result.tool_calls] == ["ask"]
    assert result.tool_results == []


async def test_a_passive_call_beside_an_active_one_stops_the_loop() -> None:
    with ScriptedAdapter(respond(tool_calls=[("ask", {}), ("ping", {})])) as adapter:
        result = await generate("m", "go", tools=[tool("ask"), tool("ping", lambda: "pong")], client=client_of(adapter))
    assert result.tool_results == [ToolResult(tool_call_id="call_2", content="pong")]


async def test_calls_of_a_cut_off_answer_are_not_executed() -> None:
    ran: list[int] = []
    with ScriptedAdapter(respond(tool_calls=[("ping", {})], finish_reason="length")) as adapter:
        await generate("m", "go", tools=[tool("ping", lambda: ran.append(1))], client=client_of(adapter))
    assert ran == []


async def test_each_step_is_retried_by_itself() -> None:
    ran: list[int] = []
    with ScriptedAdapter(
        ServerError("a"), respond(tool_calls=[("ping", {})]), RateLimitError("b"), ServerError("c"), "done"
    ) as adapter:
        result = await generate(
            "m",
            "go",
            tools=[tool("ping", lambda: ran.append(1))],
            retry_policy=QUICK,
            client=client_of(adapter),
        )
    assert result.text == "done"
    assert ran == [1]


async def test_no_retries_if_there_are_none_left() -> None:
    with ScriptedAdapter(ServerError("a")) as adapter, pytest.raises(ServerError):
        await generate("m", "go", max_retries=0, client=client_of(adapter))


def hang(request: Any) -> Any:
    return [anyio.sleep_forever]


@BOTH
async def test_an_abort_interrupts_the_model_call() -> None:
    controller = AbortController()

    async def abort() -> None:
        controller.abort("enough")
        await anyio.sleep_forever()

    with ScriptedAdapter([abort]) as adapter, pytest.raises(AbortError, match="enough"):
        await generate("m", "go", abort_signal=controller.signal, client=client_of(adapter))
    with pytest.raises(AbortError, match="enough"):
        await generate("m", "go", abort_signal=controller.signal, client=client_of(adapter))
    assert len(adapter.requests) == 1


@BOTH
async def test_an_abort_from_another_thread_interrupts_a_tool_and_its_siblings() -> None:
    controller = AbortController()
    ended: list[str] = []

    async def wait_forever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("sibling")

    async def abort_elsewhere() -> None:
        threading.Thread(target=controller.abort).start()
        await wait_forever()

    tools = [tool("wait_forever", wait_forever), tool("abort_elsewhere", abort_elsewhere)]
    adapter = ScriptedAdapter(respond(tool_calls=[("wait_forever", {}), ("abort_elsewhere", {})]))
    with pytest.raises(AbortError):
        await generate("m", "go", tools=tools, abort_signal=controller.signal, client=client_of(adapter))
    assert ended == ["sibling", "sibling"]


@BOTH
@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        (0.01, "timeout.total of 0.01 s"),
        (TimeoutConfig(total=0.01, per_step=10), "timeout.total of 0.01 s"),
        (TimeoutConfig(total=10, per_step=0.02), "timeout.per_step of 0.02 s"),
    ],
)
async def test_time_limits(timeout: Any, message: str) -> None:
    with ScriptedAdapter(hang) as adapter, pytest.raises(RequestTimeoutError, match=message):
        await generate("m", "go", timeout=timeout, client=client_of(adapter))


async def test_the_total_limit_bounds_tools_and_the_step_limit_does_not() -> None:
    async def nap() -> str:
        await anyio.sleep(0.05)
        return "rested"

    await with_tools([tool("nap", nap)], ("nap", {}), timeout=TimeoutConfig(per_step=0.04))
    with ScriptedAdapter(respond(tool_calls=[("nap", {})])) as adapter, pytest.raises(RequestTimeoutError):
        await generate("m", "go", tools=[tool("nap", nap)], timeout=0.01, client=client_of(adapter))


async def test_a_timeout_is_retried_only_on_request() -> None:
    with ScriptedAdapter(hang, "done") as adapter:
        result = await generate(
            "m",
            "go",
            timeout=TimeoutConfig(per_step=0.01),
            should_retry=lambda error: isinstance(error, RequestTimeoutError),
            retry_policy=QUICK,
            client=client_of(adapter),
        )
    assert result.text == "done"


@BOTH
async def test_cancelling_the_caller_cancels_the_tools() -> None:
    running, ended = anyio.Event(), []

    async def wait_forever() -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")

    adapter = ScriptedAdapter(respond(tool_calls=[("wait_forever", {})]))

    async def call() -> None:
        await generate("m", "go", tools=[tool("wait_forever", wait_forever)], client=client_of(adapter))
        raise AssertionError("the cancellation was swallowed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await running.wait()
        tasks.cancel_scope.cancel()
    assert ended == ["tool"]
    assert len(adapter.requests) == 1


async def test_cancelling_a_plain_asyncio_task_cancels_the_tools() -> None:
    running, ended = anyio.Event(), []

    async def wait_forever() -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tool")

    adapter = ScriptedAdapter(respond(tool_calls=[("wait_forever", {})]))
    task = asyncio.create_task(
        generate("m", "go", tools=[tool("wait_forever", wait_forever)], client=client_of(adapter))
    )
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["tool"]


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@BOTH
@pytest.mark.parametrize("failure", [SystemExit(2), Mute()])
async def test_a_tool_that_exits_or_fails_without_words_is_an_error_result(failure: BaseException) -> None:
    def fails() -> None:
        raise failure

    result = await with_tools([tool("fails", fails), tool("works", lambda: "ok")], ("fails", {}), ("works", {}))
    failed, worked = result.steps[0].tool_results
    assert failed.is_error
    assert type(failure).__name__ in str(failed.content)
    assert (worked.content, worked.is_error) == ("ok", False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"prompt": 5}, "prompt"),
        ({"prompt": Message.user("hi")}, "prompt"),
        ({"system": 5}, "system"),
        ({"tools": "search"}, "tools"),
        ({"tools": [print]}, "tools"),
        ({"max_tool_rounds": "2"}, "max_tool_rounds"),
        ({"max_tool_rounds": None}, "max_tool_rounds"),
        ({"max_retries": None}, "max_retries"),
        ({"retry_policy": 3}, "retry_policy"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"abort_signal": AbortController()}, "abort_signal"),
        ({"client": 5}, "client"),
    ],
)
async def test_an_argument_of_a_wrong_type_is_named(arguments: dict[str, Any], named: str) -> None:
    with ScriptedAdapter() as adapter:
        given: dict[str, Any] = {"prompt": "hi", "client": client_of(adapter), **arguments}
        with pytest.raises(ConfigurationError, match=named):
            await generate("m", **given)
