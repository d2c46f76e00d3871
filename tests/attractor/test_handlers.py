"""The built-in handlers and backends (sections 4.3 to 4.7 and 4.10, Appendix C)."""

import json
import shlex
import sys
from pathlib import Path

import anyio
import pytest
from attractor.backends import SimulatedBackend
from attractor.dot import parse_dot
from attractor.errors import PipelineConfigurationError
from attractor.fidelity import resolve_fidelity, resolve_thread, write_preamble
from attractor.graph import Edge, Graph, Node
from attractor.handlers.basic import ConditionalHandler, ExitHandler, StartHandler
from attractor.handlers.codergen import CodergenHandler
from attractor.handlers.tool import ToolHandler
from attractor.outcome import Outcome, StageStatus, parse_status_record, to_status_record
from attractor.state.context import Context


def graph_of(node: str, goal: str = "") -> Graph:
    return parse_dot(f"digraph g {{ goal={json.dumps(goal)}; n [{node}] }}")


class Answering:
    """A backend that answers, or does something in the stage's directory first."""

    def __init__(self, answer: str | Outcome | Exception, status: str | None = None, folder: Path = Path()) -> None:
        self.answer = answer
        self.status = status
        self.folder = folder
        self.prompts: list[str] = []

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        self.prompts.append(prompt)
        if self.status is not None:
            (self.folder / node.id / "status.json").write_text(self.status)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def codergen(tmp_path: Path, backend: object, node: str = 'prompt="Do it"', goal: str = "") -> Outcome:
    graph = graph_of(node, goal)
    handler = CodergenHandler(backend)  # type: ignore[arg-type]
    return await handler.execute(graph.nodes["n"], Context(), graph, tmp_path)


async def tool(tmp_path: Path, command: str, attrs: str = "", goal: str = "") -> Outcome:
    graph = graph_of(f"tool_command={json.dumps(command)} {attrs}", goal)
    handler = ToolHandler(tmp_path)
    try:
        return await handler.execute(graph.nodes["n"], Context(), graph, tmp_path / "run")
    finally:
        await handler.close()


async def test_start_and_exit_handlers_return_success_at_once(tmp_path: Path) -> None:
    graph = graph_of("")
    for handler in (StartHandler(), ExitHandler()):
        outcome = await handler.execute(graph.nodes["n"], Context(), graph, tmp_path)
        assert outcome.status is StageStatus.SUCCESS


async def test_conditional_handler_passes_the_outcome_through(tmp_path: Path) -> None:
    graph, context = graph_of(""), Context()
    assert (await ConditionalHandler().execute(graph.nodes["n"], context, graph, tmp_path)).status == "success"
    context.run.last_outcome = Outcome.fail("x", word="odd", preferred_label="L")
    passed = await ConditionalHandler().execute(graph.nodes["n"], context, graph, tmp_path)
    assert (passed.status, passed.word, passed.preferred_label, passed.failure_reason) == ("fail", "odd", "L", "x")


async def test_codergen_expands_goal_calls_the_backend_and_writes_prompt_and_response(tmp_path: Path) -> None:
    backend = Answering("The answer. " * 30)
    outcome = await codergen(tmp_path, backend, 'prompt="Do $goal now"', goal="it")
    assert backend.prompts == ["Do it now"]
    assert (tmp_path / "n" / "prompt.md").read_text() == "Do it now"
    assert (tmp_path / "n" / "response.md").read_text() == "The answer. " * 30
    status = json.loads((tmp_path / "n" / "status.json").read_bytes())
    assert (status["outcome"], status["status"]) == ("success", "success")
    assert outcome.notes == "Stage completed: n"
    assert outcome.context_updates["last_stage"] == "n"
    assert len(outcome.context_updates["last_response"]) == 200


async def test_codergen_falls_back_to_the_label(tmp_path: Path) -> None:
    backend = Answering("ok")
    await codergen(tmp_path, backend, 'label="Plan $goal"', goal="it")
    assert backend.prompts == ["Plan it"]


async def test_codergen_without_backend_simulates(tmp_path: Path) -> None:
    await codergen(tmp_path, None)
    assert (tmp_path / "n" / "response.md").read_text() == "[Simulated] Response for stage: n"


async def test_codergen_backend_may_be_a_plain_function(tmp_path: Path) -> None:
    outcome = await codergen(tmp_path, lambda node, prompt, context: f"{node.id}: {prompt}")
    assert outcome.context_updates["last_response"] == "n: Do it"


async def test_codergen_takes_an_outcome_from_the_backend(tmp_path: Path) -> None:
    given = Outcome(status=StageStatus.RETRY, notes="halfway", context_updates={"last_response": "mine"})
    outcome = await codergen(tmp_path, Answering(given))
    assert (outcome.status, outcome.context_updates["last_response"]) == ("retry", "mine")
    assert (tmp_path / "n" / "response.md").read_text() == "halfway"
    assert json.loads((tmp_path / "n" / "status.json").read_bytes())["status"] == "retry"


async def test_codergen_lets_errors_through_to_the_engine(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="boom"):
        await codergen(tmp_path, Answering(RuntimeError("boom")))
    assert (tmp_path / "n" / "prompt.md").exists()


async def test_codergen_reads_the_status_file_that_an_agent_wrote(tmp_path: Path) -> None:
    report = '{"outcome": "needs_work", "preferred_label": "Fix", "context_updates": {"k": 1}, "notes": "two bugs"}'
    outcome = await codergen(tmp_path, Answering("prose that says success", report, tmp_path))
    assert (outcome.status, outcome.word, outcome.terminal) == (StageStatus.FAIL, "needs_work", True)
    assert (outcome.preferred_label, outcome.context_updates["k"]) == ("Fix", 1)
    assert outcome.failure_reason == "two bugs"


async def test_codergen_is_not_fooled_by_the_status_of_an_earlier_visit(tmp_path: Path) -> None:
    await codergen(tmp_path, Answering("x", '{"outcome": "fail"}', tmp_path))
    assert (await codergen(tmp_path, Answering("x"))).status is StageStatus.SUCCESS


async def test_codergen_with_an_unreadable_status_file_fails_and_says_why(tmp_path: Path) -> None:
    outcome = await codergen(tmp_path, Answering("x", '{"outcome": "succ', tmp_path))
    assert outcome.status is StageStatus.FAIL
    assert "status.json" in outcome.failure_reason
    assert not outcome.terminal


@pytest.mark.parametrize(
    ("record", "status", "word"),
    [
        ({"outcome": "success"}, "success", ""),
        ({"status": "partial_success"}, "partial_success", ""),
        ({"outcome": "SUCCESS"}, "success", ""),
        ({"outcome": "succeeded"}, "success", ""),
        ({"outcome": "failed"}, "fail", ""),
        ({"outcome": "approved", "status": "success"}, "success", "approved"),
        ({"outcome": "approved"}, "fail", "approved"),
        ({"status": "approved"}, "fail", "approved"),
        ({"outcome": "retry", "status": "success"}, "retry", ""),
    ],
)
def test_words_where_a_status_belongs(record: dict[str, str], status: str, word: str) -> None:
    outcome = parse_status_record(record)
    assert (outcome.status, outcome.word) == (status, word)
    again = parse_status_record(to_status_record(outcome))
    assert again == outcome


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ([], "JSON object"),
        ({}, "neither"),
        ({"outcome": ["x"]}, "`outcome`"),
        ({"outcome": "success", "context_updates": [], "notes": {}}, "`notes`"),
        ({"outcome": "success", "context_updates": "x"}, "`context_updates`"),
        ({"outcome": "success", "suggested_next_ids": [1]}, "`suggested_next_ids`"),
    ],
)
def test_reports_that_make_no_sense_name_the_field(record: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_status_record(record)


async def test_tool_executes_its_command_and_returns_the_result(tmp_path: Path) -> None:
    outcome = await tool(tmp_path, "echo out; echo err >&2; pwd > where")
    assert (outcome.status, outcome.context_updates["tool.output"]) == ("success", "out\n")
    assert outcome.context_updates["tool.exit_code"] == 0
    assert sorted((tmp_path / "run" / "n" / "tool_output.txt").read_text().split()) == ["err", "out"]
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)


async def test_tool_exit_code_and_stderr_are_recorded_on_failure(tmp_path: Path) -> None:
    outcome = await tool(tmp_path, "echo fine; echo broken >&2; exit 3")
    assert outcome.status is StageStatus.FAIL
    assert "exited with code 3: broken" in outcome.failure_reason
    assert outcome.context_updates["tool.exit_code"] == 3
    missing = await tool(tmp_path, "no_such_command_here")
    assert missing.context_updates["tool.exit_code"] == 127
    assert "not found" in missing.failure_reason


async def test_tool_gets_the_goal_as_data_never_as_shell_text(tmp_path: Path) -> None:
    goal = 'it\'s $(touch hacked) `touch hacked`; touch hacked "quoted"'
    outcome = await tool(tmp_path, 'printf %s "$goal"', goal=goal)
    assert outcome.context_updates["tool.output"] == goal
    assert not (tmp_path / "hacked").exists()


async def test_tool_knows_its_node_and_its_own_directory(tmp_path: Path) -> None:
    outcome = await tool(tmp_path, 'echo "$ATTRACTOR_NODE_ID"; echo x > "$ATTRACTOR_STAGE_DIR/made"')
    assert outcome.context_updates["tool.output"] == "n\n"
    assert (tmp_path / "run" / "n" / "made").exists()


async def test_tool_reports_through_a_status_file(tmp_path: Path) -> None:
    write = """echo '{"outcome": "blue", "status": "success"}' > "$ATTRACTOR_STAGE_DIR/status.json" """
    assert (await tool(tmp_path, write)).word == "blue"
    failed = await tool(tmp_path, write + "; exit 1")
    assert failed.status is StageStatus.FAIL, "the exit code can't be talked away"
    own = """echo '{"outcome": "red"}' > "$ATTRACTOR_STAGE_DIR/status.json"; exit 1"""
    assert (await tool(tmp_path, own)).word == "red"
    assert (await tool(tmp_path, "true")).word == "", "what an earlier attempt reported isn't taken for its own"


async def test_tool_timeout_ends_the_process_group(tmp_path: Path) -> None:
    child = f"{shlex.quote(sys.executable)} -c 'import time; print(1, flush=True); time.sleep(60)'"
    with anyio.fail_after(10):
        outcome = await tool(tmp_path, f"({child} & wait); echo never", 'timeout="500ms"')
    assert outcome.status is StageStatus.FAIL
    assert "ran longer than its timeout of 500ms" in outcome.failure_reason
    assert not outcome.terminal


async def test_tool_output_keeps_head_and_tail_in_the_context(tmp_path: Path) -> None:
    outcome = await tool(tmp_path, "seq 1 20000")
    text = outcome.context_updates["tool.output"]
    assert text.startswith("1\n2\n")
    assert text.endswith("20000\n")
    assert "characters left out" in text
    assert len(text) < 9000
    assert (tmp_path / "run" / "n" / "tool_output.txt").read_text().count("\n") == 20000


async def test_tool_without_command_fails_for_good(tmp_path: Path) -> None:
    outcome = await tool(tmp_path, "")
    assert (outcome.status, outcome.terminal) == ("fail", True)
    assert "no tool_command" in outcome.failure_reason


async def test_tool_in_a_missing_directory_says_so(tmp_path: Path) -> None:
    graph = graph_of("tool_command=true")
    outcome = await ToolHandler(tmp_path / "gone").execute(graph.nodes["n"], Context(), graph, tmp_path)
    assert outcome.status is StageStatus.FAIL
    assert "does not exist" in outcome.failure_reason


async def test_tool_dry_run_executes_nothing(tmp_path: Path) -> None:
    graph = graph_of('tool_command="touch made"')
    outcome = await ToolHandler(tmp_path, dry_run=True).execute(graph.nodes["n"], Context(), graph, tmp_path)
    assert outcome.notes == "[Dry run] not executed: touch made"
    assert not (tmp_path / "made").exists()


async def test_simulated_backend_follows_its_script(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"n": ["fail", "needs_work", {"outcome": "success", "notes": "done", "preferred_label": "Go"}]}')
    backend, context, node = SimulatedBackend.from_file(path), Context(), Node("n")
    seen = []
    for attempts in range(4):
        context.run.executions = {"n": attempts}
        outcome = await backend.run(node, "p", context)
        assert isinstance(outcome, Outcome)
        seen.append((outcome.status.value, outcome.word, outcome.notes))
    simulated = "[Simulated] Response for stage: n"
    last = ("success", "", "done")
    assert seen == [("fail", "", simulated), ("fail", "needs_work", simulated), last, last]
    assert await backend.run(Node("m"), "p", context) == "[Simulated] Response for stage: m"


@pytest.mark.parametrize(
    ("content", "says"),
    [("{", "not valid JSON"), ("[]", "must be an object"), ('{"a": []}', "'a' is empty"), ('{"a": [1]}', "node 'a'")],
)
def test_simulated_backend_refuses_a_bad_script(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(PipelineConfigurationError, match=says):
        SimulatedBackend.from_file(tmp_path / "s.json")
    with pytest.raises(PipelineConfigurationError, match="can't be read"):
        SimulatedBackend.from_file(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("edge", "node", "graph", "resumed", "mode"),
    [
        ("full", "truncate", "compact", False, "full"),
        ("", "truncate", "compact", False, "truncate"),
        ("", "", "summary:low", False, "summary:low"),
        ("", "", "", False, "compact"),
        ("odd", "", "full", False, "full"),
        ("full", "", "", True, "summary:high"),
        ("", "truncate", "", True, "truncate"),
    ],
)
def test_fidelity_precedence(edge: str, node: str, graph: str, resumed: bool, mode: str) -> None:
    pipeline = Graph("g", {}, (), {"default_fidelity": graph})
    found = resolve_fidelity(
        Node("n", {"fidelity": node}), pipeline, Edge("m", "n", {"fidelity": edge}), resumed=resumed
    )
    assert found == mode


def test_thread_resolution_order() -> None:
    plain, threaded = Graph("g", {}, ()), Graph("g", {}, (), {"thread_id": "of_graph"})
    edge = Edge("m", "n", {"thread_id": "of_edge"})
    assert resolve_thread(Node("n", {"thread_id": "own"}), threaded, edge, "m") == "own"
    assert resolve_thread(Node("n"), threaded, edge, "m") == "of_edge"
    assert resolve_thread(Node("n", classes=("loop-a",)), threaded, None, "m") == "of_graph"
    assert resolve_thread(Node("n", classes=("loop-a",)), plain, None, "m") == "loop-a"
    assert resolve_thread(Node("n"), plain, None, "m") == "m"


def test_preamble_tells_what_happened_before() -> None:
    graph = parse_dot("digraph g { goal=ship; start [shape=Mdiamond]; a; b }")
    context = Context({"graph.goal": "ship", "internal.x": 1, "tool.output": "long " * 500, "color": "blue"})
    assert write_preamble("compact", graph, context) == ""
    context.run.run_id = "r1"
    context.run.node_outcomes = {
        "start": Outcome.success(),
        "a": Outcome.success("made a plan"),
        "b": Outcome.fail("bad"),
    }
    text = write_preamble("compact", graph, context)
    assert "Goal: ship" in text
    assert "- a: success (made a plan)\n- b: fail (bad)" in text
    assert "- color: blue" in text
    assert "internal" not in text
    assert "- start" not in text
    assert len(text) < 600
    assert write_preamble("truncate", graph, context) == "Goal: ship\nRun: r1\n\n"
    assert write_preamble("full", graph, context) == ""
    sizes = [len(write_preamble(mode, graph, context)) for mode in ("summary:low", "summary:medium", "summary:high")]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


@pytest.mark.parametrize(
    ("mode", "stages", "values", "characters"),
    [
        ("compact", 20, 20, 200),
        ("summary:low", 3, 3, 200),
        ("summary:medium", 10, 12, 400),
        ("summary:high", 25, 40, 600),
    ],
)
def test_preamble_tells_as_much_as_its_mode_says(mode: str, stages: int, values: int, characters: int) -> None:
    nodes = [f"n{number}" for number in range(60)]
    graph = parse_dot(f"digraph g {{ {'; '.join(nodes)} }}")
    context = Context({f"key{number}": "short" for number in range(60)})
    context.run.node_outcomes = {node: Outcome.success() for node in nodes}
    context.run.node_outcomes["n59"] = Outcome.success("x" * 5_000)
    lines = write_preamble(mode, graph, context).splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("- n")] == [f"- {node}" for node in nodes[-stages:]]
    assert f"- ({60 - stages} earlier ones are left out)" in lines
    assert sum(line.startswith("- key") for line in lines) == values
    assert f"- n59: success ({'x' * (characters - 1)}…)" in lines


@pytest.mark.parametrize(
    ("mode", "tokens", "stages"), [("summary:low", 600, 3), ("summary:medium", 1_500, 6), ("summary:high", 3_000, 9)]
)
@pytest.mark.parametrize("branches", [0, 3, 300])
def test_preamble_keeps_to_the_budget_of_its_mode(mode: str, tokens: int, stages: int, branches: int) -> None:
    """However much happened: the latest is told, and what is left out is counted."""
    nodes = [f"n{number}" for number in range(60)]
    graph = parse_dot(f"digraph g {{ {'; '.join(nodes)} }}")
    context = Context({f"key{number}": "long " * 5_000 for number in range(60)})
    context.set("parallel.fan_in.best_id", "b1")
    result = {"outcome": "success", "failure_reason": "", "response": "said " * 5_000, "notes": ""}
    context.set("parallel.results", [{"id": f"b{number}", **result} for number in range(branches)])
    context.run.node_outcomes = {node: Outcome.success(f"{node} did " + "much " * 5_000) for node in nodes}
    text = write_preamble(mode, graph, context)
    assert tokens * 4 * 0.5 < len(text) <= tokens * 4
    assert text.count("- n") >= (stages if branches == 0 else 2)
    assert "- n59: success (n59 did much" in text
    assert "- key59: long" in text
    assert "earlier ones are left out" in text
    assert "earlier values are left out" in text
    assert ("- b1: success, chosen" in text) == (branches == 3)
    assert ("others are left out" in text) == (branches == 300)
