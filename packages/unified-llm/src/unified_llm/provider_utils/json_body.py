"""Request bodies to bytes and answers back. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from unified_llm.spec.errors import ConfigurationError


def encode_json(body: Mapping[str, Any]) -> bytes:
    """`body` as compact UTF-8 JSON. What UTF-8 can't carry (half of a surrogate pair) becomes U+FFFD.

    Raises ConfigurationError for what JSON can't carry.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request can't be written as JSON: {error}", cause=error) from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def parse_json(content: bytes) -> Any:
    """The JSON value in `content`, or None if it holds none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
