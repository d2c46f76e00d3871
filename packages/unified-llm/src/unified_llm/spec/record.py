"""The base of every record that is data on the public surface."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError


class Record(BaseModel):
    """Immutable, validated, and serialisable to JSON and back without loss (bytes travel as base64).

    An unknown field is an error that names the field, never silently dropped.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_bytes="base64",
        val_json_bytes="base64",
        defer_build=True,
    )

    def model_dump_json(self, **options: Any) -> str:
        """The record as JSON. Half a surrogate pair, such as stands in names of files, becomes U+FFFD."""
        try:
            return super().model_dump_json(**options)
        except PydanticSerializationError:
            indent, ascii_only = options.pop("indent", None), options.pop("ensure_ascii", False)
            separators = (",", ":") if indent is None else (",", ": ")
            text = json.dumps(self.model_dump(mode="json", **options), ensure_ascii=False)
            whole = json.loads(whole_characters(text))
            return json.dumps(whole, ensure_ascii=ascii_only, indent=indent, separators=separators)


def whole_characters(text: str) -> str:
    """`text` with every half of a surrogate pair replaced by U+FFFD: JSON's escapes can express it, UTF-8 can't."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
