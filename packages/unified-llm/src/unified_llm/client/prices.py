"""Prices that others maintain: those of the package `genai-prices`, where it is installed (extra `prices`)."""

from functools import cache
from typing import Any

from unified_llm.spec.response import Usage

# Providers that the package knows by another name.
_NAMES = {"gemini": "google"}


@cache
def _package() -> Any:
    try:
        # Optional, and its tables take longer to import than this library does.
        import genai_prices
    except ImportError:
        return None
    return genai_prices


def price_of(usage: Usage, model: str, provider: str | None) -> float | None:
    """What the tokens cost in US dollars today; None if the package is missing or doesn't know the model.

    It knows prices that depend on the length of the prompt or on the date, which a table doesn't. `provider` is None
    for a model that any provider may serve.
    """
    if (package := _package()) is None:
        return None
    tokens = package.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    provider_id = _NAMES.get(provider, provider) if provider else None
    try:
        return float(package.calc_price(tokens, model, provider_id=provider_id).total_price)
    except (LookupError, ValueError):
        # Unknown to it, or counts that it takes for contradictory: more cached tokens than tokens, say.
        return None
