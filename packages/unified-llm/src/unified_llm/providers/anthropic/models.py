"""What a Claude model can do, told from its name. Pure.

The Messages API refuses parameters that a model doesn't have, so they have to be chosen by model. Names follow
a scheme (`claude-sonnet-4-5-20250929`, `claude-3-7-sonnet`, `anthropic.claude-opus-4-6-v1`), and a model newer than
this table is taken to have what the newest one here has.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_VERSION = re.compile(r"claude.*?[-_](\d{1,2})(?:[-.](\d{1,2}))?(?![\d.])")


@dataclass(frozen=True, slots=True)
class ModelFeatures:
    """`thinking`: not at all, with a token budget, or as the model sees fit. `effort`: takes `output_config.effort`.

    `structured_output`: takes `output_config.format`. `sampling`: takes temperature and top_p both, one of them, or
    neither.
    """

    thinking: Literal["none", "budget", "adaptive"]
    effort: bool
    structured_output: bool
    sampling: Literal["both", "one", "none"]


_UNKNOWN = ModelFeatures(thinking="budget", effort=False, structured_output=False, sampling="both")
"""Another vendor's model behind the same protocol."""


@lru_cache(maxsize=256)
def features_of(model: str) -> ModelFeatures:
    """The features of the model with this identifier."""
    name = model.lower()
    if "claude" not in name:
        return _UNKNOWN
    match = _VERSION.search(name)
    version = (int(match[1]), int(match[2] or 0)) if match else (99, 0)
    thinking: Literal["none", "budget", "adaptive"] = "none"
    if version >= (3, 7):
        thinking = "adaptive" if version >= (4, 6) else "budget"
    sampling: Literal["both", "one", "none"] = "both"
    if version >= (4, 1):
        sampling = "none" if version >= (4, 7) else "one"
    return ModelFeatures(
        thinking=thinking,
        effort=version >= (4, 6) or (version == (4, 5) and "opus" in name),
        structured_output=version >= (4, 5),
        sampling=sampling,
    )
