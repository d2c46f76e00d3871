"""Prices that the package genai-prices maintains go before those of the catalog."""

import subprocess
import sys

import pytest
from unified_llm import Usage, cost_of, get_model_info

genai_prices = pytest.importorskip("genai_prices")

USAGE = Usage(input_tokens=1000, output_tokens=500, total_tokens=1500, cache_read_tokens=400)


@pytest.mark.parametrize(
    ("model", "provider_id"),
    [("claude-opus-4-6", "anthropic"), ("gpt-5.2", "openai"), ("gemini-3-flash-preview", "google")],
)
def test_a_model_that_the_package_knows_costs_what_it_says(model: str, provider_id: str) -> None:
    tokens = genai_prices.Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=400)
    expected = genai_prices.calc_price(tokens, model, provider_id=provider_id).total_price
    assert cost_of(USAGE, model) == pytest.approx(float(expected))
    info = get_model_info(model)
    assert info is not None
    # The catalog has no prices of cached tokens; the package does, and they are lower.
    assert cost_of(USAGE, model) < (cost_of(USAGE, info) or 0)


def test_a_model_that_nobody_knows_has_no_price() -> None:
    assert cost_of(USAGE, "nobody-knows-this") is None


def test_counts_that_contradict_each_other_are_priced_by_the_catalog() -> None:
    odd = Usage(input_tokens=10, output_tokens=5, total_tokens=15, cache_read_tokens=400)
    assert cost_of(odd, "claude-opus-4-6") == cost_of(odd, get_model_info("claude-opus-4-6"))


def test_without_the_package_the_catalog_prices() -> None:
    program = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from unified_llm import Usage, cost_of, get_model_info\n"
        "usage = Usage(input_tokens=1000, output_tokens=500, total_tokens=1500)\n"
        "assert cost_of(usage, 'gpt-5.2') == cost_of(usage, get_model_info('gpt-5.2')) > 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
