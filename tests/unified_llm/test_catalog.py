"""The model catalog (section 2.9)."""

import pytest
from unified_llm import ConfigurationError, ModelInfo, get_latest_model, get_model_info, list_models

NAMED_BY_THE_SPECIFICATION = {
    "claude-opus-4-6": "anthropic",
    "claude-sonnet-4-5": "anthropic",
    "gpt-5.2": "openai",
    "gpt-5.2-mini": "openai",
    "gpt-5.2-codex": "openai",
    "gemini-3.1-pro-preview": "gemini",
    "gemini-3-flash-preview": "gemini",
}


@pytest.mark.parametrize(("model_id", "provider"), NAMED_BY_THE_SPECIFICATION.items())
def test_the_specified_models_are_known(model_id: str, provider: str) -> None:
    model = get_model_info(model_id)
    assert model is not None
    assert (model.id, model.provider) == (model_id, provider)
    assert model.supports_tools
    assert model.supports_vision
    assert model.supports_reasoning


def test_an_unknown_model_is_none() -> None:
    assert get_model_info("nonexistent-model-xyz") is None
    assert get_model_info("") is None
    assert list_models("nobody") == []
    assert get_latest_model("nobody") is None


def test_aliases_and_dated_snapshots_lead_to_the_model() -> None:
    sonnet = get_model_info("sonnet")
    assert sonnet is not None
    assert "sonnet" in sonnet.aliases
    for snapshot, model_id in [("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"), ("gpt-4o-2024-08-06", "gpt-4o")]:
        model = get_model_info(snapshot)
        assert model is not None
        assert model.id == model_id


def test_every_name_is_unique() -> None:
    names = [name for model in list_models() for name in (model.id, *model.aliases)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("model", list_models(), ids=lambda model: model.id)
def test_the_facts_are_plausible(model: ModelInfo) -> None:
    assert model.provider in {"anthropic", "openai", "gemini"}
    assert 100_000 <= model.context_window <= 2_000_000
    assert model.max_output is None or model.max_output <= model.context_window
    assert (model.input_cost_per_million is None) == (model.output_cost_per_million is None)
    if model.input_cost_per_million is not None and model.output_cost_per_million is not None:
        assert 0 < model.input_cost_per_million < model.output_cost_per_million
    assert model.supports_reasoning or not model.supports_effort


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
@pytest.mark.parametrize("capability", [None, "tools", "vision", "reasoning", "effort"])
def test_the_latest_model_is_the_first_that_can(provider: str, capability: str | None) -> None:
    model = get_latest_model(provider, capability)
    assert model is not None
    assert model.provider == provider
    assert capability is None or getattr(model, f"supports_{capability}")
    assert model == list_models(provider)[0]


def test_an_unknown_capability_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"capability must be one of tools, vision.*'telepathy'"):
        get_latest_model("openai", "telepathy")
