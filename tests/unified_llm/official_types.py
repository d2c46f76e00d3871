"""What the providers' own SDKs take for a valid request. Importing them takes seconds, so each is imported when asked.

`problems_of(provider, body)` lists what is wrong with a JSON body, one line each: missing fields, unknown fields,
values of the wrong type, at any depth.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import httpx
import pydantic
from typing_extensions import get_type_hints, is_typeddict

_TYPED_DICTS = {
    "openai": "openai.types.responses.response_create_params:ResponseCreateParams",
    "openai_compatible": "openai.types.chat.completion_create_params:CompletionCreateParams",
    "anthropic": "anthropic.types.message_create_params:MessageCreateParams",
    "anthropic_beta": "anthropic.types.beta.message_create_params:MessageCreateParams",
}
# Sampling is no longer among the SDK's types, since the newest models do without it; older ones still take it.
_NOT_IN_TYPES = {"anthropic": ("temperature", "top_p", "top_k"), "anthropic_beta": ("temperature", "top_p", "top_k")}
_SCALARS: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    object: (object,),
}


def problems_of(provider: str, body: dict[str, Any]) -> list[str]:
    """What the provider's SDK would not take. `anthropic_beta` is Anthropic's API with its beta features."""
    return _checker(provider)(body)


@cache
def _checker(provider: str) -> Callable[[dict[str, Any]], list[str]]:
    if provider == "gemini":
        return _gemini_checker()
    module, _, name = _TYPED_DICTS[provider].partition(":")
    base = getattr(import_module(module), name)
    known = _NOT_IN_TYPES.get(provider, ())
    return lambda body: typing_problems({name: body[name] for name in body if name not in known}, base)


def typing_problems(value: Any, expected: Any, path: str = "$") -> list[str]:
    """Where a JSON value departs from a type: typed dictionaries are closed, and nothing is converted.

    What only Python can hold (files, models) is never valid.
    """
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Any:
        return []
    if origin in (Annotated, Required, NotRequired):
        return typing_problems(value, arguments[0], path)
    if origin in (Union, UnionType):
        return _union_problems(value, arguments, path)
    if origin is Literal:
        fits = any(type(value) is type(choice) and value == choice for choice in arguments)
        return [] if fits else [f"{path}: {value!r} is none of {list(arguments)}"]
    if is_typeddict(expected):
        return _dict_problems(value, expected, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no object"]
        return [line for key in value for line in typing_problems(value[key], arguments[1], f"{path}.{key}")]
    if origin in (list, Iterable, Sequence):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [
            line for index, item in enumerate(value) for line in typing_problems(item, arguments[0], f"{path}[{index}]")
        ]
    accepted = (NoneType,) if expected in (None, NoneType) else _SCALARS.get(expected, ())
    fits = isinstance(value, accepted) and (not isinstance(value, bool) or bool in accepted or object in accepted)
    return [] if fits else [f"{path}: {value!r} is no {getattr(expected, '__name__', expected)}"]


def _union_problems(value: Any, members: Sequence[Any], path: str) -> list[str]:
    """Those of the member that comes closest: of the kind that the value says it is, and with the fewest problems."""
    tried = [typing_problems(value, member, path) for member in members]
    tags = tuple(f"{path}.{name}:" for name in ("type", "role"))
    return min(tried, key=lambda lines: (any(line.startswith((*tags, f"{path}: ")) for line in lines), len(lines)))


def _dict_problems(value: Any, expected: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no object"]
    hints = _hints(expected)
    unknown = [] if getattr(expected, "__extra_items__", None) is object else sorted(value.keys() - hints.keys())
    return [
        *(f"{path}.{name}: is missing" for name in sorted(_required(expected) - value.keys())),
        *(f"{path}.{name}: is unknown" for name in unknown),
        *(
            line
            for name, hint in hints.items()
            if name in value
            for line in typing_problems(value[name], hint, f"{path}.{name}")
        ),
    ]


@cache
def _hints(typed_dict: Any) -> dict[str, Any]:
    return get_type_hints(typed_dict, include_extras=True)


@cache
def _required(typed_dict: Any) -> frozenset[str]:
    # Annotations that are kept as text hide from `__required_keys__` what they say of single fields.
    return frozenset(
        name
        for name, hint in _hints(typed_dict).items()
        if get_origin(hint) is Required
        or (name in typed_dict.__required_keys__ and get_origin(hint) is not NotRequired)
    )


def _gemini_checker() -> Callable[[dict[str, Any]], list[str]]:
    genai, types = import_module("google.genai"), import_module("google.genai.types")
    optional = {
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "safetySettings": list[types.SafetySetting],
        "generationConfig": types.GenerationConfig,
        "cachedContent": str,
    }
    fields: dict[str, Any] = {name: (kind | None, None) for name, kind in optional.items()}
    forbid = pydantic.ConfigDict(extra="forbid")
    model = pydantic.create_model("Body", __config__=forbid, contents=(list[types.Content], ...), **fields)
    answers = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, json={})))
    client = genai.Client(api_key="key", http_options=types.HttpOptions(httpx_client=answers))

    def check(body: dict[str, Any]) -> list[str]:
        try:
            parsed = model.model_validate_json(json.dumps(body))
            config = {**body.get("generationConfig", {}), **{name: body[name] for name in body if name in optional}}
            config.pop("generationConfig", None)
            client.models.generate_content(
                model="gemini",
                contents=parsed.contents,  # type: ignore[attr-defined]
                config=types.GenerateContentConfig.model_validate_json(json.dumps(config)),
            )
        except pydantic.ValidationError as error:
            return [f"$.{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in error.errors()]
        except ValueError as error:  # what only another API of Google's takes
            return [str(error)]
        return []

    return check
