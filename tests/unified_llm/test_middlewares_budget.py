"""BudgetMiddleware, and what a Usage costs."""

import pytest
from unified_llm import (
    Client,
    ConfigurationError,
    Message,
    ModelInfo,
    QuotaExceededError,
    RateLimitError,
    Request,
    Response,
    StreamError,
    Usage,
    cost_of,
    get_model_info,
)
from unified_llm.client.middleware import CompleteCall
from unified_llm.client.middlewares import BudgetMiddleware, FallbackMiddleware
from unified_llm.testing import ScriptedAdapter, events_of, respond

MODEL = "claude-sonnet-4-5"
ASK = Request(model=MODEL, messages=[Message.user("x" * 400)])
USAGE = Usage(input_tokens=1000, output_tokens=200, total_tokens=1200)


def answer(model: str = MODEL) -> Response:
    return respond("hello", usage=USAGE, model=model)


def client_of(adapter: ScriptedAdapter, budget: BudgetMiddleware) -> Client:
    return Client({"s": adapter}, "s", [budget])


@pytest.fixture
def sonnet() -> ModelInfo:
    model = get_model_info(MODEL)
    assert model is not None
    return model


def test_a_cost_is_counted_by_kind_of_token(sonnet: ModelInfo) -> None:
    assert sonnet.input_cost_per_million is not None
    assert sonnet.output_cost_per_million is not None
    plain = (1000 * sonnet.input_cost_per_million + 200 * sonnet.output_cost_per_million) / 1_000_000
    assert cost_of(USAGE, MODEL) == pytest.approx(plain)
    assert cost_of(USAGE, f"{MODEL}-20250929") == pytest.approx(plain)
    assert cost_of(USAGE + USAGE, MODEL) == pytest.approx(2 * plain)
    assert cost_of(Usage(), MODEL) == 0
    assert cost_of(USAGE, "nobody-knows-this") is None


def test_cached_tokens_have_their_own_price_or_that_of_input(sonnet: ModelInfo) -> None:
    usage = Usage(input_tokens=1000, output_tokens=0, cache_read_tokens=600, cache_write_tokens=300)
    prices = {"input_cost_per_million": 10.0, "output_cost_per_million": 50.0}
    known = {"cache_read_cost_per_million": 1.0, "cache_write_cost_per_million": 12.5}
    unknown = dict.fromkeys(known)
    in_full = cost_of(usage, sonnet.model_copy(update={**prices, **unknown}))
    assert in_full == pytest.approx(1000 * 10 / 1_000_000)
    reduced = cost_of(usage, sonnet.model_copy(update={**prices, **known}))
    assert reduced == pytest.approx((100 * 10 + 600 * 1 + 300 * 12.5) / 1_000_000)


async def test_calls_go_through_until_the_tokens_are_spent() -> None:
    budget = BudgetMiddleware(max_tokens=2400)
    with ScriptedAdapter(answer(), answer()) as adapter:
        client = client_of(adapter, budget)
        await client.complete(ASK)
        assert budget.spent_tokens == 1200
        _ = [event async for event in client.stream(ASK)]
        assert budget.spent_tokens == 2400
        for _ in range(2):
            with pytest.raises(
                QuotaExceededError, match="2400 of 2400 tokens are spent; no request was sent"
            ) as caught:
                await client.complete(ASK)
            with pytest.raises(QuotaExceededError):
                _ = [event async for event in client.stream(ASK)]
    assert caught.value.error_code == "budget_exceeded"
    assert not caught.value.retryable


async def test_calls_go_through_until_the_money_is_spent() -> None:
    price = cost_of(USAGE, MODEL)
    assert price is not None
    budget = BudgetMiddleware(max_usd=1.5 * price)
    with ScriptedAdapter(answer(), answer()) as adapter:
        client = client_of(adapter, budget)
        await client.complete(ASK)
        _ = [event async for event in client.stream(ASK)]
        assert budget.spent_usd == pytest.approx(2 * price)
        with pytest.raises(QuotaExceededError, match="US dollars are spent"):
            await client.complete(ASK)


async def test_a_model_without_a_price_is_refused_before_it_is_asked() -> None:
    request = ASK.model_copy(update={"model": "home-made"})
    with pytest.raises(ConfigurationError, match=r"price of model 'home-made' is unknown.*`cost`"):
        await client_of(ScriptedAdapter(), BudgetMiddleware(max_usd=1)).complete(request)
    with ScriptedAdapter("fine", "fine") as adapter:
        await client_of(adapter, BudgetMiddleware(max_tokens=100)).complete(request)
        budget = BudgetMiddleware(max_usd=1, cost=lambda usage, model: usage.output_tokens * 0.01)
        await client_of(adapter, budget).complete(request)
    assert budget.spent_usd == pytest.approx(0.05)


async def test_a_failed_call_costs_nothing() -> None:
    budget = BudgetMiddleware(max_tokens=1000)
    with ScriptedAdapter(RateLimitError("later"), RateLimitError("later")) as adapter:
        client = client_of(adapter, budget)
        with pytest.raises(RateLimitError):
            await client.complete(ASK)
        with pytest.raises(RateLimitError):
            _ = [event async for event in client.stream(ASK)]
    assert (budget.spent_tokens, budget.spent_usd) == (0, 0)


@pytest.mark.parametrize("left", [False, True])
async def test_a_stream_without_an_end_counts_by_estimate(left: bool) -> None:
    begun = events_of(respond("y" * 80))[:-1]
    budget = BudgetMiddleware(max_tokens=1000)
    with ScriptedAdapter([*begun, StreamError("cut")]) as adapter:
        async with client_of(adapter, budget).stream(ASK) as events:
            if left:
                for _ in begun:
                    await anext(events)
            else:
                with pytest.raises(StreamError):
                    _ = [event async for event in events]
    assert budget.spent_tokens == 400 // 4 + 80 // 4
    assert budget.spent_usd > 0


async def test_the_price_is_that_of_the_model_which_answered() -> None:
    budget = BudgetMiddleware(max_usd=100)
    with ScriptedAdapter(RateLimitError("later"), answer("claude-opus-4-6")) as adapter:
        client = Client({"s": adapter}, "s", [budget, FallbackMiddleware([("s", "claude-opus-4-6")])])
        await client.complete(ASK)
    assert budget.spent_usd == pytest.approx(cost_of(USAGE, "claude-opus-4-6"))


async def test_an_answer_is_delivered_even_if_it_breaks_the_budget() -> None:
    async def expensive(request: Request, call_next: CompleteCall) -> Response:
        response = await call_next(request)
        return response.model_copy(update={"usage": Usage(input_tokens=10**9, total_tokens=10**9)})

    budget = BudgetMiddleware(max_tokens=10)
    with ScriptedAdapter("dear") as adapter:
        assert (await Client({"s": adapter}, "s", [budget, expensive]).complete(ASK)).text == "dear"


@pytest.mark.parametrize("arguments", [{}, {"max_usd": -1}, {"max_tokens": -1}, {"max_usd": float("nan")}])
def test_nonsense_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="max_"):
        BudgetMiddleware(**arguments)
