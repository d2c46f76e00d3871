"""A run ends when it has used what it may of models (section 3)."""

from pathlib import Path

import anyio
import pytest
from attractor.backends.llm import LlmBackend
from attractor.cli.app import app
from attractor.engine.limits import Limits
from attractor.errors import ValidationError
from attractor.event_log import read_events
from attractor.events import ParallelBranchCompleted
from attractor.graph import Node, to_dollars
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state.context import Context
from attractor.state.journal import load_checkpoint
from attractor.state.usage import TokenUsage
from click.testing import CliRunner
from unified_llm import Client, Usage
from unified_llm.testing import ScriptedAdapter, respond

PRICED = "claude-opus-4-6"
USED = Usage(input_tokens=1000, output_tokens=200, total_tokens=1200)
PAIR = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; %s
    a [prompt="First."]; b [prompt="Second."]; start -> a -> b -> exit }"""


async def run(path: Path, attrs: str, model: str = PRICED, *, calls: int = 1) -> tuple[RunResult, int]:
    with ScriptedAdapter(*[respond("Done.", usage=USED)] * calls) as adapter:
        backend = LlmBackend(Client({"s": adapter}, "s"), model=model, provider="s")
        result = await PipelineRunner(backend=backend, logs_root=path).run(PAIR % attrs)
    return result, len(adapter.requests)


@pytest.mark.parametrize("attrs", ["max_tokens=1200;", 'max_cost="0.0001";', "max_cost=0.0001;"])
async def test_no_stage_starts_over_budget(tmp_path: Path, attrs: str) -> None:
    result, asked = await run(tmp_path / "run", attrs)
    assert (result.status, asked) == ("fail", 1)
    assert result.completed_nodes == ("start", "a")
    assert attrs.partition("=")[0] in result.failure_reason
    resumed = await PipelineRunner(limits=Limits(max_tokens=1300)).resume(tmp_path / "run")
    assert (resumed.status, resumed.completed_nodes) == ("success", ("start", "a", "b", "exit"))


async def test_resuming_carries_the_budget_over(tmp_path: Path) -> None:
    await run(tmp_path / "run", "max_tokens=1000;")
    resumed = await PipelineRunner().resume(tmp_path / "run")
    assert (resumed.status, resumed.completed_nodes) == ("fail", ("start", "a"))


async def test_a_budget_that_is_not_reached_changes_nothing(tmp_path: Path) -> None:
    result, asked = await run(tmp_path / "run", "max_tokens=9999; max_cost=100;", calls=2)
    assert (result.status, asked) == ("success", 2)


async def test_a_cost_that_is_not_known_ends_a_run_that_has_a_limit_on_it(tmp_path: Path) -> None:
    result, asked = await run(tmp_path / "run", "max_cost=100;", "unheard-of")
    assert (result.status, asked) == ("fail", 1)
    assert "price" in result.failure_reason


@pytest.mark.parametrize(("text", "amount"), [("2.50", 2.5), ("0", 0.0), ("-1", None), ("nan", None), ("much", None)])
def test_amounts(text: str, amount: float | None) -> None:
    assert to_dollars(text) == amount


def test_the_command_refuses_a_cost_limit_on_a_model_without_a_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    (tmp_path / "g.dot").write_text(PAIR % "")
    flags = ["--provider", "anthropic", "--model", "unheard-of", "--max-cost", "2", "--logs", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["run", str(tmp_path / "g.dot"), *flags])
    assert result.exit_code == 2
    assert "price is unknown" in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "attrs",
    [
        "max_cost=lots",
        'max_cost="-1"',
        'max_cost="$5"',
        "max_cost=nan",
        'max_tokens="1e6"',
        "max_tokens=-5",
        "max_duration=soon",
        'max_duration=""',
        'max_cost=""',
    ],
)
async def test_a_limit_that_can_not_be_read_is_an_error_and_never_no_limit(tmp_path: Path, attrs: str) -> None:
    text = f"digraph g {{ {attrs}; start [shape=Mdiamond]; exit [shape=Msquare]; start -> exit }}"
    with pytest.raises(ValidationError, match=f"{attrs.partition('=')[0]} of the graph is .* a limit can't be guessed"):
        await PipelineRunner(logs_root=tmp_path / "run").run(text)
    assert not (tmp_path / "run").exists()


FAN_OUT = """digraph g { max_tokens=%s; start [shape=Mdiamond]; exit [shape=Msquare];
    fork [shape=component]; join [shape=tripleoctagon]; a; b; c;
    start -> fork; fork -> a -> c -> join; fork -> b -> join;
    join -> exit }"""


class Spender:
    """Counts what it is told to, by the stage's name, and then does what the test wants."""

    def __init__(self, spends: dict[str, int]) -> None:
        self.spends = spends
        self.asked: list[str] = []
        self.waits = anyio.Event()

    async def run(self, node: Node, prompt: str, context: Context) -> Outcome | str:
        self.asked.append(node.id)
        context.run.add_usage(TokenUsage(input_tokens=self.spends[node.id]))
        if node.id == "b":
            self.waits.set()
            await anyio.sleep_forever()
        if node.id == "a":
            await self.waits.wait()
        return "done" if node.id != "again" else Outcome.fail("once more")


async def test_what_another_branch_uses_counts_at_once(tmp_path: Path) -> None:
    backend = Spender({"a": 100, "b": 900, "c": 100})
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.run, FAN_OUT % 1000)
            async for event in runner.events():
                if event.type == "ParallelBranchCompleted":
                    runner.cancel()
    assert "c" not in backend.asked
    failed = next(e for e in read_events(tmp_path / "run") if isinstance(e, ParallelBranchCompleted))
    assert (failed.branch, failed.success) == ("a", False)


async def test_what_a_branch_used_counts_when_the_run_is_stopped(tmp_path: Path) -> None:
    backend = Spender({"a": 100, "b": 900, "c": 50})
    limits = Limits(max_duration=0.3)
    with anyio.fail_after(20):
        result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run", limits=limits).run(FAN_OUT % 9000)
    assert "max_duration" in result.failure_reason
    assert result.usage == TokenUsage(input_tokens=1050)
    assert load_checkpoint(tmp_path / "run").usage == result.usage


@pytest.mark.parametrize("attrs", ["max_retries=9", 'type=retry, "retry.retries"=9, "retry.backoff"="1ms"'])
async def test_no_attempt_starts_over_budget(tmp_path: Path, attrs: str) -> None:
    backend = Spender({"again": 400})
    source = "digraph g { max_tokens=1000; start [shape=Mdiamond]; exit [shape=Msquare]; again [prompt=p, %s];"
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run")
    result = await runner.run(source % attrs + " start -> again -> exit }")
    assert backend.asked == ["again"] * 3
    assert "used 1200 tokens of its max_tokens of 1000" in result.failure_reason


async def test_a_child_is_stopped_by_the_budget_around_it(tmp_path: Path) -> None:
    (tmp_path / "child.dot").write_text(PAIR % "")
    backend = Spender({"a": 100, "b": 100})
    runner = PipelineRunner(backend=backend, logs_root=tmp_path / "run", working_dir=tmp_path)
    backend.waits.set()
    result = await runner.run(
        "digraph g { max_tokens=100; start [shape=Mdiamond]; exit [shape=Msquare]; sub [type=pipeline, max_retries=3, "
        '"stack.child_dotfile"="child.dot"]; start -> sub -> exit }'
    )
    assert backend.asked == ["a"]
    assert "sub" in result.failure_reason
    assert "used 100 tokens of its max_tokens of 100" in result.failure_reason


async def test_a_cost_that_is_no_number_is_one_that_is_not_known(tmp_path: Path) -> None:
    class Odd:
        async def run(self, node: Node, prompt: str, context: Context) -> str:
            context.run.add_usage(TokenUsage(input_tokens=1, cost=float("nan")))
            return "done"

    result = await PipelineRunner(backend=Odd(), logs_root=tmp_path / "run").run(PAIR % "")
    assert (result.status, result.usage) == ("success", TokenUsage(input_tokens=2, cost=None))


@pytest.mark.parametrize("planted", ["text", [1], {}, {"run": "child-0"}, {"run": "child-0", "cost": "much"}])
async def test_a_counter_that_a_stage_overwrote_counts_as_none(tmp_path: Path, planted: object) -> None:
    class Meddler(Spender):
        async def run(self, node: Node, prompt: str, context: Context) -> Outcome | str:
            await super().run(node, prompt, context)
            return Outcome.success(context_updates={"internal.child_usage.sub": planted})

    (tmp_path / "child.dot").write_text(
        "digraph c { start [shape=Mdiamond]; exit [shape=Msquare]; c [prompt=x]; start -> c -> exit }"
    )
    backend = Meddler({"a": 100, "c": 100})
    backend.waits.set()
    source = """digraph g { max_tokens=9000; start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt=x];
        sub [type=pipeline, "stack.child_dotfile"="child.dot"]; start -> a -> sub -> exit }"""
    result = await PipelineRunner(backend=backend, logs_root=tmp_path / "run", working_dir=tmp_path).run(source)
    assert (result.status, result.usage) == ("success", TokenUsage(input_tokens=200))
