"""The tool loop: every way it ends, what comes back to the model, and going on after a kill or an approval."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.prebuilt import (
    GraphError,
    InterruptError,
    NodeError,
    Tool,
    ToolCallContext,
    ToolSpec,
    tool_loop,
)
from attractor.prebuilt.call_journal import CallJournal
from attractor.prebuilt.transcript import from_message, to_messages
from unified_llm import Client, ContentKind, ContentPart, Message, RateLimitError, Role, ThinkingData, ToolCallData
from unified_llm.testing import ScriptedAdapter, respond

BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
ASK = {"messages": [{"role": "user", "content": "2 + 3?"}]}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


async def plus(a: int, b: int) -> int:
    return a + b


ADD = Tool("add", plus, "Adds two numbers.", NUMBERS)


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    """An answer that calls tools."""
    made = [{"id": f"c{n}", "name": name, "arguments": given} for n, (name, given) in enumerate(wanted)]
    return {"content": "", "tool_calls": made}


def script(*answers: Any) -> Callable[..., Any]:
    """A model that answers with these, one after the other; exceptions are raised. `asked` has what it was asked."""
    left = list(answers)
    asked: list[tuple[list[Any], list[ToolSpec]]] = []

    async def model(messages: list[Any], tools: list[ToolSpec]) -> Any:
        asked.append((messages, tools))
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    model.asked = asked  # type: ignore[attr-defined]
    return model


def results(state: Any) -> list[tuple[str, str, bool]]:
    """Of all tool messages, in order: id of the call, content, whether it is an error."""
    found = [message for message in state["messages"] if message["role"] == "tool"]
    return [(message["tool_call_id"], message["content"], message["is_error"]) for message in found]


# --- How it ends.


@BACKENDS
async def test_completed() -> None:
    model = script(calls(("add", {"a": 2, "b": 3})), "5.")
    state = await tool_loop(model, [ADD], system="Calculate.").invoke(ASK)
    assert (state["status"], state["turns"], state["pending"]) == ("completed", 2, [])
    assert [message["role"] for message in state["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert results(state) == [("c0", "5", False)]
    assert state["messages"][-1]["content"] == "5."
    messages, tools = model.asked[1]  # type: ignore[attr-defined]
    assert messages[0] == {"role": "system", "content": "Calculate."}
    assert messages[1:] == state["messages"][:-1]
    assert tools == [ToolSpec("add", "Adds two numbers.", NUMBERS)]


async def test_max_turns_leaves_the_last_calls_unexecuted() -> None:
    done: list[int] = []
    tool = Tool("note", lambda n: done.append(n))
    model = script(calls(("note", {"n": 1})), calls(("note", {"n": 2})))
    state = await tool_loop(model, [tool], max_turns=2).invoke(ASK)
    assert (state["status"], state["turns"], done) == ("max_turns", 2, [1])
    assert [call["arguments"] for call in state["pending"]] == [{"n": 2}]
    # Given back as input, they are executed, and the conversation goes on.
    rest = {"messages": state["messages"], "pending": state["pending"]}
    onward = await tool_loop(script("Done."), [tool]).invoke(rest)
    assert (onward["status"], done, len(onward["messages"])) == ("completed", [1, 2], len(state["messages"]) + 2)


async def test_an_answer_in_the_last_turn_completes() -> None:
    assert (await tool_loop(script("Hi."), max_turns=1).invoke(ASK))["status"] == "completed"


async def test_error_says_what_the_model_raised() -> None:
    state = await tool_loop(script(calls(("add", {"a": 1, "b": 2})), OSError("line cut")), [ADD]).invoke(ASK)
    assert (state["status"], state["error"], state["turns"]) == ("error", "OSError: line cut", 1)
    assert results(state) == [("c0", "3", False)]


async def test_raised_errors_can_be_resumed(tmp_path: Path) -> None:
    model = script(calls(("add", {"a": 1, "b": 2})), OSError("line cut"), "3.")
    loop = tool_loop(model, [ADD], raise_errors=True, checkpointer=tmp_path)
    with pytest.raises(NodeError, match="line cut"):
        await loop.invoke(ASK)
    state = await loop.resume()
    assert (state["status"], state["turns"]) == ("completed", 2)
    assert results(state) == [("c0", "3", False)]


@pytest.mark.parametrize("answer", [7, None, {"tool_calls": [{"id": "x"}]}], ids=["number", "none", "nameless"])
async def test_error_says_what_is_no_answer(answer: Any) -> None:
    state = await tool_loop(script(answer)).invoke(ASK)
    assert state["status"] == "error"
    assert "must" in state["error"]


@pytest.mark.parametrize(
    ("reason", "status"), [("length", "length"), ("content_filter", "content_filter"), ("error", "error")]
)
async def test_answers_that_were_cut_off(reason: str, status: str) -> None:
    answer = respond("Half of", tool_calls=[("add", {"a": 1, "b": 2})], finish_reason=reason)
    state = await tool_loop(script(answer), [ADD]).invoke(ASK)
    assert (state["status"], state["turns"], len(state["messages"])) == (status, 1, 2)


# --- Tools.


@BACKENDS
async def test_what_goes_wrong_with_a_call_comes_back_to_the_model() -> None:
    def broken() -> None:
        raise LookupError("no such city")

    model = script(
        calls(
            ("add", {"a": 1, "b": "two"}),
            ("add", {"a": 1}),
            ("subtract", {}),
            ("add", '{"a": 1'),
            ("add", "[1, 2]"),
            ("broken", {}),
            ("broken", {"extra": 1}),
            ("add", '{"a": 1, "b": 2}'),
        ),
        "Oh.",
    )
    state = await tool_loop(model, [ADD, Tool("broken", broken)]).invoke(ASK)
    contents = [content for _, content, is_error in results(state)[:-1] if is_error]
    words = ["'two'", "'b' is a required", "no tool 'subtract'", "not valid JSON", "must be an object", "no such city"]
    assert len(contents) == 7
    for content, word in zip(contents, words, strict=False):
        assert word in content
    assert contents[6].startswith("TypeError")
    assert results(state)[-1] == ("c7", "3", False)
    assert state["status"] == "completed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, "null"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (1.5, "1.5"),
        (Path("/x"), "/x"),
        (float("nan"), "nan"),
    ],
    ids=["text", "none", "json", "number", "object", "nan"],
)
async def test_results_become_text(value: Any, text: str) -> None:
    state = await tool_loop(script(calls(("get", {})), "ok"), [Tool("get", lambda: value)]).invoke(ASK)
    assert results(state) == [("c0", text, False)]


@BACKENDS
async def test_calls_of_a_turn_run_at_once_and_keep_their_order() -> None:
    arrived: list[str] = []
    everyone = anyio.Event()

    async def meet(name: str) -> str:
        arrived.append(name)
        if len(arrived) == 3:
            everyone.set()
        await everyone.wait()
        if name == "a":
            await anyio.lowlevel.checkpoint()
        return name

    state = await tool_loop(
        script(calls(*(("meet", {"name": name}) for name in "abc")), "ok"), [Tool("meet", meet)]
    ).invoke(ASK)
    assert results(state) == [("c0", "a", False), ("c1", "b", False), ("c2", "c", False)]


async def test_no_more_than_max_parallel_at_once() -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    model = script(calls(*[("work", {})] * 6), "ok")
    await tool_loop(model, [Tool("work", work)], max_parallel=2).invoke(ASK)
    assert most == 2


def test_the_specification_of_a_tool() -> None:
    assert ADD.spec() == ToolSpec("add", "Adds two numbers.", NUMBERS)
    assert Tool("x", plus).spec() == ToolSpec("x", "", {})


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([ADD, ADD], "two tools of the name 'add'"),
        ([Tool("no way", plus)], "'no way' can't be offered"),
        ([Tool("x", plus, schema={"type": "array"})], "can't be offered"),
    ],
    ids=["twice", "name", "schema"],
)
def test_tools_that_cannot_be_offered(tools: Sequence[Tool], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        tool_loop(script(), tools)


@pytest.mark.parametrize("options", [{"max_turns": 0}, {"max_parallel": 0}])
def test_limits_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        tool_loop(script(), **options)


async def test_a_schema_that_is_none_fails_the_node_and_says_so() -> None:
    tool = Tool("add", plus, schema={"properties": {"a": {"type": "whole"}}})
    with pytest.raises(NodeError, match="'whole'"):
        await tool_loop(script(calls(("add", {"a": 1, "b": 2}))), [tool]).invoke(ASK)


# --- Through a client.


async def test_any_client_will_do() -> None:
    thinking = ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text="Hm.", signature="s1g"))
    wanted = ContentPart(
        kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id="t1", name="add", arguments={"a": 2, "b": 3})
    )
    first = respond(tool_calls=[("add", {"a": 2, "b": 3})])
    first = first.model_copy(update={"message": Message(role=Role.ASSISTANT, content=[thinking, wanted])})
    with ScriptedAdapter(first, "5.") as adapter:
        client = Client({"scripted": adapter}, "scripted")
        state = await tool_loop("any-model", [ADD], client=client, system="Be brief.").invoke(ASK)
    assert state["status"] == "completed"
    assert json.loads(json.dumps(state)) == state
    again = adapter.requests[1]
    assert again.model == "any-model"
    assert [message.role for message in again.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]
    # Signed reasoning goes back as it came.
    assert again.messages[2].content == [thinking, wanted]
    assert again.messages[3].content[0].tool_result is not None
    assert again.messages[3].content[0].tool_result.content == "5"
    assert [tool.name for tool in again.tools or ()] == ["add"]


async def test_a_client_that_fails_for_good() -> None:
    with ScriptedAdapter(RateLimitError("later")) as adapter:
        client = Client({"scripted": adapter}, "scripted")
        state = await tool_loop("m", client=client, options={"max_retries": 0}).invoke(ASK)
    assert (state["status"], state["error"]) == ("error", "RateLimitError: later")


def test_messages_survive_the_way_to_a_client_and_back() -> None:
    transcript = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "well", "tool_calls": [{"id": "1", "name": "f", "arguments": {"x": 1}}]},
        {"role": "tool", "tool_call_id": "1", "name": "f", "content": "no", "is_error": True},
    ]
    messages = to_messages(transcript)
    assert from_message(messages[1]) == transcript[1]
    assert messages[2].content[0].tool_result is not None
    assert messages[2].content[0].tool_result.is_error


async def test_a_transcript_that_is_none_is_an_error_that_names_the_message() -> None:
    client = Client({"scripted": ScriptedAdapter()}, "scripted")
    state = await tool_loop("m", client=client).invoke({"messages": [{"content": "who says this?"}]})
    assert state["status"] == "error"
    assert "message 0 of the transcript" in state["error"]


# --- Waiting for people.


@BACKENDS
async def test_tools_wait_for_approval_and_the_others_are_not_done_twice(tmp_path: Path) -> None:
    done: list[str] = []

    async def delete(path: str, ctx: ToolCallContext) -> str:
        if not ctx.interrupt({"delete": path}):
            return "refused"
        done.append(f"delete {path}")
        return "deleted"

    def look(path: str) -> str:
        done.append(f"look {path}")
        return "there"

    tools = [Tool("delete", delete, schema={"properties": {"path": {"type": "string"}}}), Tool("look", look)]
    wanted = calls(("delete", {"path": "/a"}), ("look", {"path": "/b"}), ("delete", {"path": "/c"}))

    def loop() -> Any:
        return tool_loop(script(*answers), tools, checkpointer=tmp_path)

    answers: list[Any] = [wanted, "Never asked."]
    with pytest.raises(InterruptError) as first:
        await loop().invoke(ASK)
    assert first.value.payload == {"delete": "/a"}
    assert loop().state()["status"] == "interrupted"
    answers = ["Done."]
    with pytest.raises(InterruptError) as second:
        await loop().resume(False)
    assert second.value.payload == {"delete": "/c"}
    state = await loop().resume(True)
    assert (state["status"], state["pending"]) == ("completed", [])
    assert done == ["look /b", "delete /c"]
    assert results(state) == [("c0", "refused", False), ("c1", "there", False), ("c2", "deleted", False)]


async def test_a_tool_may_ask_twice_and_cannot_swallow_that(tmp_path: Path) -> None:
    def order(ctx: ToolCallContext) -> str:
        try:
            return f"{ctx.interrupt('size?')} {ctx.interrupt('colour?')}"
        except Exception:
            return "guessed"

    loop = tool_loop(script(calls(("order", {})), "Ordered."), [Tool("order", order)], checkpointer=tmp_path)
    payloads = []
    with pytest.raises(InterruptError) as caught:
        await loop.invoke(ASK)
    payloads.append(caught.value.payload)
    with pytest.raises(InterruptError) as caught:
        await loop.resume("big")
    payloads.append(caught.value.payload)
    assert payloads == ["size?", "colour?"]
    assert results(await loop.resume("red")) == [("c0", "big red", False)]


async def test_of_what_a_tool_asks_at_once_the_first_is_asked_first() -> None:
    def order(ctx: ToolCallContext) -> str:
        said = []
        for wanted in ("size?", "colour?"):
            try:
                said.append(ctx.interrupt(wanted))
            except InterruptError:
                said.append("any")
        return " ".join(said)

    loop = tool_loop(script(calls(("order", {})), "Ordered."), [Tool("order", order)])
    with pytest.raises(InterruptError) as caught:
        await loop.invoke(ASK)
    assert caught.value.payload == "size?"


async def test_an_argument_that_the_schema_names_ctx_is_the_models() -> None:
    tool = Tool("show", lambda ctx: f"got {ctx}", schema={"properties": {"ctx": {"type": "string"}}})
    assert results(await tool_loop(script(calls(("show", {"ctx": "it"})), "ok"), [tool]).invoke(ASK)) == [
        ("c0", "got it", False)
    ]


# --- Kills.

PROGRAM = """
import os, signal, sys
from pathlib import Path
import anyio
from attractor.prebuilt import Tool, tool_loop

folder, mode = Path(sys.argv[1]), sys.argv[2]

async def quick():
    with open(folder / "quick", "a") as file: file.write("x")
    return "quick"

async def slow():
    with open(folder / "slow", "a") as file: file.write("x")
    if mode == "die":
        while "quick" not in read_journal(): await anyio.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)
    return "slow"

def read_journal():
    return "".join(path.read_text() for path in (folder / "runs").rglob("calls-*.jsonl"))

async def model(messages, tools):
    with open(folder / "model", "a") as file: file.write("x")
    if messages[-1]["role"] == "tool":
        return " ".join(m["content"] for m in messages if m["role"] == "tool")
    return {"tool_calls": [{"id": "1", "name": "quick"}, {"id": "2", "name": "slow"}]}

async def main():
    loop = tool_loop(model, [Tool("quick", quick), Tool("slow", slow)], checkpointer=folder / "runs")
    if mode == "die":
        await loop.invoke({"messages": [{"role": "user", "content": "go"}]})
    else:
        print((await loop.resume())["messages"][-1]["content"])

anyio.run(main)
"""


def test_a_killed_round_does_not_repeat_what_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    died = subprocess.run([*command, "die"], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    resumed = subprocess.run([*command, "resume"], check=True, timeout=60, capture_output=True, text=True)
    assert resumed.stdout == "quick slow\n"
    counts = {name: len((tmp_path / name).read_text()) for name in ("model", "quick", "slow")}
    assert counts == {"model": 2, "quick": 1, "slow": 2}


def test_the_journal_of_calls_tells_rounds_apart(tmp_path: Path) -> None:
    """A call that waited for a value is another call once it has the value."""
    waits, done = {"id": "1", "name": "look"}, {"result": {"content": "rain"}}
    first = CallJournal(tmp_path, 1, [waits])
    first.add(0, done)
    assert CallJournal(tmp_path, 1, [waits]).find(0) == done
    assert CallJournal(tmp_path, 1, [{**waits, "answers": ["yes"]}]).find(0) is None
    assert CallJournal(tmp_path, 2, [waits]).find(0) is None
    with (tmp_path / "calls-1.jsonl").open("ab") as file:
        file.write(b'{"round": "torn')
    again = CallJournal(tmp_path, 1, [waits, waits])
    assert again.find(0) is None
    again.add(1, done)
    assert CallJournal(tmp_path, 1, [waits, waits]).find(1) == done
