"""CircuitBreakerMiddleware: a provider that keeps failing is left alone for a while."""

import anyio
import pytest
from unified_llm import (
    AuthenticationError,
    Client,
    ConfigurationError,
    InvalidRequestError,
    Message,
    NetworkError,
    RateLimitError,
    Request,
    RequestTimeoutError,
    ServerError,
    StreamError,
)
from unified_llm.client.middlewares import CircuitBreakerMiddleware, CircuitState
from unified_llm.testing import ScriptedAdapter, events_of, respond

BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
ASK = Request(model="m", messages=[Message.user("hi")])
DOWN = ServerError("down", status_code=503)


class Bench:
    """A client behind a breaker, and the hand on its clock."""

    def __init__(self, *steps: object, **options: object) -> None:
        self.now = 0.0
        self.adapter = ScriptedAdapter(*steps)  # type: ignore[arg-type]
        self.breaker = CircuitBreakerMiddleware(2, reset_after=10, clock=lambda: self.now, **options)  # type: ignore[arg-type]
        self.client = Client({"s": self.adapter}, "s", [self.breaker])

    @property
    def state(self) -> CircuitState:
        return self.breaker.state("s")

    async def call(self, *, streamed: bool = False) -> None:
        if streamed:
            _ = [event async for event in self.client.stream(ASK)]
        else:
            await self.client.complete(ASK)

    async def fail(self, times: int = 1, *, streamed: bool = False) -> None:
        for _ in range(times):
            with pytest.raises((ServerError, NetworkError, RateLimitError, StreamError)):
                await self.call(streamed=streamed)


@pytest.mark.parametrize("streamed", [False, True])
async def test_it_opens_after_failures_in_a_row_and_says_for_how_long(streamed: bool) -> None:
    bench = Bench(DOWN, "fine", DOWN, DOWN)
    await bench.fail(streamed=streamed)
    await bench.call(streamed=streamed)
    await bench.fail(streamed=streamed)
    assert bench.state is CircuitState.CLOSED
    await bench.fail(streamed=streamed)
    assert bench.state is CircuitState.OPEN
    bench.now = 4
    with pytest.raises(ServerError, match=r"s failed 2 times in a row.*6\.0 s.*ServerError: down") as caught:
        await bench.call(streamed=streamed)
    assert caught.value.error_code == "circuit_open"
    assert caught.value.provider == "s"
    assert caught.value.retryable
    assert caught.value.retry_after == pytest.approx(6)
    bench.adapter.verify()


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_success_after_the_wait_closes_it(streamed: bool) -> None:
    bench = Bench(DOWN, DOWN, "back", "fine")
    await bench.fail(2)
    bench.now = 10
    assert bench.state is CircuitState.HALF_OPEN
    await bench.call(streamed=streamed)
    assert bench.state is CircuitState.CLOSED
    await bench.call()
    bench.adapter.verify()


@pytest.mark.parametrize("streamed", [False, True])
async def test_one_failure_after_the_wait_opens_it_again(streamed: bool) -> None:
    bench = Bench(DOWN, DOWN, DOWN)
    await bench.fail(2)
    bench.now = 10
    await bench.fail(streamed=streamed)
    assert bench.state is CircuitState.OPEN
    bench.now = 19
    await bench.fail()
    bench.adapter.verify()


async def test_a_broken_stream_is_a_failure() -> None:
    broken = [*events_of(respond("half"))[:-1], StreamError("cut")]
    bench = Bench(broken, broken)
    await bench.fail(2, streamed=True)
    assert bench.state is CircuitState.OPEN


@pytest.mark.parametrize("error", [RateLimitError("later"), NetworkError("gone"), DOWN])
async def test_retryable_errors_count(error: Exception) -> None:
    bench = Bench(error, error)
    await bench.fail(2)
    assert bench.state is CircuitState.OPEN


@pytest.mark.parametrize("error", [InvalidRequestError("bad"), AuthenticationError("who?")])
async def test_the_requests_own_faults_show_that_the_provider_is_there(error: Exception) -> None:
    bench = Bench(DOWN, error, DOWN)
    await bench.fail()
    with pytest.raises(type(error)):
        await bench.call()
    await bench.fail()
    assert bench.state is CircuitState.CLOSED


@pytest.mark.parametrize("error", [RequestTimeoutError("slow"), ConfigurationError("wrong"), ValueError("bug")])
async def test_what_tells_nothing_changes_nothing(error: Exception) -> None:
    bench = Bench(DOWN, error, DOWN)
    await bench.fail()
    with pytest.raises(type(error)):
        await bench.call()
    await bench.fail()
    assert bench.state is CircuitState.OPEN


async def test_what_counts_can_be_chosen() -> None:
    bench = Bench(*[RequestTimeoutError("slow")] * 2, counts=lambda error: isinstance(error, RequestTimeoutError))
    for _ in range(2):
        with pytest.raises(RequestTimeoutError):
            await bench.call()
    assert bench.state is CircuitState.OPEN


async def test_each_provider_has_its_own() -> None:
    bench = Bench(DOWN, DOWN)
    with ScriptedAdapter("fine") as other:
        client = Client({"s": bench.adapter, "o": other}, "s", [bench.breaker])
        await bench.fail(2)
        await client.complete(ASK.model_copy(update={"provider": "o"}))
    assert bench.breaker.state("o") is CircuitState.CLOSED


@BACKENDS
async def test_only_one_call_at_a_time_tries_the_provider(anyio_backend: str) -> None:
    gate = anyio.Event()
    bench = Bench(DOWN, DOWN, [gate.wait, *events_of(respond("back"))])
    await bench.fail(2)
    bench.now = 10
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.call)
        await anyio.wait_all_tasks_blocked()
        await bench.fail()
        assert bench.state is CircuitState.HALF_OPEN
        gate.set()
    assert bench.state is CircuitState.CLOSED
    bench.adapter.verify()


@BACKENDS
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_trial_leaves_the_next_call_to_try(anyio_backend: str, streamed: bool) -> None:
    bench = Bench(DOWN, DOWN, [anyio.sleep_forever], "back")
    await bench.fail(2)
    bench.now = 10
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: bench.call(streamed=streamed))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await bench.call()
    assert bench.state is CircuitState.CLOSED


async def test_a_trial_stream_left_by_its_reader_leaves_the_next_call_to_try() -> None:
    bench = Bench(DOWN, DOWN, "left", "back")
    await bench.fail(2)
    bench.now = 10
    async with bench.client.stream(ASK) as events:
        await anext(events)
    assert bench.state is CircuitState.HALF_OPEN
    await bench.call()
    assert bench.state is CircuitState.CLOSED


async def test_a_late_answer_from_before_does_not_close_an_open_circuit() -> None:
    gate = anyio.Event()
    bench = Bench([gate.wait, *events_of(respond("late"))], DOWN, DOWN)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.call)
        await anyio.wait_all_tasks_blocked()
        await bench.fail(2)
        gate.set()
    assert bench.state is CircuitState.OPEN


@pytest.mark.parametrize(("arguments", "field"), [({"max_failures": 0}, "max_failures"), ({"reset_after": 0}, "reset")])
def test_nonsense_is_refused(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        CircuitBreakerMiddleware(**arguments)  # type: ignore[arg-type]
