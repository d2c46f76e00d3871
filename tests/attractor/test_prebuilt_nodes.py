"""Whatever a node is, gives back or raises: it works, or the error says what is wrong, and with which node."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Annotated, Any

import anyio
import pytest
from attractor.errors import PipelineConfigurationError
from attractor.prebuilt import START, Graph, NodeContext, NodeError, State, add, append, merge

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


class Work(State):
    items: Annotated[list[Any], append]
    count: Annotated[int, add]
    table: Annotated[dict[str, Any], merge]


def one_node(function: Callable[..., Any], **options: Any) -> Graph[Work]:
    return Graph(Work).add_node("x", function, **options).add_edge(START, "x")


class Plain:
    def __call__(self, state: Work, ctx: NodeContext) -> dict[str, Any]:
        return {"items": ctx.node}


class Async:
    async def __call__(self, state: Work) -> dict[str, Any]:
        return {"items": "x"}

    def method(self, state: Work, ctx: NodeContext) -> dict[str, Any]:
        return {"items": ctx.node}

    @classmethod
    def of_class(cls, state: Work) -> dict[str, Any]:
        return {"items": "x"}

    @staticmethod
    async def static(state: Work) -> dict[str, Any]:
        return {"items": "x"}


async def with_more(text: str, state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"items": text}


def takes_all(*given: Any) -> dict[str, Any]:
    return {"items": given[1].node}


def has_default(state: Work, text: str = "x") -> dict[str, Any]:
    return {"items": text}


def has_default_context(state: Work, ctx: Any = None) -> dict[str, Any]:
    return {"items": ctx.node}


@BOTH
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(Plain(), id="callable object"),
        pytest.param(Async(), id="async callable object"),
        pytest.param(Async().method, id="method"),
        pytest.param(Async.of_class, id="class method"),
        pytest.param(Async.static, id="static method"),
        pytest.param(partial(with_more, "x"), id="partial"),
        pytest.param(lambda state: {"items": "x"}, id="lambda"),
        pytest.param(lambda state, ctx: with_more("x", state, ctx), id="lambda around an async function"),
        pytest.param(takes_all, id="any arguments"),
        pytest.param(has_default, id="a default"),
        pytest.param(has_default_context, id="a default for ctx"),
    ],
)
async def test_whatever_can_be_called_is_a_node(function: Callable[..., Any]) -> None:
    assert (await one_node(function).compile().invoke({}))["items"] == ["x"]


def test_what_takes_no_state_is_no_node() -> None:
    def x() -> None: ...

    with pytest.raises(PipelineConfigurationError, match="'x' can't be a node: it takes no state"):
        Graph(Work).add_node(x)  # type: ignore[arg-type]


def generate(state: Work) -> Iterator[dict[str, Any]]:
    yield {"items": 1}


async def generate_async(state: Work) -> AsyncIterator[dict[str, Any]]:
    yield {"items": 1}


def nest(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@BOTH
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (generate, "must be a dict of channels, not generator"),
        (generate_async, "must be a dict of channels, not async_generator"),
        (lambda state: [("items", 1)], "must be a dict of channels, not list"),
        (lambda state: {1: 2}, "names channel 1, which Work doesn't declare; it has: items, count, table"),
        (lambda state: {"items": {1, 2}}, "channel 'items': the value of type set is not JSON"),
        (lambda state: {"count": float("nan")}, "channel 'count': the value nan is not JSON"),
        (lambda state: {"table": {1: 2}}, "channel 'table': the dict key 1 is not text"),
        (lambda state: {"items": nest(5000)}, "more than 100 deep"),
        (lambda state: {"table": [1]}, r"the reducer of channel 'table' can't take \[1\]: TypeError: 'list' object"),
        (lambda state: {"table": "x" * 10_000}, r"can't take 'x{199}\.\.\.: TypeError"),
    ],
    ids=["generator", "async generator", "list", "number", "set", "nan", "key", "deep", "reducer", "long"],
)
async def test_what_a_node_may_not_give_back(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(NodeError, match=rf"node 'x' failed: ChannelError: the update of node 'x'.*{message}"):
        await one_node(function).compile().invoke({})


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def recurse(state: Work) -> None:
    recurse(state)


def raise_it(error: BaseException, state: Work) -> None:
    raise error


@BOTH
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (partial(raise_it, ValueError()), "ValueError"),
        (partial(raise_it, ValueError("it")), "ValueError: it"),
        (partial(raise_it, Mute()), "Mute, whose message can't be read, for that raises RuntimeError"),
        (partial(raise_it, ExceptionGroup("both", [ValueError("1")])), r"ExceptionGroup: both (1 sub-exception)"),
        (partial(raise_it, StopAsyncIteration()), "StopAsyncIteration"),
        (partial(raise_it, StopIteration(5)), "RuntimeError: coroutine raised StopIteration"),
        (recurse, "RecursionError: maximum recursion depth exceeded"),
    ],
    ids=["silent", "telling", "mute", "group", "stop", "stop iteration", "recursion"],
)
async def test_what_a_node_raises_is_told_and_is_the_cause(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(NodeError) as caught:
        await one_node(function).compile().invoke({})
    assert str(caught.value).startswith(f"node 'x' failed: {reason}")
    assert not str(caught.value).endswith(": ")
    assert caught.value.__cause__ is not None


class Stop(BaseException):
    pass


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_branch", [False, True], ids=["alone", "in a branch"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_what_ends_the_process_comes_out_plain(backend: str, is_branch: bool, error: BaseException) -> None:
    async def leave(state: Work) -> None:
        raise error

    graph = Graph(Work).add_node(leave).add_edge(START, "leave")
    if is_branch:
        graph.add_node("other", lambda state: {"items": "other"}).add_edge(START, "other")
    with pytest.raises(type(error)) as caught:
        anyio.run(graph.compile().invoke, {}, backend=backend)
    assert getattr(caught.value, "code", None) == getattr(error, "code", None)


@BOTH
async def test_base_exceptions_are_no_failures_of_the_node(tmp_path: Any) -> None:
    fails = True

    def stop(state: Work) -> dict[str, Any]:
        if fails:
            raise Stop
        return {"items": "x"}

    compiled = one_node(stop, max_retries=3).compile(checkpointer=tmp_path)
    with pytest.raises(Stop):
        await compiled.invoke({})
    fails = False
    assert (await compiled.resume())["items"] == ["x"]


@BOTH
async def test_a_node_that_is_cancelled_or_too_late_cleans_up(tmp_path: Any) -> None:
    cleaned: list[str] = []

    async def work(state: Work, ctx: NodeContext) -> dict[str, Any]:
        try:
            if len(cleaned) < 2:
                await anyio.sleep_forever()
            return {"items": "x"}
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
                cleaned.append(f"attempt {ctx.attempt}")

    compiled = one_node(work, timeout=0.02, max_retries=1, retry_policy="aggressive").compile(checkpointer=tmp_path)
    with anyio.fail_after(10), pytest.raises(NodeError, match="timeout"):
        await compiled.invoke({})
    assert cleaned == ["attempt 1", "attempt 2"]
    assert (await compiled.resume())["items"] == ["x"]


@BOTH
async def test_what_a_node_changes_in_its_state_is_its_own() -> None:
    def change(state: Any) -> None:
        state["items"].append("changed")
        state["table"]["deep"]["er"] = 1
        state["count"] = 9

    before = {"items": ["a"], "table": {"deep": {}}, "count": 1}
    assert await one_node(change).compile().invoke(before) == {"items": ["a"], "table": {"deep": {}}, "count": 1}


async def test_what_a_router_changes_in_the_state_is_its_own() -> None:
    def route(state: Any) -> str:
        state["items"].append("changed")
        return "end"

    graph = Graph(Work).add_node("x", lambda state: {"items": ["a"]}).add_edge(START, "x")
    graph.add_conditional_edges("x", route, {"end": "END"})
    assert (await graph.compile().invoke({}))["items"] == ["a"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_node_that_was_given_up_may_still_tell(backend: str) -> None:
    """In its thread, when the event loop has ended and nobody listens any more."""
    go, told = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def work(state: Work, ctx: NodeContext) -> None:
        go.wait(10)
        try:
            ctx.emit("late")
        except BaseException as error:
            errors.append(error)
        told.set()

    with pytest.raises(NodeError, match="timeout"):
        anyio.run(one_node(work, timeout=0.02).compile().invoke, {}, backend=backend)
    go.set()
    assert told.wait(10)
    assert errors == []
