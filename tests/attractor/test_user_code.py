"""Handlers, interviewers, transforms and rules that users write: whatever they do, the run ends with a sentence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import (
    Answer,
    CallbackInterviewer,
    Context,
    ContextValueError,
    Diagnostic,
    Event,
    Graph,
    Interviewer,
    Outcome,
    PipelineConfigurationError,
    PipelineRunner,
    Question,
    RecordingInterviewer,
    RunResult,
    StageStatus,
    parse_dot,
    resume_pipeline,
    run_pipeline,
    validate,
)
from attractor.events import StageStarted
from attractor.interviewers import ask_multiple

ONE_STAGE = "digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; a [type=mine]; start -> a -> exit }"
GATE = (
    "digraph G { start [shape=Mdiamond]; exit [shape=Msquare]; no [shape=parallelogram, tool_command=false];"
    "gate [shape=hexagon]; start -> gate; gate -> exit [label=Yes]; gate -> no [label=No]; no -> exit }"
)
BOTH_BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Plain:
    """A handler whose `execute` is a plain function that calls another."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    def execute(self, node: object, context: object, graph: object, logs_root: object) -> Any:
        return self._work()


async def run(work: Callable[[], Any], logs_root: Path) -> RunResult:
    return await PipelineRunner(handlers={"mine": Plain(work)}, logs_root=logs_root / "run").run(ONE_STAGE)


async def succeed() -> Outcome:
    await anyio.lowlevel.checkpoint()
    return Outcome.success()


@BOTH_BACKENDS
async def test_a_plain_handler_may_return_an_awaitable(tmp_path: Path) -> None:
    assert (await run(lambda: succeed(), tmp_path)).status is StageStatus.SUCCESS


@BOTH_BACKENDS
async def test_a_plain_backend_may_return_an_awaitable(tmp_path: Path) -> None:
    async def answer() -> str:
        return "blue"

    runner = PipelineRunner(backend=lambda node, prompt, context: answer(), logs_root=tmp_path / "run")  # type: ignore[arg-type]
    result = await runner.run(
        "digraph G { start [shape=Mdiamond]; a [prompt=x]; exit [shape=Msquare]; start->a->exit }"
    )
    assert result.context["last_response"] == "blue"


class PlainInterviewer:
    """Answers without being async, or with an awaitable."""

    def __init__(self, *, later: bool = False) -> None:
        self._later = later

    def ask(self, question: Question) -> Any:
        async def answer() -> Answer:
            return Answer(value="Y")

        return answer() if self._later else Answer(value="Y")


@BOTH_BACKENDS
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "wrap",
    [lambda inner: inner, RecordingInterviewer, lambda inner: CallbackInterviewer(inner.ask)],
    ids=["alone", "recording", "callback"],
)
async def test_an_interviewer_need_not_be_async(
    wrap: Callable[[Any], Interviewer], later: bool, tmp_path: Path
) -> None:
    interviewer = wrap(PlainInterviewer(later=later))
    result = await PipelineRunner(interviewer=interviewer, logs_root=tmp_path / "run").run(GATE)
    assert result.context["human.gate.label"] == "Yes"
    assert [answer.value for answer in await ask_multiple(interviewer, [Question(text="?")])] == ["Y"]


async def test_an_exception_that_can_not_even_say_what_it_is_fails_its_stage(tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def work() -> None:
        raise Mute

    result = await run(work, tmp_path)
    assert result.failure_reason == "stage 'a' raised Mute: its message can't be read, for that raises RuntimeError"


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


def circular() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [(nested(101), "nested more than 100 deep"), (circular(), "nested more than 100 deep"), (10**4300, "4300 digits")],
    ids=["deep", "circular", "long number"],
)
async def test_a_value_that_could_not_be_written_fails_its_stage(value: Any, reason: str, tmp_path: Path) -> None:
    result = await run(lambda: Outcome.success(context_updates={"x": value}), tmp_path)
    assert result.status is StageStatus.FAIL
    assert reason in result.failure_reason
    with pytest.raises(ContextValueError, match=reason):
        Context().set("x", value)


async def test_the_largest_values_survive_a_run(tmp_path: Path) -> None:
    largest = {"deep": nested(100), "long": -(10**4300) + 1}
    result = await run(lambda: Outcome.success(context_updates=largest), tmp_path)
    assert result.status is StageStatus.SUCCESS
    again = await PipelineRunner(handlers={"mine": Plain(Outcome.success)}).resume(result.logs_root)
    assert {key: again.context[key] for key in largest} == largest


async def test_a_transform_that_makes_no_graph_is_named(tmp_path: Path) -> None:
    class Forgetful:
        def apply(self, graph: Graph) -> Graph:
            return None  # type: ignore[return-value]

    runner = PipelineRunner(transforms=[Forgetful()], logs_root=tmp_path / "run")
    with pytest.raises(PipelineConfigurationError, match="Forgetful returned NoneType instead of a Graph"):
        await runner.run(ONE_STAGE)


@pytest.mark.parametrize("found", [None, ["a remark"], 3])
def test_a_lint_rule_that_finds_no_diagnostics_is_named(found: Any) -> None:
    class Mine:
        name = "my_rule"

        def apply(self, graph: Graph) -> list[Diagnostic]:
            return found  # type: ignore[no-any-return]

    with pytest.raises(PipelineConfigurationError, match=r"my_rule found .*, which is no Diagnostic"):
        validate(parse_dot(ONE_STAGE), [Mine()])


@BOTH_BACKENDS
async def test_a_callback_may_stop_the_run(tmp_path: Path) -> None:
    class Waiting:
        async def execute(self, node: object, context: object, graph: object, logs_root: object) -> Outcome:
            await anyio.sleep_forever()
            return Outcome.success()

    runner = PipelineRunner(handlers={"mine": Waiting()}, logs_root=tmp_path / "run")
    failed: list[BaseException] = []

    def stop(event: Event) -> None:
        try:
            if isinstance(event, StageStarted) and event.name == "a":
                runner.cancel("seen enough")
        except BaseException as error:
            failed.append(error)

    runner.on_event = stop
    with anyio.fail_after(20):
        result = await runner.run(ONE_STAGE)
    assert (result.cancelled, result.failure_reason, failed) == (True, "seen enough", [])


async def test_a_run_starts_with_a_copy_of_a_context(tmp_path: Path) -> None:
    context = Context({"mood": "fair"})
    runner = PipelineRunner(handlers={"mine": Plain(Outcome.success)}, context=context, logs_root=tmp_path / "run")
    result = await runner.run(ONE_STAGE)
    assert result.context["mood"] == "fair"
    assert context.snapshot() == {"mood": "fair"}


async def test_a_graph_made_in_python_is_given_again_to_resume(tmp_path: Path) -> None:
    graph = replace(parse_dot(ONE_STAGE), source="")
    outcomes = iter([Outcome.fail("not yet"), Outcome.success()])
    options: dict[str, Any] = {"handlers": {"mine": Plain(lambda: next(outcomes))}}
    failed = await run_pipeline(graph, logs_root=tmp_path / "run", **options)
    assert failed.status is StageStatus.FAIL
    again = await resume_pipeline(failed.logs_root, graph=graph, **options)
    assert again.completed_nodes == ("start", "a", "a", "exit")
