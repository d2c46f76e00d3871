"""Whole JSON values of the types with which the providers' own SDKs describe what a server sends.

`samples_of(kind)` has every member of a union, each with all of its fields set, and texts that can be told apart.
"""

import datetime
import enum
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic

_DEPTH = 7
# Texts whose form matters.
_TEXTS = {"jsonPath": "$.key", "mimeType": "image/png", "arguments": '{"key": 1}', "id": "an_id", "call_id": "a_call"}


def members_of(kind: Any) -> list[Any]:
    """The members of a union, in the SDK's order; anything else is its own only member."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if (meant := getattr(kind, "__value__", None)) is not None:  # a named alias
        return members_of(meant)
    if get_origin(kind) in (Union, types.UnionType):
        return [member for part in get_args(kind) for member in members_of(part) if member is not type(None)]
    return [kind]


def tag_of(kind: type[pydantic.BaseModel]) -> str:
    """The value of the field `type` by which a union's member is known."""
    return str(get_args(kind.model_fields["type"].annotation)[0])


def samples_of(kind: Any) -> Iterator[tuple[str, Any]]:
    """A name and a value for each member of a union."""
    for member in members_of(kind):
        yield member.__name__, sample_of(member)


def sample_of(kind: Any, path: str = "", depth: int = 0) -> Any:
    """A value of a type: every field set, every list with a member, the first of several possible types."""
    kind = getattr(kind, "__value__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return sample_of(arguments[0], path, depth)
    if origin in (Union, types.UnionType):
        real = [member for member in members_of(kind) if depth < _DEPTH or not _is_model(member)]
        return sample_of(real[0], path, depth) if real else None
    if origin is Literal:
        return arguments[0]
    if origin in (list, typing.List):  # noqa: UP006
        return [] if depth >= _DEPTH else [sample_of(arguments[0], f"{path}[0]", depth + 1)]
    if origin in (dict, typing.Dict):  # noqa: UP006
        return {"key": sample_of(arguments[1], f"{path}.key", depth + 1)}
    if _is_model(kind):
        return _object(kind, path, depth)
    return _scalar(kind, path)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _object(kind: type[pydantic.BaseModel], path: str, depth: int) -> dict[str, Any]:
    made = {}
    for name, field in kind.model_fields.items():
        wire = field.alias or name
        value = sample_of(field.annotation, f"{path}.{wire}", depth + 1) if depth < _DEPTH else None
        if value is not None:
            made[wire] = value
    return made


def _scalar(kind: Any, path: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    if kind is bool:
        return True
    if kind is int:
        return 1
    if kind is float:
        return 0.5
    if kind is bytes:
        return "c2FtcGxl"
    if kind in (datetime.datetime, datetime.date):
        return "2026-01-01T00:00:00Z"
    if kind in (object, Any):
        return {"any": path}
    return _TEXTS.get(path.rpartition(".")[2], f"text of {path.lstrip('.')}")
