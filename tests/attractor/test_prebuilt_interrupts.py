"""A node waits for a value from outside, and gets it at the same call, in this process or in another one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor import give_value, list_suspensions
from attractor.errors import AnsweredError, CheckpointError, ContextValueError, QuestionError, RunDirectoryError
from attractor.prebuilt import (
    START,
    Graph,
    InterruptError,
    NodeContext,
    NodeError,
    State,
    append,
    find_interrupts,
    with_retry,
    with_timeout,
)

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    items: Annotated[list[Any], append]
    answer: str


def ask_once(state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"answer": ctx.interrupt({"question": "really?"})}


def ask_twice(state: Work, ctx: NodeContext) -> dict[str, Any]:
    first = ctx.interrupt("first")
    second = ctx.interrupt({"after": first})
    return {"items": [first, second]}


def one_node(function: Callable[..., Any]) -> Graph[Work]:
    return Graph(Work).add_node("ask", function).add_edge(START, "ask")


@BOTH
@pytest.mark.parametrize("value", ["yes", 0, False, None, {"deep": [1, 2]}])
async def test_value_comes_back_at_the_call(tmp_path: Path, value: Any) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError, match="run r waits for a value at node 'ask'") as caught:
        await compiled.invoke({}, run_id="r")
    assert caught.value.payload == {"question": "really?"}
    (waits,) = caught.value.interrupts
    assert (waits.node, waits.run_dir, caught.value.run_id) == ("ask", tmp_path / "r", "r")
    assert (await compiled.resume(value, run_id="r"))["answer"] == value


async def test_interrupted_run_can_be_resumed_without_a_checkpointer() -> None:
    compiled = one_node(ask_once).compile()
    with pytest.raises(InterruptError):
        await compiled.invoke({"items": ["kept"]})
    assert compiled.state() == {"items": ["kept"]}
    assert await compiled.resume("yes") == {"items": ["kept"], "answer": "yes"}


@BOTH
async def test_two_interrupts_in_a_node_get_their_values_in_order(tmp_path: Path) -> None:
    compiled = one_node(ask_twice).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({})
    assert caught.value.payload == "first"
    with pytest.raises(InterruptError) as caught:
        await compiled.resume("one")
    assert caught.value.payload == {"after": "one"}
    assert (await compiled.resume("two"))["items"] == ["one", "two"]


async def test_each_visit_of_a_node_asks_anew() -> None:
    graph = one_node(lambda state, ctx: {"items": ctx.interrupt(len(state.get("items", ())))})
    graph.add_conditional_edges("ask", lambda state: len(state["items"]) < 2, {True: "ask", False: "END"})
    compiled = graph.compile()
    with pytest.raises(InterruptError):
        await compiled.invoke({})
    with pytest.raises(InterruptError) as caught:
        await compiled.resume("a")
    assert caught.value.payload == 1
    assert (await compiled.resume("b"))["items"] == ["a", "b"]


async def test_resuming_without_a_value_asks_again(tmp_path: Path) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({})
    with pytest.raises(InterruptError) as caught:
        await compiled.resume()
    assert caught.value.payload == {"question": "really?"}


@BOTH
async def test_interrupt_in_a_branch_lets_the_others_finish(tmp_path: Path) -> None:
    ran = []

    def work(state: Work, ctx: NodeContext) -> dict[str, Any]:
        ran.append(ctx.node)
        return {"items": ctx.node}

    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        return {"items": ctx.interrupt("go on?")}

    graph = Graph(Work).add_node(ask).add_node("other", work).add_node("join", work)
    graph.add_edge(START, "ask").add_edge(START, "other").add_edge("ask", "join").add_edge("other", "join")
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({}, run_id="r")
    assert caught.value.payload == "go on?"
    assert ran == ["other"]
    assert (await compiled.resume("yes", run_id="r"))["items"] == ["yes", "other", "join"]
    assert ran == ["other", "join"]


async def test_of_several_interrupts_the_value_is_for_the_one_that_is_named(tmp_path: Path) -> None:
    graph = Graph(Work)
    for name in ("a", "b"):
        graph.add_node(name, lambda state, ctx: {"items": f"{ctx.node}={ctx.interrupt(ctx.node)}"}).add_edge(
            START, name
        )
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({}, run_id="r")
    ids = {found.node: found.id for found in caught.value.interrupts}
    assert list(ids) == ["a", "b"]
    with pytest.raises(QuestionError, match=r"a value is for one interrupt, but .*\(node 'a'\), .*\(node 'b'\) waits"):
        await compiled.resume("x", run_id="r")
    with pytest.raises(InterruptError) as caught:
        await compiled.resume("2", run_id="r", interrupt=ids["b"])
    assert [found.node for found in caught.value.interrupts] == ["a"]
    assert (await compiled.resume("1", run_id="r"))["items"] == ["a=1", "b=2"]


async def test_values_can_be_given_before_the_run_is_resumed(tmp_path: Path) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({}, run_id="r")
    (waits,) = find_interrupts(tmp_path / "r")
    give_value(waits.run_dir, waits.id, "first")
    assert list_suspensions(tmp_path / "r") == []
    with pytest.raises(AnsweredError):
        give_value(waits.run_dir, waits.id, "second")
    with pytest.raises(QuestionError, match="but nothing waits"):
        await compiled.resume("third", run_id="r")
    assert (await compiled.resume(run_id="r"))["answer"] == "first"


@pytest.mark.parametrize("goes_on", [True, False], ids=["goes on", "raises another"])
async def test_a_node_can_not_swallow_its_interrupt(goes_on: bool) -> None:
    def careless(state: Work, ctx: NodeContext) -> dict[str, Any]:
        try:
            return {"answer": ctx.interrupt("really?")}
        except Exception:
            if goes_on:
                return {"answer": "whatever"}
            raise RuntimeError("it went wrong") from None

    compiled = one_node(careless).compile()
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({})
    assert caught.value.payload == "really?"
    assert (await compiled.resume("yes"))["answer"] == "yes"


async def test_an_interrupt_is_neither_retried_nor_a_timeout_nor_a_failure() -> None:
    calls = []

    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        calls.append(ctx.attempt)
        return ask_twice(state, ctx)

    wrapped = with_retry(with_timeout(with_retry(ask, retries=3), 60), retries=3, on=(BaseException,))
    compiled = Graph(Work).add_node("ask", wrapped, max_retries=5).add_edge(START, "ask").compile()
    for value in ("one", "two"):
        with pytest.raises(InterruptError):
            await (compiled.invoke({}) if value == "one" else compiled.resume("one"))
    assert (await compiled.resume("two"))["items"] == ["one", "two"]
    assert calls == [1, 1, 1]


async def test_a_retried_node_gets_its_values_again() -> None:
    failed = []

    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        answer = ctx.interrupt("really?")
        if len(failed) < 3:
            failed.append(answer)
            raise ConnectionError
        return {"answer": answer}

    graph = Graph(Work).add_node("ask", with_retry(ask, retries=1, backoff=0), max_retries=1).add_edge(START, "ask")
    compiled = graph.compile()
    with pytest.raises(InterruptError):
        await compiled.invoke({})
    assert (await compiled.resume("yes"))["answer"] == "yes"
    assert failed == ["yes", "yes", "yes"]


async def test_what_an_attempt_does_to_its_value_is_its_own() -> None:
    seen = []

    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        answer = ctx.interrupt("which?")
        answer["names"].append("mine")
        seen.append(list(answer["names"]))
        if len(seen) < 2:
            raise ConnectionError
        return {"items": answer["names"]}

    compiled = one_node(with_retry(ask, retries=1, backoff=0)).compile()
    with pytest.raises(InterruptError):
        await compiled.invoke({})
    await compiled.resume({"names": ["given"]})
    assert seen == [["given", "mine"], ["given", "mine"]]


async def test_what_is_asked_must_be_json() -> None:
    compiled = one_node(lambda state, ctx: ctx.interrupt(object())).compile()
    with pytest.raises(NodeError, match=r"the interrupt of node 'ask' asks must be JSON: .* of type object") as caught:
        await compiled.invoke({})
    assert isinstance(caught.value.__cause__, ContextValueError)


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}], ids=["object", "nan", "key"])
async def test_what_is_given_must_be_json_and_is_not_taken_else(value: Any) -> None:
    compiled = one_node(ask_once).compile()
    with pytest.raises(InterruptError):
        await compiled.invoke({})
    with pytest.raises(ContextValueError, match="a value for the interrupt of node 'ask' must be JSON: 'value"):
        await compiled.resume(value)
    assert (await compiled.resume("yes"))["answer"] == "yes"


async def test_a_run_that_ended_takes_no_value(tmp_path: Path) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({}, run_id="r")
    with pytest.raises(QuestionError, match=r"but s0-\d+ \(node 'ask'\) waits; say which"):
        await compiled.resume("yes", run_id="r", interrupt="another")
    assert (await compiled.resume("yes", run_id="r"))["answer"] == "yes"
    with pytest.raises(QuestionError, match=r"run r: .* nothing waits for one; call resume\(\) without it"):
        await compiled.resume("no", run_id="r")
    assert (await compiled.resume(run_id="r"))["answer"] == "yes"


async def test_a_graph_that_was_changed_does_not_take_the_value(tmp_path: Path) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({}, run_id="r")
    renamed = Graph(Work).add_node("question", ask_once).add_edge(START, "question").compile(checkpointer=tmp_path)
    with pytest.raises(CheckpointError, match="the value was not taken"):
        await renamed.resume("yes", run_id="r")
    assert (await compiled.resume("later", run_id="r"))["answer"] == "later"


async def test_a_changed_function_gets_the_values_in_the_order_of_its_calls(tmp_path: Path) -> None:
    with pytest.raises(InterruptError):
        await one_node(ask_once).compile(checkpointer=tmp_path).invoke({}, run_id="r")
    asks_more = one_node(ask_twice).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await asks_more.resume("one", run_id="r")
    assert caught.value.payload == {"after": "one"}
    assert (await asks_more.resume("two", run_id="r"))["items"] == ["one", "two"]


async def test_of_two_who_resume_at_once_one_does(tmp_path: Path) -> None:
    compiled = one_node(ask_once).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({}, run_id="r")
    results: list[Any] = []

    async def resume(value: str) -> None:
        try:
            results.append((await compiled.resume(value, run_id="r"))["answer"])
        except (QuestionError, RunDirectoryError) as error:
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for value in ("one", "two"):
            tasks.start_soon(resume, value)
    assert sum(isinstance(result, str) for result in results) == 1
    assert compiled.state("r")["answer"] in results


async def test_a_run_at_work_takes_no_value(tmp_path: Path) -> None:
    ready, go = anyio.Event(), anyio.Event()

    async def wait(state: Work) -> None:
        ready.set()
        await go.wait()

    graph = one_node(ask_once).add_node(wait).add_edge("ask", "wait")
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError):
        await compiled.invoke({}, run_id="r")
    async with anyio.create_task_group() as tasks:

        async def resume() -> None:
            await compiled.resume("yes", run_id="r")

        tasks.start_soon(resume)
        await ready.wait()
        with pytest.raises(RunDirectoryError, match="in use by another process; wait for it, then give the value"):
            await compiled.resume("no", run_id="r")
        go.set()
    assert compiled.state("r")["answer"] == "yes"


async def test_a_node_may_raise_the_interrupt_itself() -> None:
    def ask(state: Work, ctx: NodeContext) -> dict[str, Any]:
        if not ctx.run.given:
            raise InterruptError({"question": "by hand"})
        return {"answer": ctx.interrupt()}

    compiled = one_node(ask).compile()
    with pytest.raises(InterruptError) as caught:
        await compiled.invoke({})
    assert caught.value.payload == {"question": "by hand"}
    assert (await compiled.resume("yes"))["answer"] == "yes"


PROGRAM = """
import sys
from pathlib import Path
from typing import Annotated, Any
import anyio
from attractor.prebuilt import END, START, Graph, InterruptError, NodeContext, State, append

class Work(State):
    items: Annotated[list[Any], append]

def ask(state, ctx):
    return {"items": [ctx.interrupt("first"), ctx.interrupt("second")]}

async def count(state, ctx):
    with open(sys.argv[2], "a") as file:
        file.write(ctx.node + " ")
    return {"items": ctx.node}

graph = Graph(Work).add_node("before", count).add_node(ask).add_node("beside", count).add_node("after", count)
graph.add_edge(START, "before").add_edge("before", "ask").add_edge("before", "beside")
graph.add_edge("ask", "after").add_edge("beside", "after")
compiled = graph.compile(checkpointer=sys.argv[1])

async def main():
    try:
        print(await (compiled.resume(sys.argv[3]) if len(sys.argv) > 3 else compiled.invoke({})))
    except InterruptError as error:
        print("waits:", error.payload)

anyio.run(main)
"""


def test_interrupts_are_answered_by_other_processes(tmp_path: Path) -> None:
    def run(*value: str) -> str:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "runs"), str(tmp_path / "ran"), *value]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    assert run() == "waits: first"
    assert run("one") == "waits: second"
    assert run("two") == "{'items': ['before', 'one', 'two', 'beside', 'after']}"
    assert (tmp_path / "ran").read_text() == "before beside after "
    assert len(list((tmp_path / "runs").iterdir())) == 1
