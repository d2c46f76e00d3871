"""JSON values: what a context may hold, and how they are written."""

import json
import math
from collections.abc import Callable
from typing import Any

from attractor.errors import ContextValueError


def _make_encode() -> Callable[[Any], str]:
    """Compact JSON on one line; ValueError for NaN and infinity, which are none."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        # What `encode()` sets up anew at each call, which for small values takes as long as the rest. It looks for no
        # cycles (the first argument): what is written here is a tree.
        kept = make(None, encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    except TypeError:
        return encoder.encode  # Not every Python has it, or has it so.
    return lambda value: "".join(kept(value, 0))


_encode = _make_encode()


def encode_json(value: Any) -> str:
    """Compact JSON on one line."""
    return int.__repr__(value) if type(value) is int else _encode(value)


def to_bytes(text: str) -> bytes:
    """UTF-8; half of a surrogate pair, which a model or a file name may contain, survives the way to disk and back."""
    return text.encode("utf-8", "surrogatepass")


MAX_NESTING = 100
"""Levels of lists and dicts in a value; more could not be copied and written everywhere."""
_LARGEST_INT = 10**4300
"""Python refuses to write a whole number with more digits."""


def to_json_value(value: Any, key: str, levels: int = MAX_NESTING) -> Any:
    """A copy that consists of None, bool, int, float, str, list and dict alone, no more than `levels` deep.

    Tuples become lists, enums of text their value. Raises ContextValueError, naming `key`, for anything else.
    """
    match value:
        case None | bool():
            return value
        case str():
            return value if type(value) is str else str.__str__(value)
        case int() if -_LARGEST_INT < value < _LARGEST_INT:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case list() | tuple() | dict() if levels == 0:
            raise ContextValueError(f"context key {key[:60]}...: the value is nested more than {MAX_NESTING} deep")
        case list() | tuple():
            return [to_json_value(item, f"{key}[{index}]", levels - 1) for index, item in enumerate(value)]
        case dict():
            return {
                _text_key(name, key): to_json_value(item, f"{key}.{name}", levels - 1) for name, item in value.items()
            }
        case _:
            shown = repr(value) if isinstance(value, float) else f"of type {type(value).__name__}"
            if isinstance(value, int):
                shown = "of more than 4300 digits"
            raise ContextValueError(
                f"context key {key!r}: the value {shown} is not JSON; store text, numbers, lists or dicts"
            )


def copy_json(value: Any) -> Any:
    """A copy of what `to_json_value()` gave, several times faster than `copy.deepcopy()`."""
    if type(value) is dict:
        return {key: copy_json(item) if type(item) in (dict, list) else item for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) if type(item) in (dict, list) else item for item in value]
    return value


def _text_key(name: Any, key: str) -> str:
    if not isinstance(name, str):
        raise ContextValueError(f"context key {key!r}: the dict key {name!r} is not text, which JSON requires")
    return str(name)
