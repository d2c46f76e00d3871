"""The base of every record that is data on the public surface."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError, to_json


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
            written = {name: options.pop(name) for name in ("indent", "ensure_ascii") if name in options}
            whole = _with_whole_characters(self.model_dump(**options))
            return to_json(whole, bytes_mode="base64", inf_nan_mode="null", **written).decode()


def _with_whole_characters(value: Any) -> Any:
    match value:
        case str():
            return whole_characters(value)
        case dict():
            return {_with_whole_characters(key): _with_whole_characters(item) for key, item in value.items()}
        case list() | tuple():
            return [_with_whole_characters(item) for item in value]
    return value


def whole_characters(text: str) -> str:
    """`text` with every half of a surrogate pair replaced by U+FFFD: JSON's escapes can express it, UTF-8 can't."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
