"""Request -> the JSON body of `POST /v1beta/models/{model}:generateContent` (section 7).

Pure but for reading local media files. A streamed call has the same body.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.history import repair_history
from unified_llm.provider_utils.provider_options import own_options
from unified_llm.providers.gemini.message import MessageTranslator
from unified_llm.providers.gemini.models import features_of
from unified_llm.providers.gemini.reasoning import plan_thinking
from unified_llm.providers.gemini.schema import resolve_references
from unified_llm.spec.errors import InvalidRequestError
from unified_llm.spec.request import Request, ResponseFormat
from unified_llm.spec.response import Warning
from unified_llm.spec.tools import Tool, ToolChoice

_Json = dict[str, Any]

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# What the API refuses beside `cachedContent`, which has all of it already.
_CACHED = ("systemInstruction", "tools", "toolConfig")


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What goes over the wire, and what could not be carried."""

    body: _Json
    headers: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()


def build_request(request: Request, *, provider: str = "gemini") -> WireRequest:
    """Translate `request`.

    `provider_options[provider]` may hold `extra_headers` and any field of the body, such as `safetySettings` and
    `cachedContent`: `tools` (`{"googleSearch": {}}`) are added to the request's own, `generationConfig` and
    `toolConfig` are merged, everything else overrides. `thinkingConfig` may stand there by itself, and wins over
    `reasoning_effort`. Raises InvalidRequestError for what the protocol can't carry and the request can't do without.
    """
    history, repairs = repair_history(request.messages)
    warnings = list(repairs)
    options = own_options(request, provider)
    headers = dict(options.pop("extra_headers", None) or {})
    features = features_of(request.model)

    instructions, contents = MessageTranslator(provider, warnings, features).translate(history)
    if not contents:
        raise InvalidRequestError("the Gemini API needs at least one message that is no system message")
    body: _Json = {"contents": contents}
    _add_tools(body, request, options)
    config = _generation_config(request, options, warnings)
    if features.schema_with_tools or "tools" not in body:
        config = {**_response_format(request.response_format), **config}
    elif (wish := _spoken_format(request.response_format)) is not None:
        instructions.append({"text": wish})
    if config:
        body["generationConfig"] = config
    if instructions:
        body["systemInstruction"] = {"parts": instructions}
    if request.metadata:
        warnings.append(_dropped("metadata is not part of the Gemini API", "metadata_dropped"))
    body.update(options)
    if body.get("cachedContent") or body.get("cached_content"):
        warnings.extend(
            _dropped(f"{name} can't go with cachedContent, which has its own", "cached_content")
            for name in _CACHED
            if body.pop(name, None)
        )
    return WireRequest(body, headers, tuple(warnings))


def _add_tools(body: _Json, request: Request, options: _Json) -> None:
    declarations = [_declaration(tool) for tool in request.tools or ()]
    tools = [{"functionDeclarations": declarations}] if declarations else []
    tools.extend(options.pop("tools", None) or ())
    choice = request.tool_choice
    config = dict(_option(options, "toolConfig", "tool_config"))
    if choice is not None and (declarations or choice.mode in ("required", "named")):
        if not declarations:
            raise InvalidRequestError(f"tool_choice {choice.mode!r} needs tools, and the request has none")
        config = {"functionCallingConfig": _calling_config(choice), **config}
    if tools:
        body["tools"] = tools
    if config:
        body["toolConfig"] = config


def _declaration(tool: Tool) -> _Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": resolve_references(tool.parameters),
    }


def _calling_config(choice: ToolChoice) -> _Json:
    if choice.mode == "named":
        return {"mode": "ANY", "allowedFunctionNames": [choice.tool_name]}
    return {"mode": _MODES[choice.mode]}


def _generation_config(request: Request, options: _Json, warnings: list[Warning]) -> _Json:
    given = _option(options, "generationConfig", "generation_config")
    thinking = _option(options, "thinkingConfig", "thinking_config") or None
    if thinking is None and not given.keys() & {"thinkingConfig", "thinking_config"}:
        thinking = plan_thinking(request, warnings)
    settings: _Json = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": request.stop_sequences or None,
        "thinkingConfig": thinking,
    }
    return {**{key: value for key, value in settings.items() if value is not None}, **given}


def _response_format(wanted: ResponseFormat | None) -> _Json:
    if wanted is None or wanted.type == "text":
        return {}
    if wanted.json_schema is None:
        return {"responseMimeType": "application/json"}
    return {"responseMimeType": "application/json", "responseJsonSchema": resolve_references(wanted.json_schema)}


def _spoken_format(wanted: ResponseFormat | None) -> str | None:
    """The same as instructions, for models that take no response format beside tools."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.json_schema is None:
        return "Give the final answer as one JSON object and nothing else: no explanation and no code fence."
    return (
        "Give the final answer as JSON that is valid against this JSON Schema and as nothing else, no explanation and "
        f"no code fence:\n{json.dumps(wanted.json_schema, ensure_ascii=False)}"
    )


def _option(options: _Json, *names: str) -> _Json:
    """The value of the first option that is there, under either way of writing its name; taken out of the options."""
    found = [options.pop(name, None) for name in names]
    return next((value for value in found if isinstance(value, dict)), {})


def _dropped(reason: str, code: str) -> Warning:
    return Warning(message=f"{reason}; it was left out", code=code)
