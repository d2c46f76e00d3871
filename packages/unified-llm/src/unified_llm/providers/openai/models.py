"""What an OpenAI model takes, told from its name. Pure.

The API refuses parameters that a model doesn't have, so they have to be chosen by model. A name that is not OpenAI's,
or newer than this table, is taken to have what the newest model has.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_VERSION = re.compile(r"(gpt-|o)(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class ModelFeatures:
    """`reasons`: has reasoning that can be asked for. `sampling`: when it takes temperature and top_p."""

    reasons: bool
    sampling: Literal["always", "without_effort", "never"]


_PLAIN = ModelFeatures(reasons=False, sampling="always")
_UNKNOWN = ModelFeatures(reasons=True, sampling="always")


@lru_cache(maxsize=256)
def features_of(model: str) -> ModelFeatures:
    """The features of the model with this identifier."""
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    if name.startswith(("chatgpt-", "gpt-3", "gpt-4", "gpt-5-chat")):
        return _PLAIN
    match = _VERSION.match(name)
    if match is None:
        return _UNKNOWN
    family, major, minor = match.groups()
    if family == "o" or (major == "5" and minor is None):
        return ModelFeatures(reasons=True, sampling="never")
    return ModelFeatures(reasons=True, sampling="without_effort")
