"""RateLimitMiddleware, on a clock that moves only when somebody sleeps."""

import anyio
import pytest
from unified_llm import Client, ConfigurationError, Message, RateLimitError, Request, Usage
from unified_llm.client.middlewares import RateLimitMiddleware
from unified_llm.testing import ScriptedAdapter, respond

BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
ASK = Request(model="m", messages=[Message.user("hi")])


class VirtualClock:
    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds, 6))
        await anyio.lowlevel.checkpoint()
        self.now += seconds


def ask(text: str, provider: str | None = None) -> Request:
    return Request(model="m", messages=[Message.user(text)], provider=provider)


def client_of(adapter: ScriptedAdapter, clock: VirtualClock, **limits: object) -> Client:
    limiter = RateLimitMiddleware(clock=clock, sleep=clock.sleep, **limits)  # type: ignore[arg-type]
    return Client({"s": adapter}, "s", [limiter])


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, total_tokens=tokens)


async def test_requests_are_let_through_up_to_the_limit_and_then_evenly() -> None:
    clock = VirtualClock()
    with ScriptedAdapter(*["ok"] * 5) as adapter:
        client = client_of(adapter, clock, requests_per_minute=2)
        for _ in range(3):
            await client.complete(ASK)
        _ = [event async for event in client.stream(ASK)]
        assert clock.sleeps == [30, 30]
        clock.now += 45
        await client.complete(ASK)
    assert clock.sleeps == [30, 30]


async def test_a_pause_refills_at_most_one_minute() -> None:
    clock = VirtualClock()
    with ScriptedAdapter(*["ok"] * 5) as adapter:
        client = client_of(adapter, clock, requests_per_minute=2)
        clock.now += 10_000
        for _ in range(5):
            await client.complete(ASK)
    assert clock.sleeps == [30, 30, 30]


@pytest.mark.parametrize("streamed", [False, True])
async def test_tokens_are_estimated_first_and_put_right_after(streamed: bool) -> None:
    clock = VirtualClock()
    with ScriptedAdapter(respond("a", usage=used(90)), respond("b", usage=used(10))) as adapter:
        client = client_of(adapter, clock, tokens_per_minute=60)
        for request in (ask("x" * 40), ask("x" * 40)):
            if streamed:
                _ = [event async for event in client.stream(request)]
            else:
                await client.complete(request)
    # 90 of 60 were taken, so 30 are owed; and 10 are wanted.
    assert clock.sleeps == [40]


async def test_a_request_larger_than_the_bucket_waits_for_a_full_one() -> None:
    clock = VirtualClock()
    with ScriptedAdapter(respond("a", usage=used(30)), respond("b", usage=used(600)), "c") as adapter:
        client = client_of(adapter, clock, tokens_per_minute=60)
        await client.complete(ask("x" * 120))
        await client.complete(ask("x" * 2400))
        assert clock.sleeps == [30]
        await client.complete(ask("x" * 4))
    assert clock.sleeps == [30, 541]


async def test_a_failed_call_is_a_request_but_no_tokens() -> None:
    clock = VirtualClock()
    with ScriptedAdapter(RateLimitError("no"), "ok") as adapter:
        client = client_of(adapter, clock, tokens_per_minute=60)
        with pytest.raises(RateLimitError):
            await client.complete(ask("x" * 240))
        await client.complete(ask("x" * 240))
    assert clock.sleeps == []
    with ScriptedAdapter(RateLimitError("no"), "ok") as adapter:
        client = client_of(adapter, clock, requests_per_minute=1)
        with pytest.raises(RateLimitError):
            await client.complete(ASK)
        await client.complete(ASK)
    assert clock.sleeps == [60]


@BACKENDS
async def test_calls_go_in_the_order_they_came_the_small_don_t_overtake_the_large(anyio_backend: str) -> None:
    clock = VirtualClock()
    gate = anyio.Event()

    async def sleep(seconds: float) -> None:
        await gate.wait()
        for _ in range(int(seconds)):  # the longer sleep ends later
            await anyio.lowlevel.checkpoint()
        await clock.sleep(seconds)

    limiter = RateLimitMiddleware(tokens_per_minute=100, clock=clock, sleep=sleep)
    with ScriptedAdapter(*[respond("ok", usage=used(tokens)) for tokens in (100, 100, 1, 1, 1, 1)]) as adapter:
        client = Client({"s": adapter}, "s", [limiter])
        await client.complete(ask("x" * 400))
        async with anyio.create_task_group() as tasks:
            for size in (400, 4, 5, 6, 7):
                tasks.start_soon(client.complete, ask("x" * size))
                await anyio.wait_all_tasks_blocked()
            gate.set()
    assert [len(request.messages[0].text) for request in adapter.requests] == [400, 400, 4, 5, 6, 7]
    assert clock.sleeps == [60, 0.6, 0.6, 0.6, 0.6]


@BACKENDS
async def test_a_call_cancelled_while_it_waits_takes_nothing(anyio_backend: str) -> None:
    clock = VirtualClock()
    waiting = anyio.Event()
    asleep = [True]

    async def sleep(seconds: float) -> None:
        if asleep[0]:
            waiting.set()
            await anyio.sleep_forever()
        await clock.sleep(seconds)

    with ScriptedAdapter("ok", "ok", "ok") as adapter:
        client = Client({"s": adapter}, "s", [RateLimitMiddleware(requests_per_minute=2, clock=clock, sleep=sleep)])
        await client.complete(ASK)
        await client.complete(ASK)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.complete, ASK)
            tasks.start_soon(client.complete, ASK)
            await waiting.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        asleep[0] = False
        with anyio.fail_after(5):
            await client.complete(ASK)
    assert clock.sleeps == [30]


async def test_another_provider_passes_by() -> None:
    clock = VirtualClock()
    limiter = RateLimitMiddleware(requests_per_minute=1, provider="a", clock=clock, sleep=clock.sleep)
    with ScriptedAdapter("ok") as a, ScriptedAdapter(*["ok"] * 4) as b:
        client = Client({"a": a, "b": b}, "a", [limiter])
        await client.complete(ASK)
        for _ in range(2):
            await client.complete(ask("hi", "b"))
            _ = [event async for event in client.stream(ask("hi", "b"))]
    assert clock.sleeps == []


async def test_the_event_loops_own_clock_is_the_default() -> None:
    with ScriptedAdapter("ok", "ok") as adapter:
        client = Client({"s": adapter}, "s", [RateLimitMiddleware(requests_per_minute=6_000)])
        await client.complete(ASK)
        assert [event async for event in client.stream(ASK)]


@pytest.mark.parametrize("arguments", [{}, {"requests_per_minute": 0}, {"tokens_per_minute": -1}])
def test_nonsense_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="_per_minute"):
        RateLimitMiddleware(**arguments)
