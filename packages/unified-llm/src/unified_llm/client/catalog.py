"""What is known about models (section 2.9). Advice only: a model that is not in here works just as well.

The facts are in `models.json`, each provider's newest and best model first, and are read when first asked for.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import Field
from pydantic_core import from_json

from unified_llm.client.prices import price_of
from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.record import Record
from unified_llm.spec.response import Usage

CAPABILITIES = ("tools", "vision", "reasoning", "effort")

_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")


class ModelInfo(Record):
    """One model. Sizes are in tokens; prices in US dollars per million tokens.

    Prices are the provider's list prices for prompts of ordinary length, without introductory or volume discounts;
    None means unknown. `supports_effort` says that the provider takes a reasoning effort for it. `knowledge_cutoff`
    is a month, such as "2025-08".
    """

    id: str
    provider: str
    display_name: str
    context_window: int
    max_output: int | None = None
    supports_tools: bool
    supports_vision: bool
    supports_reasoning: bool
    supports_effort: bool = False
    input_cost_per_million: float | None = None
    output_cost_per_million: float | None = None
    cache_read_cost_per_million: float | None = None
    cache_write_cost_per_million: float | None = None
    knowledge_cutoff: str | None = None
    aliases: list[str] = Field(default_factory=list)


@cache
def _models() -> tuple[ModelInfo, ...]:
    content: Any = from_json(files("unified_llm.client").joinpath("models.json").read_bytes())
    return tuple(ModelInfo.model_validate(model) for model in content["models"])


@cache
def _by_name() -> dict[str, ModelInfo]:
    aliases = {alias: model for model in _models() for alias in model.aliases}
    return {**aliases, **{model.id: model for model in _models()}}


def get_model_info(model_id: str) -> ModelInfo | None:
    """The entry with that id or alias, or whose dated snapshot it names; None if the model is unknown."""
    return _by_name().get(model_id) or _by_name().get(_SNAPSHOT.sub("", model_id))


def list_models(provider: str | None = None) -> list[ModelInfo]:
    """All models, or a provider's; within a provider the newest and best first."""
    return [model for model in _models() if provider is None or model.provider == provider]


def get_latest_model(provider: str, capability: str | None = None) -> ModelInfo | None:
    """The provider's newest and best model, with the capability if one is named; None if there is none.

    Raises ConfigurationError for a capability other than "tools", "vision", "reasoning" and "effort".
    """
    if capability is not None and capability not in CAPABILITIES:
        raise ConfigurationError(f"capability must be one of {', '.join(CAPABILITIES)}, but is {capability!r}")
    for model in list_models(provider):
        if capability is None or getattr(model, f"supports_{capability}"):
            return model
    return None


def cost_of(usage: Usage, model: str | ModelInfo) -> float | None:
    """What the tokens cost in US dollars at list price; None if the model or its price is unknown.

    A model is given by name or by its facts. A name is priced by the package `genai-prices` where that is installed
    (extra `prices`) and knows it, else by this catalog. Tokens read from or written to a prompt cache count at their
    own price, or at that of input where it is unknown.
    """
    info = get_model_info(model) if isinstance(model, str) else model
    if isinstance(model, str):
        price = price_of(usage, info.id if info else model, info.provider if info else None)
        if price is not None:
            return price
    if info is None or info.input_cost_per_million is None or info.output_cost_per_million is None:
        return None
    cached, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    input_cost = info.input_cost_per_million
    read_cost, write_cost = info.cache_read_cost_per_million, info.cache_write_cost_per_million
    return (
        max(0, usage.input_tokens - cached - written) * input_cost
        + cached * (input_cost if read_cost is None else read_cost)
        + written * (input_cost if write_cost is None else write_cost)
        + usage.output_tokens * info.output_cost_per_million
    ) / 1_000_000
