"""The node types `retry` and `timeout`: work that is tried again, and work that is given up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import PipelineRunner, parse_dot
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node
from attractor.handlers.resilience import RetryHandler
from attractor.handlers.work import Toolkit
from attractor.result import RunResult
from attractor.state.context import Context
from attractor.validation import validate

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Flaky:
    """A function that fails the first times."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    async def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error
        return {"answer": 42}


async def attempt(function: Any, attrs: dict[str, Any], pauses: list[float], tmp_path: Path) -> Any:
    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    node = Node("n", {"type": "retry", "function": "f", **attrs})
    handler = RetryHandler(Toolkit(functions={"f": function}), sleep)
    return await handler.execute(node, Context(), Graph("g", {"n": node}, ()), tmp_path)


async def run(attrs: str, tmp_path: Path, function: Any = None) -> RunResult:
    source = f"digraph g {{ start [shape=Mdiamond]; done [shape=Msquare]; n [{attrs}]; start -> n -> done }}"
    return await PipelineRunner(functions={"f": function}, logs_root=tmp_path / "run").run(source)


async def test_pauses_double_up_to_the_longest(tmp_path: Path) -> None:
    pauses: list[float] = []
    flaky = Flaky(4, OSError("not yet"))
    attrs = {"retry.retries": 4, "retry.backoff": "1s", "retry.max_backoff": "3s"}
    outcome = await attempt(flaky, attrs, pauses, tmp_path)
    assert outcome.context_updates["answer"] == 42
    assert (flaky.calls, pauses) == (5, [1.0, 2.0, 3.0, 3.0])


async def test_by_default_there_are_two_retries_and_the_last_error_comes_out(tmp_path: Path) -> None:
    pauses: list[float] = []
    error = OSError("for good")
    flaky = Flaky(9, error)
    with pytest.raises(OSError, match="for good") as caught:
        await attempt(flaky, {}, pauses, tmp_path)
    assert caught.value is error
    assert (flaky.calls, pauses) == (3, [0.1, 0.2])


async def test_what_another_attempt_can_not_mend_is_not_tried_again(tmp_path: Path) -> None:
    flaky = Flaky(9, PipelineConfigurationError("wrong"))
    with pytest.raises(PipelineConfigurationError):
        await attempt(flaky, {}, [], tmp_path)
    assert flaky.calls == 1
    refused = await attempt(Flaky(0, OSError()), {"retry.retries": -1}, [], tmp_path)
    assert "retry.retries must not be negative, as -1 is" in refused.failure_reason
    nothing = await attempt(lambda values: 5, {}, pauses := [], tmp_path)
    assert nothing.terminal
    assert pauses == []


@BOTH
async def test_each_attempt_has_its_time_limit(tmp_path: Path) -> None:
    calls: list[int] = []

    async def slow_at_first(values: Mapping[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            await anyio.sleep_forever()
        return {"answer": 42}

    attrs = 'type=retry, function=f, "retry.timeout"=50ms, "retry.backoff"=1ms'
    result = await run(attrs, tmp_path, slow_at_first)
    assert (result.context["answer"], len(calls)) == (42, 3)


@BOTH
async def test_time_limit_around_all_attempts(tmp_path: Path) -> None:
    attrs = 'type=retry, tool_command="exit 3", "retry.retries"=1000, "retry.backoff"=10s, timeout=100ms, max_retries=0'
    result = await run(attrs, tmp_path)
    assert not result.status.is_success
    assert "100ms" in result.failure_reason or "timeout" in result.failure_reason


@BOTH
async def test_timeout_gives_up(tmp_path: Path) -> None:
    async def hang(values: Mapping[str, Any]) -> None:
        await anyio.sleep_forever()

    result = await run("type=timeout, function=f, timeout=50ms, max_retries=0", tmp_path, hang)
    assert not result.status.is_success
    assert "'n'" in result.failure_reason


async def test_timeout_needs_a_limit_and_lets_quick_work_through(tmp_path: Path) -> None:
    refused = await run('type=timeout, tool_command="true"', tmp_path / "a")
    assert "is of type timeout, and needs a timeout such as 30s" in refused.failure_reason
    assert (await run('type=timeout, tool_command="true", timeout=60s', tmp_path / "b")).status.is_success


@pytest.mark.parametrize("kind", ["retry", "timeout"])
def test_lint_wants_work(kind: str) -> None:
    source = f"digraph g {{ start [shape=Mdiamond]; done [shape=Msquare]; n [type={kind}]; start -> n -> done }}"
    found = [each for each in validate(parse_dot(source)) if each.rule == "pattern_work"]
    assert [each.node_id for each in found] == ["n"]
