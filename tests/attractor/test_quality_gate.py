"""Quality gates in Python: routes, budgets, events, judges; and work that is skipped when it was done."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from attractor.effects import MemoryEffectStore, SqliteEffectStore
from attractor.events import GateEvaluated
from attractor.handlers.gates import read_verdict, record_verdict
from attractor.prebuilt import (
    END,
    START,
    GateResult,
    GateState,
    Graph,
    GraphError,
    InterruptError,
    NodeContext,
    NodeError,
    State,
    add_quality_gate,
    append,
    judge_by_model,
    skip_if_done,
)
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter


class Draft(GateState):
    text: str
    steps: Annotated[list[str], append]


def gated(evaluator: Any, **options: Any) -> Graph[Draft]:
    """write -> review, which leads to ship, back to write, or to ask."""
    graph = Graph(Draft)
    for name in ("write", "ship", "ask"):
        graph.add_node(name, lambda state, name=name: {"steps": name, "text": name})
    graph.add_edge(START, "write")
    graph.add_edge("write", "review")
    add_quality_gate(graph, "review", evaluator, on_pass="ship", on_fail="write", on_escalate="ask", **options)
    return graph


def verdicts(*passed: bool) -> Any:
    left = list(passed)
    return lambda state: GateResult(left.pop(0), score=50, reasons=["too short"], feedback="write more")


@pytest.mark.parametrize(
    ("passed", "attempts", "steps"),
    [
        ([True], 3, "write ship"),
        ([False, True], 3, "write write ship"),
        ([False, False, True], 3, "write write write ship"),
        ([False, False, False], 3, "write write write ask"),
        ([False], 1, "write ask"),
    ],
)
async def test_the_three_routes(passed: list[bool], attempts: int, steps: str) -> None:
    state = await gated(verdicts(*passed), max_attempts=attempts).compile().invoke({})
    assert state["steps"] == steps.split()
    assert state["gates"]["review"] == {
        "passed": passed[-1],
        "score": 50,
        "reasons": ["too short"],
        "feedback": "write more",
        "attempts": len(passed),
        "route": "pass" if passed[-1] else "escalate",
    }


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 5))
def test_the_budget_against_a_count(passed: list[bool], most: int) -> None:
    record: dict[str, Any] | None = None
    failures = 0
    for each in passed:
        record = record_verdict(record, GateResult(each), most)
        failures = 0 if each else failures + 1
        assert record["route"] == ("pass" if each else "escalate" if failures >= most else "fail")


async def test_each_gate_has_a_budget_of_its_own_that_passing_renews(tmp_path: Path) -> None:
    graph = Graph(Draft)
    graph.add_node("write", lambda state: {"steps": "write"})
    graph.add_node("ask", lambda state: {"steps": "ask"})
    graph.add_edge(START, "write")
    graph.add_edge("write", "style")
    style, facts = verdicts(False, True, False, True), verdicts(False, True)
    add_quality_gate(graph, "style", style, on_pass="facts", on_fail="write", on_escalate="ask", max_attempts=2)
    add_quality_gate(graph, "facts", facts, on_pass=END, on_fail="write", on_escalate="ask", max_attempts=2)
    state = await graph.compile().invoke({})
    assert state["steps"] == ["write"] * 4
    assert (state["gates"]["style"]["attempts"], state["gates"]["facts"]["attempts"]) == (2, 2)


async def test_every_evaluation_is_an_event() -> None:
    seen: list[Any] = []
    await gated(verdicts(False, False), max_attempts=2).compile().invoke({}, on_event=seen.append)
    found = [event for event in seen if isinstance(event, GateEvaluated)]
    assert [(event.gate, event.passed, event.route, event.attempt, event.max_attempts) for event in found] == [
        ("review", False, "fail", 1, 2),
        ("review", False, "escalate", 2, 2),
    ]
    assert GateEvaluated.from_record(found[0].to_record()) == found[0]


async def test_the_budget_survives_a_restart(tmp_path: Path) -> None:
    outcomes: Iterator[Any] = iter([False, ConnectionError("the judge is away"), False])

    async def evaluator(state: Draft, ctx: NodeContext) -> GateResult:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return GateResult(outcome)

    with pytest.raises(NodeError, match="the judge is away"):
        await gated(evaluator, max_attempts=2).compile(checkpointer=tmp_path).invoke({})
    state = await gated(evaluator, max_attempts=2).compile(checkpointer=tmp_path).resume()
    assert state["steps"] == ["write", "write", "ask"]


async def test_a_gate_may_ask_a_person(tmp_path: Path) -> None:
    def evaluator(state: Draft, ctx: NodeContext) -> GateResult:
        return GateResult(ctx.interrupt({"approve": state["text"]}))

    graph = gated(evaluator).compile(checkpointer=tmp_path)
    with pytest.raises(InterruptError) as caught:
        await graph.invoke({})
    assert caught.value.payload == {"approve": "write"}
    assert (await graph.resume(True))["steps"] == ["write", "ship"]


async def test_what_an_evaluator_may_not_return() -> None:
    with pytest.raises(NodeError, match="gate 'review' must return a GateResult, not bool"):
        await gated(lambda state: True).compile().invoke({})


def test_a_score_is_a_number_and_one_reason_is_one() -> None:
    with pytest.raises(ValueError, match="finite"):
        GateResult(True, float("nan"))
    assert GateResult(False, reasons="too short").reasons == ("too short",)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ([True], "a JSON object, not list"),
        ({}, "`passed` of a verdict must be true or false, not None"),
        ({"passed": "yes"}, "`passed` of a verdict must be true or false, not 'yes'"),
        ({"passed": True, "score": True}, "`score` of a verdict must be a number, not True"),
        ({"passed": True, "score": "9"}, "`score` of a verdict must be a number, not '9'"),
        ({"passed": True, "reasons": [1]}, "`reasons` of a verdict must be a list of texts"),
        ({"passed": True, "feedback": ["x"]}, "`feedback` of a verdict must be text, not list"),
    ],
    ids=["list", "empty", "text", "true", "score", "reasons", "feedback"],
)
def test_what_is_no_verdict(record: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_verdict(record)


def test_gates_that_cannot_be_added() -> None:
    class Plain(State):
        text: str

    with pytest.raises(GraphError, match="derive it from GateState"):
        add_quality_gate(Graph(Plain), "g", verdicts(), on_pass=END, on_fail=END, on_escalate=END)
    with pytest.raises(ValueError, match="at least 1"):
        gated(verdicts(), max_attempts=0)
    with pytest.raises(TypeError, match="on_escalate"):
        add_quality_gate(Graph(Draft), "g", verdicts(), on_pass=END, on_fail=END)  # type: ignore[call-arg]


@pytest.mark.parametrize(("pass_score", "steps"), [(None, ["write", "ask"]), (60, ["write", "ship"])])
async def test_a_model_as_judge(pass_score: float | None, steps: list[str]) -> None:
    answer = '{"passed": false, "score": 70, "reasons": ["dull"], "feedback": "be witty"}'
    with ScriptedAdapter(answer) as adapter:
        judge = judge_by_model("m", "It must be witty.", client=Client({"s": adapter}, "s"), pass_score=pass_score)
        state = await gated(judge, max_attempts=1).compile().invoke({})
    assert state["steps"] == steps
    assert state["gates"]["review"]["feedback"] == "be witty"
    asked = adapter.requests[0].messages[-1].text
    assert "It must be witty." in asked
    assert '"text": "write"' in asked


# --- skip_if_done.


class Report(State):
    topic: str
    style: str
    report: str


def reporting(store: Any, calls: list[str], **options: Any) -> Any:
    async def research(state: Report) -> dict[str, Any]:
        calls.append(state["topic"])
        if state["topic"] == "trouble":
            raise OSError("line cut")
        return {"report": f"all about {state['topic']}"}

    graph = Graph(Report)
    graph.add_node(skip_if_done(research, store, **{"key_from": ["topic"], "namespace": "research", **options}))
    graph.add_edge(START, "research")
    return graph.compile()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_work_that_was_done_is_skipped(kind: str, tmp_path: Path) -> None:
    store = MemoryEffectStore() if kind == "memory" else SqliteEffectStore(tmp_path / "done.db")
    calls: list[str] = []
    graph = reporting(store, calls)
    first = await graph.invoke({"topic": "owls", "style": "dry"})
    assert first == await graph.invoke({"topic": "owls", "style": "dry"})
    assert (await graph.invoke({"topic": "owls", "style": "witty"}))["report"] == "all about owls"
    await graph.invoke({"topic": "bats"})
    assert calls == ["owls", "bats"]
    await reporting(store, calls, namespace="research 2").invoke({"topic": "owls"})
    await reporting(store, calls, key_from=lambda state: [state["topic"], state["style"]]).invoke(
        {"topic": "owls", "style": "dry"}
    )
    assert calls == ["owls", "bats", "owls", "owls"]


async def test_a_result_is_done_again_after_its_time() -> None:
    times = [1000.0]
    calls: list[str] = []
    graph = reporting(MemoryEffectStore(), calls, ttl=10, clock=lambda: times[-1])
    for time, count in [(1000.0, 1), (1009.9, 1), (1010.0, 2)]:
        times.append(time)
        await graph.invoke({"topic": "owls"})
        assert len(calls) == count


async def test_the_time_of_a_result_begins_when_it_is_there() -> None:
    now = [1000.0]
    calls: list[float] = []

    def research(state: dict[str, Any]) -> dict[str, Any]:
        calls.append(now[0])
        now[0] += 5
        return {"report": "done"}

    node = skip_if_done(research, MemoryEffectStore(), ["topic"], ttl=10, clock=lambda: now[0])
    for time, count in [(1000.0, 1), (1014.9, 1), (1015.0, 2)]:
        now[0] = time
        assert await node({"topic": "owls"}, None) == {"report": "done"}
        assert len(calls) == count


async def test_a_failure_is_not_kept() -> None:
    calls: list[str] = []
    graph = reporting(MemoryEffectStore(), calls)
    for _ in range(2):
        with pytest.raises(NodeError, match="line cut"):
            await graph.invoke({"topic": "trouble"})
    assert calls == ["trouble", "trouble"]


async def test_what_makes_no_key_or_no_time() -> None:
    with pytest.raises(NodeError, match="JSON values only"):
        await reporting(MemoryEffectStore(), [], key_from=lambda state: float("nan")).invoke({"topic": "owls"})
    with pytest.raises(ValueError, match="ttl must be more than 0"):
        reporting(MemoryEffectStore(), [], ttl=0)
