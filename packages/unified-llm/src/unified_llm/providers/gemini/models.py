"""What a Gemini model can do, told from its name. Pure.

The API refuses settings that a model doesn't have, so they have to be chosen by model. A name that tells no version
(`gemini-flash-latest`) is taken to be of the newest.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class ModelFeatures:
    """`thinking`: not at all, with a token budget, or at a level; `thinking_off`: can do without.

    `signed_calls`: takes a history with tool calls only if they are signed. `schema_with_tools`: takes a response
    schema beside tools. `media_results`: takes images within tool results.
    """

    thinking: Literal["none", "budget", "level"]
    thinking_off: bool
    signed_calls: bool
    schema_with_tools: bool
    media_results: bool


@lru_cache(maxsize=256)
def features_of(model: str) -> ModelFeatures:
    """The features of the model with this identifier."""
    name = model.lower()
    match = _VERSION.search(name)
    version = (int(match[1]), int(match[2] or 0)) if match else (99, 0)
    third = version >= (3, 0)
    thinking: Literal["none", "budget", "level"] = "none"
    if version >= (2, 5):
        thinking = "level" if third else "budget"
    return ModelFeatures(
        thinking=thinking,
        thinking_off="pro" not in name,
        signed_calls=third,
        schema_with_tools=third,
        media_results=third,
    )
