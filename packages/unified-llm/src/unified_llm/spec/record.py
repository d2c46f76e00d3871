"""The base of every record that is data on the public surface."""

from pydantic import BaseModel, ConfigDict


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
