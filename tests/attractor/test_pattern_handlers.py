"""The patterns in DOT: registered functions, converge, quality_gate, skip_if_done, idempotent, interrupt."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import (
    Context,
    Node,
    Outcome,
    PipelineRunner,
    RunResult,
    SimulatedBackend,
    ValidationError,
    give_value,
    list_suspensions,
    parse_dot,
    validate,
)
from attractor.cli.models import find_asking
from attractor.event_log import read_events
from attractor.events import GateEvaluated
from attractor.handlers.command_tools import parse_command_tools
from attractor.handlers.convergence import Candidate
from attractor.handlers.gates import GateResult
from attractor.prebuilt import Tool, ToolLoopHandler
from attractor.prebuilt.command_tools import open_tools
from attractor.suspension import Suspend
from unified_llm import Client, InvalidRequestError
from unified_llm.testing import ScriptedAdapter, respond

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs nodes and edges in the middle of a pipeline; each run in a directory of its own, all in one working one."""
    work = tmp_path / "work"
    work.mkdir()
    numbers = iter(range(100))

    async def run(middle: str, **options: Any) -> RunResult:
        source = f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; {middle} }}"
        runner = PipelineRunner(logs_root=tmp_path / f"run{next(numbers)}", working_dir=work, **options)
        return await runner.run(source)

    return run


def told(path: Path) -> list[Any]:
    return [event for event in read_events(path) if isinstance(event, GateEvaluated)]


# --- Functions.


async def test_a_registered_function_is_a_stage(run: Run) -> None:
    async def double(values: Mapping[str, Any]) -> dict[str, Any]:
        return {"n": values["n"] * 2}

    result = await run(
        'a [type=function, function="double"]; start -> a -> exit', functions={"double": double}, context={"n": 21}
    )
    assert result.context["n"] == 42


@pytest.mark.parametrize("name", ["os:system", "os.system", "double", "", "__import__"])
async def test_nothing_is_called_that_was_not_registered(run: Run, name: str) -> None:
    result = await run(f'a [type=function, function="{name}"]; start -> a -> exit', functions={"known": print})
    assert not result.status.is_success
    assert f"{name!r}; registered are: known" in result.failure_reason


async def test_what_functions_return(run: Run) -> None:
    wanted = {"text": "notes", "none": None, "outcome": Outcome.success(preferred_label="x"), "number": 7}
    functions = {name: lambda values, value=value: value for name, value in wanted.items()}
    nodes = " ".join(f'{name} [type=function, function="{name}"];' for name in ("text", "none", "outcome"))
    result = await run(f"{nodes} start -> text -> none -> outcome -> exit", functions=functions)
    assert result.status.is_success
    result = await run('a [type=function, function="number"]; start -> a -> exit', functions=functions)
    assert "must return an Outcome" in result.failure_reason


async def test_retries_and_time_limits_are_attributes_of_the_node(run: Run) -> None:
    left = [OSError("line cut"), OSError("line cut"), None]

    async def shaky(values: Mapping[str, Any]) -> None:
        if (error := left.pop(0)) is not None:
            raise error

    node = 'a [type=function, function="shaky", max_retries=2, retry_policy="linear", timeout="5s"]'
    assert (await run(f"{node}; start -> a -> exit", functions={"shaky": shaky})).status.is_success
    assert left == []


async def test_a_child_pipeline_has_the_functions_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work/child.dot").write_text(
        "digraph c { start [shape=Mdiamond]; exit [shape=Msquare]; "
        'a [type=function, function="f"]; start -> a -> exit }'
    )
    result = await run(
        'a [type=pipeline, "stack.child_dotfile"="child.dot"]; start -> a -> exit', functions={"f": lambda v: {"x": 1}}
    )
    assert result.context["a.x"] == 1


# --- converge.

LOOP = 'start -> improve; improve -> improve [label="again"]; improve -> exit [label="stop"];'


@pytest.mark.parametrize(
    ("scores", "reason", "turns"),
    [([10, 100], "optimal", 2), ([10, 20, 20, 5], "converged", 4), ([1, 2, 3, 4, 5, 6], "exhausted", 5)],
)
async def test_a_function_that_converges(run: Run, scores: list[float], reason: str, turns: int) -> None:
    left = list(scores)
    attrs = '"converge.patience"=2, "converge.max_iterations"=5'
    result = await run(
        f'improve [type=converge, function="work", {attrs}]; {LOOP}', functions={"work": lambda values: left.pop(0)}
    )
    assert result.status.is_success
    assert (result.context["converge.stop_reason"], result.context["converge.iterations"]) == (reason, turns)
    record = result.context["converge.improve"]
    assert record["history"] == scores[:turns]
    assert record["best_score"] == max(scores[:turns]) == result.context["converge.best_score"]


async def test_a_candidate_that_is_done(run: Run) -> None:
    work = iter([Candidate(1, {"file": "a"}), Candidate(0, done=True)])
    result = await run(
        f'improve [type=converge, function="work"]; {LOOP}', functions={"work": lambda values: next(work)}
    )
    assert result.context["converge.stop_reason"] == "done"
    assert result.context["converge.improve"]["best_payload"] == {"file": "a"}


async def test_a_prompt_that_is_scored_by_a_command(run: Run) -> None:
    command = "echo x >> tries; echo score: $(( $(wc -l < tries) * 40 ))"
    result = await run(f'improve [type=converge, prompt="Better!", "converge.score_command"="{command}"]; {LOOP}')
    assert result.context["converge.improve"]["history"] == [40, 80, 120]
    assert result.context["converge.stop_reason"] == "optimal"
    assert "[Simulated]" in result.context["converge.improve"]["best_payload"]


async def test_a_model_that_scores_itself(run: Run) -> None:
    answers = iter(['I tried. {"score": 60}', 'Best I can: {"score": 61, "done": true}'])

    async def backend(node: Node, prompt: str, context: Context) -> str:
        assert '{"score": 0 to 100' in prompt
        return next(answers)

    result = await run(f'improve [type=converge, prompt="Better!"]; {LOOP}', backend=backend)
    assert result.context["converge.improve"]["history"] == [60, 61]
    assert result.context["converge.stop_reason"] == "done"


async def test_a_loop_whose_work_is_another_stage(run: Run) -> None:
    result = await run(
        'work [type=function, function="work"]; '
        'judge [type=converge, "converge.score_command"="echo 50", "converge.patience"=2]; start -> work -> judge; '
        'judge -> work [label="again"]; judge -> exit [label="stop"];',
        functions={"work": lambda values: {"seen": [*values.get("seen", []), values.get("converge.iterations")]}},
    )
    assert result.context["seen"] == [None, 1, 2]
    assert result.context["converge.stop_reason"] == "converged"


async def test_a_loop_that_stopped_begins_anew(run: Run) -> None:
    rounds = iter(["again", "done"])
    result = await run(
        'improve [type=converge, function="work"]; more [type=function, function="more"]; start -> improve; '
        'improve -> improve [label="again"]; improve -> more [label="stop"]; '
        'more -> improve [label="again"]; more -> exit [label="done"]',
        functions={
            "work": lambda values: 100,
            "more": lambda values: Outcome.success(preferred_label=next(rounds)),
        },
    )
    assert result.context["converge.improve"]["iterations"] == 1
    assert result.completed_nodes.count("improve") == 2


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ('"converge.score_command"="exit 3"', "exited with code 3"),
        ('"converge.score_command"="true"', "printed nothing"),
        ('"converge.score_command"="echo great"', "must be a number, not 'great'"),
        ('function="text"', "must be a number, not 'high'"),
        ('function="text", "converge.patience"=-1', "patience must not be negative"),
    ],
)
async def test_a_turn_without_a_score_fails(run: Run, attrs: str, words: str) -> None:
    result = await run(f"improve [type=converge, {attrs}]; {LOOP}", functions={"text": lambda values: "high"})
    assert not result.status.is_success
    assert words in result.failure_reason


# --- quality_gate.

GATE = (
    'start -> review; review -> exit [label="pass"]; review -> fix [label="fail"]; review -> ask [label="escalate"]; '
    'fix [type=function, function="fix"]; ask [type=function, function="fix"]; fix -> review; ask -> exit;'
)
FUNCTIONS = {"fix": lambda values: None}


@pytest.mark.parametrize(
    ("passed", "path"),
    [([True], "review"), ([False, True], "review fix review"), ([False, False], "review fix review ask")],
)
async def test_the_three_routes(run: Run, passed: list[bool], path: str) -> None:
    left = [GateResult(each, 50, ["short"], "longer") for each in passed]
    functions = {**FUNCTIONS, "judge": lambda values: left.pop(0)}
    result = await run(
        f'review [type=quality_gate, function="judge", "gate.max_attempts"=2]; {GATE}', functions=functions
    )
    assert result.completed_nodes == ("start", *path.split(), "exit")
    assert result.context["gate.feedback"] == "longer"
    assert result.context["gate.review"]["attempts"] == len(passed)
    assert [event.passed for event in told(result.logs_root)] == passed


@pytest.mark.parametrize(
    ("command", "passed", "feedback"),
    [
        ("true", True, ""),
        ("echo bad >&2; exit 1", False, "bad"),
        ('echo \'{"passed": false, "score": 3, "feedback": "longer"}\'', False, "longer"),
        ('echo \'{"passed": true, "reasons": ["fine"]}\'', True, "fine"),
        ('echo \'{"passed": true, "feedback": "liar"}\'; exit 1', False, "liar"),
    ],
)
async def test_a_command_as_evaluator(run: Run, command: str, passed: bool, feedback: str) -> None:
    quoted = json.dumps(command)
    result = await run(
        f'review [type=quality_gate, tool_command={quoted}, "gate.max_attempts"=1]; {GATE}', functions=FUNCTIONS
    )
    assert result.context["gate.route"] == ("pass" if passed else "escalate")
    assert feedback in result.context["gate.feedback"]


@pytest.mark.parametrize(
    ("answer", "route"),
    [
        ('{"passed": true, "score": 90}', "pass"),
        ('Well: {"passed": false, "feedback": "longer"}', "escalate"),
        (Outcome.success("fine"), "pass"),
        (Outcome.success('{"passed": false}'), "escalate"),
        (Outcome.fail("no good"), "escalate"),
    ],
    ids=["passed", "not-passed", "success", "verdict-in-success", "fail"],
)
async def test_a_model_as_evaluator(run: Run, answer: Any, route: str) -> None:
    async def backend(node: Node, prompt: str, context: Context) -> Any:
        assert '"passed": true or false' in prompt
        return answer

    result = await run(
        f'review [type=quality_gate, prompt="Is it good?", "gate.max_attempts"=1]; {GATE}',
        functions=FUNCTIONS,
        backend=backend,
    )
    assert result.context["gate.route"] == route


@pytest.mark.parametrize(
    ("answer", "words"),
    [("Looks good to me!", "gave no verdict"), ('{"passed": "yes"}', "`passed` of a verdict must be true or false")],
)
async def test_an_answer_without_a_verdict_lets_nothing_through(run: Run, answer: str, words: str) -> None:
    result = await run(
        f'review [type=quality_gate, prompt="Is it good?"]; {GATE}',
        functions=FUNCTIONS,
        backend=lambda node, prompt, context: answer,
    )
    assert not result.status.is_success
    assert words in result.failure_reason


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ('function="fix"', "must return a GateResult, not NoneType"),
        ('tool_command="true", "gate.max_attempts"=-1', "max_attempts must be at least 1"),
    ],
)
async def test_a_gate_that_cannot_judge_fails(run: Run, attrs: str, words: str) -> None:
    result = await run(f"review [type=quality_gate, {attrs}]; {GATE}", functions=FUNCTIONS)
    assert not result.status.is_success
    assert words in result.failure_reason


async def test_a_gate_in_simulation_follows_the_script(run: Run) -> None:
    backend = SimulatedBackend({"review": ["fail", "success"]})
    result = await run(f'review [type=quality_gate, prompt="Good?"]; {GATE}', functions=FUNCTIONS, backend=backend)
    assert result.completed_nodes == ("start", "review", "fix", "review", "exit")


# --- skip_if_done and idempotent.


async def test_work_is_skipped_where_it_was_done_for_the_same_values(run: Run) -> None:
    calls: list[str] = []

    def research(values: Mapping[str, Any]) -> dict[str, Any]:
        calls.append(values["topic"])
        return {"report": f"all about {values['topic']}"}

    node = 'a [type=skip_if_done, function="research", "effect.key_from"="topic"]; start -> a -> exit'
    reports = [
        (await run(node, functions={"research": research}, context={"topic": topic, "other": number})).context["report"]
        for number, topic in enumerate(["owls", "owls", "bats"])
    ]
    assert reports == ["all about owls", "all about owls", "all about bats"]
    assert calls == ["owls", "bats"]


async def test_a_failure_is_tried_again(run: Run, tmp_path: Path) -> None:
    node = 'a [type=skip_if_done, tool_command="echo x >> tries; test $(wc -l < tries) -ge 2"]; start -> a -> exit'
    assert [(await run(node)).status.is_success for _ in range(3)] == [False, True, True]
    assert (tmp_path / "work/tries").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("policy", "statuses"), [("error", "- -"), ("skip", "skipped skipped"), ("rerun", "done known")]
)
async def test_an_effect_that_failed_may_have_happened(run: Run, tmp_path: Path, policy: str, statuses: str) -> None:
    command = "echo x >> tries; test $(wc -l < tries) -ge 2"
    node = (
        f'a [type=idempotent, tool_command="{command}", "effect.key_from"="order", "effect.on_incomplete"="{policy}"]; '
        "start -> a -> exit"
    )
    results = [await run(node, context={"order": 7}) for _ in range(3)]
    assert not results[0].status.is_success
    assert [result.context.get("effect.status", "-") for result in results[1:]] == statuses.split()
    if policy == "error":
        assert "never reported its end" in results[1].failure_reason
    assert (tmp_path / "work/tries").read_text().count("x") == (2 if policy == "rerun" else 1)


async def test_an_effect_happens_once_for_a_key(run: Run, tmp_path: Path) -> None:
    command = "echo x >> tries; echo receipt $(wc -l < tries)"
    node = f'a [type=idempotent, tool_command="{command}", "effect.key_from"="order"]; start -> a -> exit'
    results = [await run(node, context={"order": order}) for order in (7, 7, 8)]
    assert [result.context["tool.output"] for result in results] == ["receipt 1\n", "receipt 1\n", "receipt 2\n"]
    assert [result.context["effect.status"] for result in results] == ["done", "known", "done"]
    assert (tmp_path / "work/.attractor/effects.sqlite3").exists()


async def test_a_time_to_live(run: Run, tmp_path: Path) -> None:
    now = [1000.0]
    node = 'a [type=idempotent, tool_command="echo x >> tries", "effect.ttl"="1h"]; start -> a -> exit'
    for time, count in [(1000.0, 1), (4599.0, 1), (4600.0, 2)]:
        now.append(time)
        await run(node, clock=lambda: now[-1])
        assert (tmp_path / "work/tries").read_text().count("x") == count


@pytest.mark.parametrize("kind", ["skip_if_done", "idempotent"])
async def test_a_time_to_live_begins_at_the_end_of_the_work(run: Run, kind: str) -> None:
    now, calls = [1000.0], []

    def work(values: Any) -> None:
        calls.append(now[0])
        now[0] += 50

    node = f'a [type={kind}, function=work, "effect.ttl"="1m"]; start -> a -> exit'
    for time, count in [(1000.0, 1), (1109.0, 1), (1110.0, 2)]:
        now[0] = time
        await run(node, functions={"work": work}, clock=lambda: now[0])
        assert len(calls) == count


@pytest.mark.parametrize("kind", ["skip_if_done", "idempotent"])
async def test_a_rehearsal_leaves_nothing(run: Run, tmp_path: Path, kind: str) -> None:
    await run(f'a [type={kind}, tool_command="echo x >> tries"]; start -> a -> exit', dry_run=True)
    await run(f'a [type={kind}, prompt="Write it."]; start -> a -> exit')
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_rehearsal_scores_nothing(run: Run, tmp_path: Path) -> None:
    node = 'a [type=converge, "converge.score_command"="echo 7; touch hit", "converge.patience"=1]'
    result = await run(f'{node}; start -> a; a -> a [label="again"]; a -> exit [label="stop"]', dry_run=True)
    assert result.status.is_success
    assert (result.context["converge.score"], result.context["converge.stop_reason"]) == (None, "converged")
    assert not (tmp_path / "work" / "hit").exists()


async def test_a_rehearsed_gate_lets_all_through(run: Run, tmp_path: Path) -> None:
    node = 'review [type=quality_gate, tool_command="touch hit; false"]'
    ways = 'review -> exit [label="pass"]; review -> bad [label="fail"]; review -> bad [label="escalate"]; bad -> exit'
    result = await run(f"{node}; start -> review; {ways}", dry_run=True)
    assert result.context["gate.route"] == "pass"
    assert not (tmp_path / "work" / "hit").exists()


async def test_work_that_waits_is_not_tried_again(run: Run) -> None:
    calls: list[int] = []

    def work(values: Any) -> None:
        calls.append(1)
        raise Suspend("which one?")

    result = await run(
        'a [type=retry, function=work, "retry.retries"=3, "retry.backoff"="1ms"]; start -> a -> exit',
        functions={"work": work},
    )
    assert result.waiting
    assert calls == [1]
    assert [waits.payload for waits in list_suspensions(result.logs_root)] == ["which one?"]


async def test_policies_that_there_are_not(run: Run) -> None:
    result = await run('a [type=idempotent, function="f", "effect.on_incomplete"="retry"]; start -> a -> exit')
    assert "one of error, skip, rerun" in result.failure_reason


# --- interrupt.


@pytest.mark.parametrize(("value", "path"), [("ship", "ship"), ("drop", "drop"), ({"n": 1}, "drop")])
async def test_a_value_from_outside_chooses_the_way(run: Run, value: Any, path: str) -> None:
    nodes = 'wait [type=interrupt, prompt="Ship $goal?", "interrupt.show"="draft, score"]; graph [goal="it"];'
    nodes += " ".join(f'{name} [type=function, function="fix"]; {name} -> exit;' for name in ("ship", "drop"))
    middle = f'{nodes} start -> wait; wait -> ship [label="ship"]; wait -> drop [label="drop"]'
    result = await run(middle, functions=FUNCTIONS, context={"draft": "text"})
    assert result.waiting
    (wanted,) = list_suspensions(result.logs_root)
    assert wanted.payload == {"prompt": "Ship it?", "values": {"draft": "text", "score": None}}
    give_value(result.logs_root, wanted.id, value)
    result = await PipelineRunner(functions=FUNCTIONS).resume(result.logs_root)
    assert result.completed_nodes == ("start", "wait", path, "exit")
    assert result.context["wait.value"] == value


# --- tool_loop.


def look(city: str) -> str:
    return f"rain in {city}"


def ask(city: str, ctx: Any) -> str:
    return f"{ctx.interrupt(city)} in {city}"


TOOLS = [Tool("look", look), Tool("ask", ask)]


def answering(*answers: Any) -> Any:
    left = list(answers)

    async def model(messages: list[Any], tools: list[Any]) -> Any:
        answer = left.pop(0)
        return answer(messages, tools) if callable(answer) else answer

    return model


def wants(tool: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "1", "name": tool, "arguments": {"city": "Oslo"}}]}


def repeat(messages: list[Any], tools: list[Any]) -> str:
    return str(messages[-1]["content"])


WEATHER = 'a [type=tool_loop, prompt="Weather?", fidelity=full]; start -> a -> exit'


async def test_a_tool_loop_is_a_stage(run: Run) -> None:
    def first(messages: list[Any], tools: list[Any]) -> Any:
        assert messages == [{"role": "user", "content": "Weather?"}]
        assert [tool.name for tool in tools] == ["look", "ask"]
        return wants("look")

    result = await run(WEATHER, handlers={"tool_loop": ToolLoopHandler(TOOLS, model=answering(first, repeat))})
    assert result.status.is_success
    assert result.context["last_response"] == "rain in Oslo"
    assert (result.context["a.status"], result.context["a.turns"]) == ("completed", 2)
    assert (result.logs_root / "a/response.md").read_text() == "rain in Oslo"


async def test_the_node_chooses_its_tools_and_turns(run: Run) -> None:
    node = WEATHER.replace("fidelity", '"tool_loop.tools"="look", "tool_loop.max_turns"=2, fidelity')
    model = answering(lambda messages, tools: wants(tools[0].name), wants("ask"))
    result = await run(node, handlers={"tool_loop": ToolLoopHandler(TOOLS, model=model)})
    assert result.failure_reason == "the tool loop of 'a' ended with max_turns"
    result = await run(
        WEATHER.replace("fidelity", '"tool_loop.tools"="look, jump", fidelity'),
        handlers={"tool_loop": ToolLoopHandler(TOOLS, model=model)},
    )
    assert "names the tools jump" in result.failure_reason


async def test_a_tool_loop_asks_the_model_that_the_pipeline_names(run: Run) -> None:
    with ScriptedAdapter("Sunny.") as adapter:
        handler = ToolLoopHandler(client=Client({"scripted": adapter}, "scripted"))
        result = await run(f"graph [llm_model=small]; {WEATHER}", handlers={"tool_loop": handler})
    assert result.context["last_response"] == "Sunny."
    assert adapter.requests[0].model == "small"


async def test_a_tool_that_waits_suspends_the_pipeline(run: Run) -> None:
    result = await run(WEATHER, handlers={"tool_loop": ToolLoopHandler(TOOLS, model=answering(wants("ask")))})
    assert result.waiting
    (child,) = (result.logs_root / "a").glob("child-*")
    (wanted,) = list_suspensions(child)
    assert wanted.payload == "Oslo"
    give_value(child, wanted.id, "snow")
    handlers = {"tool_loop": ToolLoopHandler(TOOLS, model=answering(repeat))}
    result = await PipelineRunner(handlers=handlers).resume(result.logs_root)
    assert result.context["last_response"] == "snow in Oslo"


async def test_without_its_handler_a_tool_loop_is_refused(run: Run) -> None:
    with pytest.raises(ValidationError, match="needs a runner with a ToolLoopHandler"):
        await run(WEATHER)


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("", []),
        ("now: date", [("now", (), "Runs: date")]),
        ("\n  look(city, day) : curl wttr.in/$city # The weather \n\n", [("look", ("city", "day"), "The weather")]),
        ("a(): echo '# not this'", [("a", (), "Runs: echo '# not this'")]),
        ("a: true\nb-2(x): false", [("a", (), "Runs: true"), ("b-2", ("x",), "Runs: false")]),
    ],
)
def test_commands_as_tools(text: str, tools: list[tuple[str, tuple[str, ...], str]]) -> None:
    assert [(tool.name, tool.parameters, tool.description) for tool in parse_command_tools(text)] == tools


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo hello", "line 1 is no tool"),
        ("a: true\n\na: false", "line 3 names the tool 'a' again"),
        ("a(PATH): true", "'PATH' can't be a parameter"),
        ("a(goal): true", "'goal' can't be a parameter"),
        ("a(x,): true", "'' can't be a parameter"),
        ("a(x, x): true", "line 1 names a parameter twice"),
        ("a(x):", "line 1 is no tool"),
        ("1a: true", "line 1 is no tool"),
    ],
)
def test_commands_that_are_no_tools_are_found_before_anything_runs(text: str, said: str) -> None:
    source = f'digraph g {{ a [type=tool_loop, "tool_loop.commands"="{text}"]; start -> a -> exit }}'
    (found,) = [each for each in validate(parse_dot(source)) if each.rule == "tool_loop_commands"]
    assert said in found.message
    assert found.span is not None


async def test_commands_and_functions_are_tools_of_one_loop(run: Run, tmp_path: Path) -> None:
    commands = 'say(word): echo \\"$word $goal\\"; echo oops >&2\nfail: echo bad; exit 3'
    node = WEATHER.replace("fidelity", f'"tool_loop.commands"="{commands}", fidelity')
    seen: list[str] = []

    def note(messages: list[Any], tools: list[Any]) -> Any:
        seen.append(str(messages[-1]["content"]))
        return {"tool_calls": [{"id": "2", "name": "fail", "arguments": {}}]}

    def end(messages: list[Any], tools: list[Any]) -> str:
        seen.append(str(messages[-1]["content"]))
        return "over"

    first = {"tool_calls": [{"id": "1", "name": "say", "arguments": {"word": "$(hello)"}}]}
    handler = ToolLoopHandler(TOOLS, model=answering(first, note, end), working_dir=tmp_path)
    result = await run(f'goal="dry"; {node}', handlers={"tool_loop": handler})
    assert result.context["last_response"] == "over"
    assert seen == ["$(hello) dry\noops", "RuntimeError: the command exited with code 3: bad"]
    clash = WEATHER.replace("fidelity", '"tool_loop.commands"="look: true", fidelity')
    result = await run(clash, handlers={"tool_loop": ToolLoopHandler(TOOLS, model=answering())})
    assert "has a command for the tool look, which its ToolLoopHandler has already" in result.failure_reason


async def test_commands_run_where_their_handler_works(run: Run, tmp_path: Path) -> None:
    node = WEATHER.replace("fidelity", '"tool_loop.commands"="here: pwd", fidelity')
    wanted = {"tool_calls": [{"id": "1", "name": "here", "arguments": {}}]}
    handler = ToolLoopHandler(model=answering(wanted, repeat), working_dir=tmp_path)
    result = await run(node, handlers={"tool_loop": handler})
    assert result.context["last_response"] == str(tmp_path.resolve())


@pytest.mark.parametrize("word", ["a\0b", "x" * 3_000_000], ids=["nul", "huge"])
async def test_an_argument_that_no_command_can_have_is_an_error_that_the_model_sees(run: Run, word: str) -> None:
    node = WEATHER.replace("fidelity", '"tool_loop.commands"="say(word): echo $word", fidelity')
    wanted = {"tool_calls": [{"id": "1", "name": "say", "arguments": {"word": word}}]}

    def see(messages: list[Any], tools: list[Any]) -> str:
        assert messages[-1]["is_error"]
        return "seen"

    result = await run(node, handlers={"tool_loop": ToolLoopHandler(model=answering(wanted, see))})
    assert result.context["last_response"] == "seen"


async def test_a_command_has_its_time(tmp_path: Path) -> None:
    (tool,) = parse_command_tools("wait: echo begun; sleep 600")
    async with open_tools([tool], tmp_path, {}, seconds=0.5) as (made,):
        with pytest.raises(TimeoutError, match=r"longer than 0\.5 seconds; so far: begun"):
            await made.fn()


async def test_what_a_command_left_running_ends_with_the_stage(tmp_path: Path) -> None:
    (tool,) = parse_command_tools("serve(file): sleep 600 >/dev/null 2>&1 & echo $! > $file")
    async with open_tools([tool], tmp_path, {}) as (made,):
        await made.fn(file="pid")
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with anyio.fail_after(10):
        while is_alive(pid):
            await anyio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Not if it is only waiting to be reaped by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ("Sunny.", "completed", ""),
        (respond(tool_calls=[("look", {"city": "Oslo"})]), "max_turns", "ended with max_turns"),
        (respond("Half of", finish_reason="length"), "length", "ended with length"),
        (respond("Not", finish_reason="content_filter"), "content_filter", "ended with content_filter"),
        (InvalidRequestError("no such model"), "error", "ended with error: InvalidRequestError: no such model"),
    ],
    ids=["completed", "max_turns", "length", "content_filter", "error"],
)
async def test_every_end_of_a_tool_loop_is_one_of_the_stage(run: Run, answer: Any, status: str, reason: str) -> None:
    node = WEATHER.replace("fidelity", '"tool_loop.max_turns"=1, fidelity')
    with ScriptedAdapter(answer) as adapter:
        handler = ToolLoopHandler(TOOLS, model="m", client=Client({"scripted": adapter}, "scripted"))
        result = await run(node, handlers={"tool_loop": handler})
    assert result.status.is_success == (status == "completed")
    assert result.context["a.status"] == status
    assert reason in result.failure_reason


async def test_what_a_tool_loop_uses_counts_for_the_run(run: Run) -> None:
    answers = [respond(tool_calls=[("look", {"city": "Oslo"})]), respond("Sunny.")]
    with ScriptedAdapter(*answers) as adapter:
        handler = ToolLoopHandler(TOOLS, model="m", client=Client({"scripted": adapter}, "scripted"))
        result = await run(WEATHER, handlers={"tool_loop": handler})
    used = sum(response.usage.input_tokens for response in answers)
    assert used > 0
    assert result.usage.input_tokens == used


# --- Lint.


def lint(middle: str) -> list[str]:
    graph = parse_dot(f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; {middle} }}")
    return [str(found) for found in validate(graph) if found.rule.startswith("pattern_")]


@pytest.mark.parametrize(
    ("middle", "words"),
    [
        (f'improve [type=converge, function="f"]; {LOOP}', []),
        ('a [type=converge, function="f"]; start -> a -> exit', ["no edge labelled again or stop"]),
        (f'review [type=quality_gate, function="f"]; {GATE}', []),
        (
            'a [type=quality_gate, function="f"]; start -> a; a -> exit [label="Pass"]; a -> start2 [label="F) fail"]',
            ["no edge labelled escalate"],
        ),
        (
            'a [type=quality_gate, function="f"]; start -> a; a -> exit [condition="context.gate.route=pass"]; a -> b',
            [],
        ),
        ("a [type=function]; start -> a -> exit", ["set one of function"]),
        ("a [type=idempotent]; start -> a -> exit", ["set one of function, tool_command, prompt"]),
        (f"improve [type=converge]; {LOOP}", ["set one of function, prompt, converge.score_command"]),
    ],
)
def test_lint_wants_all_ways_and_some_work(middle: str, words: list[str]) -> None:
    found = lint(middle)
    assert len(found) == len(words), found
    for message, word in zip(found, words, strict=True):
        assert word in message


@pytest.mark.parametrize(
    ("attrs", "asks"),
    [
        ('type=converge, prompt="p"', True),
        ('type=converge, prompt="p", "converge.score_command"="c"', True),
        ('type=converge, "converge.score_command"="c"', False),
        ('type=converge, prompt="p", function="f"', False),
        ('type=quality_gate, prompt="p"', True),
        ('type=quality_gate, prompt="p", tool_command="c"', False),
        ('type=skip_if_done, prompt="p"', True),
        ('type=idempotent, function="f", prompt="p"', False),
        ('type=interrupt, prompt="p"', False),
        ('type=function, prompt="p"', False),
    ],
)
def test_the_command_line_knows_who_asks_a_model(attrs: str, asks: bool) -> None:
    graph = parse_dot(f"digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; a [{attrs}]; start -> a -> exit }}")
    assert [node.id for node in find_asking(graph)] == (["a"] if asks else [])
    wrong = parse_dot(graph.source.replace("a [", 'a [llm_model="gpt-5.2-typo", '))
    assert [found.rule for found in validate(wrong) if found.rule == "model_known"] == (["model_known"] if asks else [])
