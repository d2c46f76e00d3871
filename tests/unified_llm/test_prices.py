"""Prices that the package genai-prices maintains go before those of the catalog."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, get_args

import pytest
from unified_llm import ModelInfo, Usage, cost_of, get_model_info, list_models
from unified_llm.client.prices import price_of

genai_prices = pytest.importorskip("genai_prices")
get_snapshot = import_module("genai_prices.data_snapshot").get_snapshot
UNPRICED = {"gpt-6.2-sol", "gpt-5.2-mini"}

USAGE = Usage(input_tokens=1000, output_tokens=500, total_tokens=1500, cache_read_tokens=400)
# The catalog's are list prices.
AFTER_ALL_DISCOUNTS = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("model", "provider_id"),
    [("claude-opus-4-6", "anthropic"), ("gpt-5.2", "openai"), ("gemini-3-flash-preview", "google")],
)
def test_a_model_that_the_package_knows_costs_what_it_says(model: str, provider_id: str) -> None:
    tokens = genai_prices.Usage(input_tokens=1000, output_tokens=500, cache_read_tokens=400)
    expected = genai_prices.calc_price(tokens, model, provider_id=provider_id).total_price
    assert cost_of(USAGE, model) == pytest.approx(float(expected))


@pytest.mark.parametrize("model", list_models(), ids=lambda model: model.id)
def test_the_catalog_says_what_the_package_says(model: ModelInfo) -> None:
    def price(**tokens: int) -> float | None:
        try:
            return 1000 * float(
                genai_prices.calc_price(
                    genai_prices.Usage(**tokens),
                    model.id,
                    provider_id={"gemini": "google"}.get(model.provider, model.provider),
                    genai_request_timestamp=AFTER_ALL_DISCOUNTS,
                ).total_price
            )
        except LookupError:
            return None

    if (at_input := price(input_tokens=1000)) is None:
        pytest.skip("the package doesn't know the model")
    read, written = model.cache_read_cost_per_million, model.cache_write_cost_per_million
    assert model.input_cost_per_million == pytest.approx(at_input)
    assert model.output_cost_per_million == pytest.approx(price(output_tokens=1000))
    # A token without a price of its own costs what one of input does.
    assert (at_input if read is None else read) == pytest.approx(price(input_tokens=1000, cache_read_tokens=1000))
    assert (at_input if written is None else written) == pytest.approx(
        price(input_tokens=1000, cache_write_tokens=1000)
    )


def test_few_models_are_priced_by_the_catalog_alone() -> None:
    assert sum(price_of(USAGE, model.id, model.provider) is None for model in list_models()) < len(list_models()) / 10


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


@pytest.mark.parametrize("model", list_models(), ids=lambda model: model.id)
def test_context_windows_are_those_of_the_package(model: ModelInfo) -> None:
    snapshot = get_snapshot()
    provider = {"gemini": "google"}.get(model.provider, model.provider)
    try:
        _, known = snapshot.find_provider_model(model.id, None, provider, None)
    except LookupError:
        assert model.id in UNPRICED
        assert model.input_cost_per_million is None
        return
    if known.context_window is not None:
        # The package rounds some: 1,000,000 for 1,048,576.
        assert model.context_window == pytest.approx(known.context_window, rel=0.05)


def test_the_names_are_those_of_the_providers_sdks() -> None:
    known = {
        name
        for place in ("anthropic.types.model:Model", "openai.types.shared.responses_model:ResponsesModel")
        for name in literals(getattr(import_module(place.partition(":")[0]), place.partition(":")[2]))
    }
    unknown = {model.id for model in list_models() if model.provider != "gemini"} - known
    # The package knows the first two, and the specification names the others.
    assert unknown <= {"gpt-5.3-codex", "gpt-5.1-codex-mini", "gpt-5.2-mini", "gpt-5.2-codex"}


def literals(kind: Any) -> Iterator[str]:
    for argument in get_args(kind):
        if isinstance(argument, str):
            yield argument
        else:
            yield from literals(argument)
