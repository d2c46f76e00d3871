"""Whole runs through the runner (sections 3.1, 9.6 and 11.13)."""

import json
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from attractor import (
    CheckpointError,
    Context,
    DotSyntaxError,
    Event,
    Graph,
    HandlerRegistry,
    Node,
    Outcome,
    PipelineConfigurationError,
    PipelineRunner,
    RunDirectoryError,
    SimulatedBackend,
    ValidationError,
    parse_dot,
    resume_pipeline,
    run_pipeline,
    validate,
)
from attractor.backends.llm import LlmBackend
from attractor.event_log import EventLog, Observer, read_events
from attractor.events import CheckpointSaved, PipelineCompleted, PipelineFailed, PipelineStarted, StageStarted
from attractor.state.checkpoint import Checkpoint
from attractor.state.run_directory import read_manifest
from attractor.sync import run_pipeline as run_pipeline_blocking
from attractor.testing import ScriptedHandler
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter

SMOKE = """
digraph test_pipeline {
    graph [goal="Create a hello world Python script"]

    start       [shape=Mdiamond]
    plan        [shape=box, prompt="Plan how to create a hello world script for: $goal"]
    implement   [shape=box, prompt="Write the code based on the plan", goal_gate=true]
    review      [shape=box, prompt="Review the code for correctness"]
    done        [shape=Msquare]

    start -> plan
    plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan   [condition="outcome=fail", label="Retry"]
    review -> done      [condition="outcome=success"]
    review -> implement [condition="outcome=fail", label="Fix"]
}
"""
LINE = "digraph line { goal=go; start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt=A]; start -> a -> exit }"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("simulated", [True, False])
async def test_integration_smoke_test(tmp_path: Path, simulated: bool) -> None:
    graph = parse_dot(SMOKE)
    assert graph.goal == "Create a hello world Python script"
    assert (len(graph.nodes), len(graph.edges)) == (5, 6)
    assert not [found for found in validate(graph) if found.severity == "error"]

    logs_root = tmp_path / "run"
    with ScriptedAdapter(*([] if simulated else ["The plan.", "The code.", "All good."])) as adapter:
        backend = None if simulated else LlmBackend(Client({"s": adapter}, "s"), model="any")
        result = await run_pipeline(graph, Context().snapshot(), backend=backend, logs_root=logs_root)

    assert result.status == "success"
    assert "implement" in result.completed_nodes
    for node in ("plan", "implement", "review"):
        assert all((logs_root / node / name).stat().st_size for name in ("prompt.md", "response.md", "status.json"))
    assert result.node_outcomes["implement"].status.is_success, "the goal gate is satisfied"
    checkpoint = Checkpoint.load(logs_root)
    assert checkpoint.current_node == "done"
    assert {"plan", "implement", "review"} <= set(checkpoint.completed_nodes)
    expected = "[Simulated] Response for stage: review" if simulated else "All good."
    assert (logs_root / "review" / "response.md").read_text() == expected
    assert "hello world script for: Create a hello world" in (logs_root / "plan" / "prompt.md").read_text()


async def test_later_stages_are_told_what_happened_before(tmp_path: Path) -> None:
    await run_pipeline(SMOKE, logs_root=tmp_path / "run")
    prompt = (tmp_path / "run" / "review" / "prompt.md").read_text()
    assert "- implement: success" in prompt
    assert prompt.endswith("\n\nReview the code for correctness")


async def test_run_directory_holds_everything_to_resume_without_the_original_file(tmp_path: Path) -> None:
    runner = PipelineRunner(logs_root=tmp_path / "run", options={"backend": "llm"}, context={"k": [1]})
    result = await runner.run(parse_dot(LINE, "pipelines/line.dot"))
    manifest = read_manifest(tmp_path / "run")
    assert (manifest["name"], manifest["goal"], manifest["options"]) == ("line", "go", {"backend": "llm"})
    assert (manifest["file_name"], manifest["run_id"]) == ("pipelines/line.dot", result.run_id)
    assert (tmp_path / "run" / "pipeline.dot").read_text() == LINE
    assert result.context["k"] == [1]
    again = await resume_pipeline(tmp_path / "run")
    assert (again.status, again.completed_nodes, again.context) == ("success", result.completed_nodes, result.context)


async def test_runs_go_to_the_state_directory_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = await run_pipeline(LINE), await run_pipeline(LINE)
    assert first.logs_root.parent == second.logs_root.parent == tmp_path / "attractor" / "runs"
    assert first.logs_root != second.logs_root


def test_blocking_facade(tmp_path: Path) -> None:
    assert run_pipeline_blocking(LINE, logs_root=tmp_path / "run").status == "success"


async def test_lint_errors_prevent_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="start"):
        await run_pipeline("digraph g { exit [shape=Msquare] }", logs_root=tmp_path / "run")
    with pytest.raises(DotSyntaxError):
        await run_pipeline("digraph g {", logs_root=tmp_path / "run")
    assert not (tmp_path / "run").exists()


async def test_node_without_a_handler_is_an_error_before_the_run(tmp_path: Path) -> None:
    text = LINE.replace("a [prompt=A]", "a [shape=hexagon]")
    with pytest.raises(ValidationError, match=r"no handler registered for type 'wait.human'") as caught:
        await run_pipeline(text, logs_root=tmp_path / "run")
    assert caught.value.diagnostics[-1].node_id == "a"
    result = await run_pipeline(text, logs_root=tmp_path / "run", handlers={"wait.human": ScriptedHandler()})
    assert result.status == "success"


async def test_custom_handler_registration_and_execution(tmp_path: Path) -> None:
    class Greeter:
        def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
            return Outcome.success(context_updates={"greeting": f"hello {node.text('who')}"})

    registry = HandlerRegistry()
    registry.register("greeter", Greeter())
    text = LINE.replace("a [prompt=A]", "a [type=greeter, who=world]")
    result = await run_pipeline(text, logs_root=tmp_path / "run", handlers=registry)
    assert result.context["greeting"] == "hello world"


async def test_custom_transforms_run_in_order_after_the_built_in_ones(tmp_path: Path) -> None:
    class Append:
        def __init__(self, text: str) -> None:
            self.text = text

        def apply(self, graph: Graph) -> Graph:
            node = graph.nodes["a"]
            return graph.with_nodes([node.with_attrs({"prompt": node.prompt + self.text})])

    runner = PipelineRunner(logs_root=tmp_path / "run", transforms=[Append(" one")])
    runner.register_transform(Append(" two"))
    await runner.run(LINE.replace("prompt=A", 'prompt="$goal"'))
    assert (tmp_path / "run" / "a" / "prompt.md").read_text() == "go one two"


async def test_failed_run_reports_reason_and_emits_pipeline_failed(tmp_path: Path) -> None:
    runner = PipelineRunner(
        backend=SimulatedBackend({"a": {"outcome": "fail", "notes": "no luck"}}), logs_root=tmp_path / "r"
    )
    result = await runner.run(LINE)
    assert (result.status, result.failure_reason) == ("fail", "no luck")
    last = list(read_events(tmp_path / "r"))[-1]
    assert isinstance(last, PipelineFailed)
    assert last.error == "no luck"


async def test_events_go_to_callback_stream_and_file_alike(tmp_path: Path) -> None:
    runner = PipelineRunner(logs_root=tmp_path / "run")
    heard: list[Event] = []
    runner.on_event = heard.append
    streamed: list[Event] = []

    async def listen() -> None:
        streamed.extend([event async for event in runner.events()])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await runner.run(SMOKE)
    late = [event async for event in runner.events()]
    assert heard == streamed == late == list(read_events(tmp_path / "run"))
    assert isinstance(heard[0], PipelineStarted)
    assert isinstance(heard[-1], PipelineCompleted)
    assert [event.sequence for event in heard] == list(range(1, len(heard) + 1))
    assert [event.node_id for event in heard if isinstance(event, CheckpointSaved)] == [
        "start",
        "plan",
        "implement",
        "review",
        "done",
    ]
    assert list(read_events(tmp_path / "run", after=heard[-2].sequence)) == [heard[-1]]
    started = next(event for event in heard if isinstance(event, StageStarted))
    assert (started.type, started.description) == ("StageStarted", "StageStarted(name='start', index=0)")


async def test_raising_observer_does_not_hurt_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def explode(event: Event) -> None:
        raise RuntimeError("observer")

    runner = PipelineRunner(logs_root=tmp_path / "run")
    runner.on_event = explode
    with caplog.at_level(logging.WARNING, "attractor"):
        assert (await runner.run(LINE)).status == "success"
    assert len(caplog.records) == 1
    assert "on_event callback failed at PipelineStarted" in caplog.text


def test_slow_observer_is_never_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    observer = Observer(lambda event: time.sleep(0.05), limit=2, patience=0.01)
    begun = time.perf_counter()
    for number in range(100):
        observer.put(CheckpointSaved(sequence=number, node_id="n"))
    assert time.perf_counter() - begun < 0.5
    observer.close()
    assert "too slow" in caplog.text


async def test_async_callback_is_refused_with_advice(tmp_path: Path) -> None:
    async def listen(event: Event) -> None:
        pass

    runner = PipelineRunner(logs_root=tmp_path / "run")
    runner.on_event = listen
    with pytest.raises(PipelineConfigurationError, match=r"runner\.events\(\)"):
        await runner.run(LINE)


async def test_reader_that_leaves_or_dawdles_gets_everything_later(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    gone: AsyncIterator[Event] = log.stream()
    log.emit(CheckpointSaved, node_id="0")
    log.emit(StageStarted, name="x", index=0)
    await anext(gone)
    await gone.aclose()  # type: ignore[attr-defined]
    slow = log.stream()
    await anext(slow)
    for number in range(5000):
        log.emit(StageStarted, name="x" * 50, index=number)
    log.close()
    assert len([event async for event in slow]) == 5001
    reopened = EventLog(tmp_path)
    assert reopened.emit(StageStarted, name="y", index=0).sequence == 5003
    reopened.close()


async def test_torn_last_event_is_cut_off(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    log.emit(StageStarted, name="x", index=0)
    log.close()
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"type":"Stage')
    log = EventLog(tmp_path)
    log.emit(StageStarted, name="y", index=1)
    log.close()
    assert [event.sequence for event in read_events(tmp_path)] == [1, 2]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_cancel_stops_the_run_and_leaves_it_to_be_resumed(tmp_path: Path) -> None:
    runner = PipelineRunner(logs_root=tmp_path / "run", working_dir=tmp_path)
    text = LINE.replace("a [prompt=A]", 'a [shape=parallelogram, tool_command="test -e go || { touch go; sleep 60; }"]')
    results = []

    async def run() -> None:
        results.append(await runner.run(text))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not (tmp_path / "go").exists():
                await anyio.sleep(0.01)
            runner.cancel("enough")
    assert (results[0].status, results[0].cancelled, results[0].failure_reason) == ("fail", True, "enough")
    resumed = await resume_pipeline(tmp_path / "run")
    assert (resumed.status, resumed.completed_nodes) == ("success", ("start", "a", "exit"))


async def test_tool_commands_run_where_and_if_told(tmp_path: Path) -> None:
    text = LINE.replace("a [prompt=A]", 'a [shape=parallelogram, tool_command="echo $goal > made"]')
    await run_pipeline(text, logs_root=tmp_path / "dry", working_dir=tmp_path, dry_run=True)
    assert not (tmp_path / "made").exists()
    await run_pipeline(text, logs_root=tmp_path / "real", working_dir=tmp_path)
    assert (tmp_path / "made").read_text() == "go\n"


async def test_failing_tool_is_routed_to_its_fix(tmp_path: Path) -> None:
    for command, code in (("exit 3", 3), ("no_such_command_at_all", 127)):
        text = LINE.replace("a [prompt=A]", f'a [shape=parallelogram, tool_command="{command}"]').replace(
            "start -> a -> exit",
            'start -> a; a -> exit [condition="outcome=success"]; a -> fix [condition="outcome=fail"]; fix -> exit',
        )
        result = await run_pipeline(text, logs_root=tmp_path / str(code))
        assert result.completed_nodes == ("start", "a", "fix", "exit")
        assert result.context["tool.exit_code"] == code


async def test_a_directory_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    await run_pipeline(LINE, logs_root=tmp_path / "run")
    before = (tmp_path / "run" / "journal.jsonl").read_bytes()
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        await run_pipeline(LINE, logs_root=tmp_path / "run")
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == before


async def test_graph_made_in_python_is_resumed_with_that_graph(tmp_path: Path) -> None:
    parsed = parse_dot(LINE)
    graph = Graph(parsed.name, parsed.nodes, parsed.edges, parsed.attrs)
    await run_pipeline(graph, logs_root=tmp_path / "run")
    with pytest.raises(CheckpointError, match="give that graph to resume"):
        await resume_pipeline(tmp_path / "run")
    assert (await PipelineRunner().resume(tmp_path / "run", graph=graph)).status == "success"


async def test_manifest_is_json_that_others_can_read(tmp_path: Path) -> None:
    await run_pipeline(LINE.replace("goal=go", 'goal="größe \\"x\\""'), logs_root=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["goal"] == 'größe "x"'
