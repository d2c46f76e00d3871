"""with_retry and with_timeout: attempts, delays, and what passes through them."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from attractor.prebuilt import START, Graph, InterruptError, NodeContext, NodeError, State, with_retry, with_timeout
from attractor.suspension import Suspend
from hypothesis import given
from hypothesis import strategies as st

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    text: str


class Flaky:
    """A node that raises the given errors, one a call, and then succeeds."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, state: Mapping[str, Any], ctx: Any) -> dict[str, str]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"text": f"call {self.calls}"}


class Sleeps:
    def __init__(self) -> None:
        self.delays: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.delays.append(seconds)


@BOTH
async def test_node_is_tried_once_and_then_as_often_as_retries_says() -> None:
    sleeps = Sleeps()
    node = Flaky(OSError("1"), OSError("2"))
    assert await with_retry(node, retries=2, sleep=sleeps)({}, None) == {"text": "call 3"}
    assert sleeps.delays == [0.1, 0.2]


async def test_last_error_is_raised_unchanged() -> None:
    errors = [OSError("1"), OSError("2"), OSError("3")]
    last = errors[-1]
    node = Flaky(*errors)
    with pytest.raises(OSError, match="3") as caught:
        await with_retry(node, retries=2, sleep=Sleeps())({}, None)
    assert caught.value is last
    assert last.__cause__ is None
    assert last.__context__ is None
    assert node.calls == 3


async def test_no_retries_is_one_attempt() -> None:
    node = Flaky(OSError())
    with pytest.raises(OSError):
        await with_retry(node, retries=0)({}, None)
    assert node.calls == 1


def test_negative_retries_are_refused() -> None:
    with pytest.raises(ValueError, match="retries must not be negative, as -1 is"):
        with_retry(Flaky(), retries=-1)


@pytest.mark.parametrize("seconds", [0, -1.5])
def test_time_limit_that_is_not_positive_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="the time limit must be positive"):
        with_timeout(Flaky(), seconds)


async def test_only_the_named_errors_are_retried() -> None:
    node = Flaky(ConnectionError(), KeyError("other"))
    with pytest.raises(KeyError):
        await with_retry(node, retries=5, on=(OSError,), sleep=Sleeps())({}, None)
    assert node.calls == 2


@pytest.mark.parametrize("error", [InterruptError("ask"), Suspend(nested=True)], ids=["interrupt", "suspension"])
@pytest.mark.parametrize("on", [(Exception,), (BaseException,), (Suspend,)], ids=["usual", "all", "exactly"])
async def test_a_suspended_node_is_never_retried(error: Suspend, on: tuple[type[BaseException], ...]) -> None:
    node = Flaky(error)
    with pytest.raises(Suspend) as caught:
        await with_retry(with_timeout(node, 60), retries=5, on=on, sleep=Sleeps())({}, None)
    assert caught.value is error
    assert node.calls == 1


@BOTH
async def test_cancellation_is_not_retried() -> None:
    calls = 0

    async def forever(state: Work) -> None:
        nonlocal calls
        calls += 1
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await with_retry(forever, retries=5, on=(BaseException,), backoff=0)({}, None)
    assert scope.cancelled_caught
    assert calls == 1


@given(
    st.integers(0, 8),
    st.floats(0, 20),
    st.floats(1, 4),
    st.floats(0.1, 40),
    st.floats(0, 2),
)
def test_delays_grow_up_to_the_longest(
    retries: int, backoff: float, factor: float, longest: float, jitter: float
) -> None:
    sleeps, asked = Sleeps(), []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return high

    node = Flaky(*[OSError() for _ in range(retries)])
    wrapped = with_retry(
        node,
        retries=retries,
        backoff=backoff,
        backoff_factor=factor,
        max_backoff=longest,
        jitter=jitter,
        sleep=sleeps,
        uniform=uniform,
    )
    anyio.run(wrapped, {}, None)
    expected, delay = [], backoff
    for _ in range(retries):
        expected.append(delay + jitter)
        delay = min(delay * factor, longest)
    assert sleeps.delays == [pause for pause in expected if pause > 0]
    assert asked == ([(0, jitter)] * retries if jitter else [])


@BOTH
async def test_slow_node_raises_timeout_error() -> None:
    async def slow(state: Work) -> None:
        await anyio.sleep_forever()

    with pytest.raises(TimeoutError, match=r"node 'slow' took longer than 0.01 s"):
        await with_timeout(slow, 0.01)({}, None)


async def test_quick_node_reports_as_always_and_its_own_timeouts_are_its_own() -> None:
    assert await with_timeout(Flaky(), 60)({}, None) == {"text": "call 1"}
    mine = TimeoutError("mine")
    with pytest.raises(TimeoutError) as caught:
        await with_timeout(Flaky(mine), 60)({}, None)
    assert caught.value is mine


async def test_runtime_names_the_node_that_was_too_slow() -> None:
    graph = (
        Graph(Work).add_node("slow", with_timeout(lambda state: anyio.sleep_forever(), 0.01)).add_edge(START, "slow")
    )
    with pytest.raises(NodeError, match="node 'slow' failed: TimeoutError") as caught:
        await graph.compile().invoke({})
    assert isinstance(caught.value.__cause__, TimeoutError)


def first_slow() -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    async def node(state: Mapping[str, Any], ctx: Any) -> dict[str, str]:
        calls.append(1)
        if len(calls) == 1:
            await anyio.sleep_forever()
        return {"text": f"call {len(calls)}"}

    return node, calls


@BOTH
async def test_time_limit_within_retries_is_for_each_attempt() -> None:
    node, calls = first_slow()
    assert await with_retry(with_timeout(node, 0.02), backoff=0)({}, None) == {"text": "call 2"}
    assert len(calls) == 2


@BOTH
async def test_time_limit_around_retries_is_for_all_of_them() -> None:
    node, calls = first_slow()
    with pytest.raises(TimeoutError):
        await with_timeout(with_retry(node, backoff=0), 0.02)({}, None)
    assert len(calls) == 1


async def test_wrapped_functions_may_be_plain_and_keep_their_name() -> None:
    def fetch(state: Work) -> dict[str, str]:
        return {"text": state["text"].upper()}

    def greet(state: Work, ctx: NodeContext) -> dict[str, str]:
        return {"text": f"{state['text']} from {ctx.node}"}

    graph = Graph(Work).add_node(with_retry(with_timeout(fetch, 60))).add_node(with_timeout(with_retry(greet), 60))
    graph.add_edge(START, "fetch").add_edge("fetch", "greet")
    assert await graph.compile().invoke({"text": "hi"}) == {"text": "HI from greet"}
