"""A limit to what calls may cost together, in dollars or tokens."""

from collections.abc import AsyncIterator, Callable

from unified_llm.client.catalog import cost_of
from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.client.middlewares.metering import StreamMeter, total_tokens
from unified_llm.spec.errors import ConfigurationError, QuotaExceededError
from unified_llm.spec.events import StreamEvent
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response, Usage

CostFunction = Callable[[Usage, str], float | None]


class BudgetMiddleware:
    """Lets calls through until `max_usd` dollars or `max_tokens` tokens (input and output) are spent, then none.

    A call is checked before it is sent and counted when its answer is there, so the limit may be overstepped by the
    calls that are on their way when it is reached; they are paid for anyway, and their answers are delivered. A stream
    counts when it ends; one that breaks off or is left early counts by estimate. A failed call counts nothing.

    `cost(usage, model)` returns dollars, or None for a model whose price it doesn't know; by default the catalog's
    prices hold. With `max_usd`, a model without a price is refused with a ConfigurationError: a limit that counts some
    calls as free is none. For a model that costs nothing pass, say, `cost=lambda usage, model: 0.0`.

    Raises QuotaExceededError with `error_code="budget_exceeded"` once a limit is reached. It means to a caller what a
    provider's spent quota means: waiting and retrying don't help, and only somebody who grants more money does.
    ConfigurationError would say that the program is wrong, which it isn't.
    """

    def __init__(
        self, *, max_usd: float | None = None, max_tokens: int | None = None, cost: CostFunction = cost_of
    ) -> None:
        if max_usd is None and max_tokens is None:
            raise ConfigurationError("a budget needs max_usd, max_tokens or both")
        for name, limit in (("max_usd", max_usd), ("max_tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise ConfigurationError(f"{name} must not be negative, but is {limit!r}")
        self.max_usd = max_usd
        self.max_tokens = max_tokens
        self._cost = cost
        self._spent_usd = 0.0
        self._spent_tokens = 0

    @property
    def spent_usd(self) -> float:
        """Dollars so far, of the calls whose price is known."""
        return self._spent_usd

    @property
    def spent_tokens(self) -> int:
        """Tokens so far, input and output."""
        return self._spent_tokens

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """One whole call within the budget."""
        self._check(request)
        response = await call_next(request)
        self._count(response.usage, response.model, request.model)
        return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """One stream within the budget."""
        self._check(request)
        meter = StreamMeter(request)
        try:
            async with EventStream(call_next(request)) as events:
                async for event in events:
                    meter.process(event)
                    yield event
        finally:
            self._count(meter.usage(), meter.model, request.model)

    def _check(self, request: Request) -> None:
        if self.max_usd is not None:
            if self._cost(Usage(), request.model) is None:
                raise ConfigurationError(
                    f"the budget has max_usd, but the price of model {request.model!r} is unknown; "
                    "give BudgetMiddleware a `cost` function that knows it"
                )
            if self._spent_usd >= self.max_usd:
                raise _exceeded(f"{self._spent_usd:.4f} of {self.max_usd:.4f} US dollars are spent")
        if self.max_tokens is not None and self._spent_tokens >= self.max_tokens:
            raise _exceeded(f"{self._spent_tokens} of {self.max_tokens} tokens are spent")

    def _count(self, usage: Usage, *models: str | None) -> None:
        """At the price of the model that answered, which a fallback may have chosen, else of the one that was asked."""
        self._spent_tokens += total_tokens(usage)
        costs = (self._cost(usage, model) for model in models if model)
        self._spent_usd += next((cost for cost in costs if cost is not None), 0.0)


def _exceeded(what: str) -> QuotaExceededError:
    return QuotaExceededError(f"the budget is exceeded: {what}; no request was sent", error_code="budget_exceeded")
