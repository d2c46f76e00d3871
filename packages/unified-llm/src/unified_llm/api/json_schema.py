"""Checking values against JSON Schemas."""

from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

# jsonschema takes longer to import than the rest of this library, and most calls need no validation: it is imported
# inside the functions.


def check_schema(schema: dict[str, Any]) -> str | None:
    """What is wrong with the schema itself; None if nothing is."""
    try:
        validator = _validator(to_json(schema))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return validator if isinstance(validator, str) else None


def check_value(value: Any, schema: dict[str, Any]) -> str | None:
    """What is wrong with the value, up to five faults with their places; None if it conforms.

    References are resolved within the schema only, never fetched.
    """
    from referencing.exceptions import Unresolvable

    validator = _validator(to_json(schema))
    if isinstance(validator, str):
        return f"the schema itself is not valid, {validator}"
    try:
        faults = sorted(validator.iter_errors(value), key=lambda fault: fault.json_path)
    except Unresolvable as error:
        return f"the schema refers to {error.ref!r}, which it doesn't contain"
    except RecursionError:
        return "the schema refers to itself without end, or the value is nested too deeply"
    if not faults:
        return None
    told = "; ".join(f"at {fault.json_path}: {fault.message}" for fault in faults[:5])
    return told if len(faults) <= 5 else f"{told}; and {len(faults) - 5} more"


@lru_cache(maxsize=128)
def _validator(schema: bytes) -> Any:
    """A validator for the schema's JSON, or a sentence about what is wrong with it."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    parsed = from_json(schema)
    validator_class = validator_for(parsed, default=Draft202012Validator)
    try:
        validator_class.check_schema(parsed)
    except SchemaError as error:
        return f"at {error.json_path}: {error.message}"
    return validator_class(parsed, registry=EMPTY_REGISTRY)
