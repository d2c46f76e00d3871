"""JSON Schema as `output_config.format` takes it: closed objects, no constraints on values. Pure."""

from typing import Any

_Json = dict[str, Any]

# Keywords that travel as they are.
_KEPT = frozenset(
    {"type", "title", "description", "enum", "const", "default", "format", "required", "$ref", "$schema", "$id"}
)
# Keywords whose value is a schema, a list of schemas, or schemas by name.
_LISTS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_MAPS = ("properties", "$defs", "definitions")
# Constraints that go into the description instead, where the model reads them and a validator can check them after.
_SPOKEN = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "examples",
)  # fmt: skip


class _Inexpressible(Exception):
    pass


def close_schema(schema: _Json) -> _Json | None:
    """The schema as Anthropic's native structured output accepts it, or None where that would change its meaning.

    Objects are closed, constraints move into descriptions, `oneOf` becomes `anyOf`. Maps with free keys, recursive
    schemas, `not`, conditionals and the like can't be expressed.
    """
    if _is_recursive(schema):
        return None
    try:
        return _close(schema)
    except _Inexpressible:
        return None


def _close(schema: Any) -> _Json:
    if not isinstance(schema, dict):
        raise _Inexpressible
    closed: _Json = {}
    spoken = []
    for key, value in schema.items():
        if key in _KEPT:
            closed[key] = value
        elif key == "items":
            closed[key] = _close(value)
        elif key in _LISTS:
            closed[_LISTS[key]] = [_close(item) for item in value]
        elif key in _MAPS:
            closed[key] = {name: _close(item) for name, item in value.items()}
        elif key in _SPOKEN:
            spoken.append(f"{key}: {value}")
        elif key != "additionalProperties":
            raise _Inexpressible
    if spoken:
        closed["description"] = " ".join(filter(None, [closed.get("description"), f"({', '.join(spoken)})"]))
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema:
        _close_object(schema, closed)
    return closed


def _close_object(schema: _Json, closed: _Json) -> None:
    extra = schema.get("additionalProperties", True)
    if isinstance(extra, dict) or (extra and not schema.get("properties")):
        raise _Inexpressible
    closed["additionalProperties"] = False


def _is_recursive(schema: _Json) -> bool:
    definitions = {
        f"#/{group}/{name}": definition
        for group in ("$defs", "definitions")
        for name, definition in (schema.get(group) or {}).items()
    }
    graph = {name: _references(definition) for name, definition in definitions.items()}
    graph["#"] = _references({key: value for key, value in schema.items() if key not in ("$defs", "definitions")})

    def reaches_itself(name: str, path: frozenset[str]) -> bool:
        return name in path or any(reaches_itself(target, path | {name}) for target in graph.get(name, ()))

    return reaches_itself("#", frozenset())


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*(_references(item) for item in schema))
    if not isinstance(schema, dict):
        return set()
    found = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return found.union(*(_references(value) for value in schema.values()))
