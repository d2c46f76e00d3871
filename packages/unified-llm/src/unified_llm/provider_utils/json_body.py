"""Request bodies to bytes, answers and events back. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from unified_llm.provider_utils.unicode_text import whole_characters
from unified_llm.spec.errors import ConfigurationError


def encode_json(body: Mapping[str, Any]) -> bytes:
    """`body` as compact UTF-8 JSON. What UTF-8 can't carry (half of a surrogate pair) becomes U+FFFD.

    Dates, sets and records are written as pydantic writes them. Raises ConfigurationError for what JSON can't carry.
    """
    try:
        content = to_json(body)
        # It also writes NaN and infinities, which reading refuses. Both together take half of what `json.dumps` does.
        from_json(content, allow_inf_nan=False)
    except ValueError:
        return _encode_slowly(body)
    return content


def _encode_slowly(body: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request can't be written as JSON: {error}", cause=error) from error
    return whole_characters(text).encode()


def parse_json(content: bytes) -> Any:
    """The JSON value in `content`, or None if it holds none. Bytes that are no text become U+FFFD."""
    try:
        return read_json(content.decode(json.detect_encoding(content), "replace"))
    except (ValueError, RecursionError):
        return None


def read_json(text: str) -> Any:
    """The JSON value in `text`. Half a surrogate pair, which no record could be written with, becomes U+FFFD.

    Raises ValueError for what is no JSON, RecursionError for what is nested too deeply.
    """
    try:
        return from_json(text)
    except ValueError:
        # The standard library takes more (half a surrogate pair, hundreds of levels) and takes three times as long.
        value = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        value = json.loads(whole_characters(json.dumps(value, ensure_ascii=False)))
    return value
