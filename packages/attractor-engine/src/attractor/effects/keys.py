"""Names for work: the same work has the same name, whoever computes it, wherever, whenever.

A name is the SHA-256, in hexadecimal, of canonical JSON: keys of objects sorted by code point, no spaces, every
character as itself in UTF-8, numbers as Python writes them (so 1 and 1.0 differ), tuples as lists. NaN and infinity
have no form, and neither has what isn't JSON.
"""

import json
from hashlib import sha256
from typing import Any

from attractor.errors import ContextValueError
from attractor.state.json_values import to_bytes, to_json_value


def to_canonical_json(value: Any) -> bytes:
    """The one form of a value; raises ValueError for what is not JSON."""
    try:
        plain = to_json_value(value, "key")
    except ContextValueError as error:
        raise ValueError(f"a key is made of JSON values only: {error}") from error
    return to_bytes(json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")))


def artifact_key(*parts: Any) -> str:
    """The name of a result by all that it is made from. Several parts count as a list of them. Raises ValueError."""
    return sha256(to_canonical_json(parts[0] if len(parts) == 1 else parts)).hexdigest()


def effect_key(*parts: Any) -> str:
    """The name of an effect by what tells it from any other, such as `effect_key("charge", order_id)`.

    Leave out what differs between two attempts at the same effect: times, random numbers, numbers of attempts.
    Several parts count as a list of them. Raises ValueError.
    """
    return artifact_key(*parts)
