"""Request -> the JSON body of `POST /responses` (section 7). Pure but for reading local media files."""

import re
from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.history import repair_history
from unified_llm.provider_utils.provider_options import own_options
from unified_llm.providers.openai.message import MessageTranslator
from unified_llm.providers.openai.models import features_of
from unified_llm.spec.errors import InvalidRequestError
from unified_llm.spec.request import Request, ResponseFormat
from unified_llm.spec.response import Warning
from unified_llm.spec.tools import Tool, ToolChoice

_Json = dict[str, Any]

_ENCRYPTED_REASONING = "reasoning.encrypted_content"


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What goes over the wire, and what could not be carried."""

    body: _Json
    headers: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()


def build_request(request: Request, *, provider: str = "openai", stream: bool = False) -> WireRequest:
    """Translate `request`.

    Nothing is stored at the provider, and reasoning comes back encrypted to be sent again: `store` is false and
    `include` has `reasoning.encrypted_content`, unless `provider_options[provider]` says otherwise (`store` true, or an
    empty `include`). Those options may hold `extra_headers` and any field of the body: `tools` and `include` are added
    to the request's own, `text` and `reasoning` are merged, everything else overrides. With `previous_response_id` or
    `conversation` the messages go on from what the provider has stored. Raises InvalidRequestError for what the
    protocol can't carry and the request can't do without.
    """
    options = own_options(request, provider)
    headers = dict(options.pop("extra_headers", None) or {})
    store = bool(options.setdefault("store", False))
    warnings: list[Warning] = []
    history = request.messages
    if not (options.get("previous_response_id") or options.get("conversation")):
        # Otherwise the calls that results belong to are where we can't see them.
        history, repairs = repair_history(request.messages)
        warnings.extend(repairs)
    instructions, items = MessageTranslator(provider, warnings).translate(history)
    if not items and not options.keys() & {"previous_response_id", "conversation", "prompt", "input"}:
        raise InvalidRequestError("the Responses API needs at least one message that is no system message")

    body: _Json = {"model": request.model}
    if instructions is not None:
        body["instructions"] = instructions
    body["input"] = items
    _add_tools(body, request, options)
    _add_include(body, options, reasons=features_of(request.model).reasons and not store)
    _add_settings(body, request, options, warnings)
    if stream:
        body["stream"] = True
    body.update(options)
    return WireRequest(body, headers, tuple(warnings))


def _add_tools(body: _Json, request: Request, options: _Json) -> None:
    tools = [*(_tool(tool) for tool in request.tools or ()), *(options.pop("tools", None) or ())]
    choice = request.tool_choice
    if tools:
        body["tools"] = tools
        if choice is not None:
            body["tool_choice"] = _tool_choice(choice)
    elif choice is not None and choice.mode in ("required", "named"):
        raise InvalidRequestError(f"tool_choice {choice.mode!r} needs tools, and the request has none")


def _tool(tool: Tool) -> _Json:
    # Strict is the default here, and changes the schema: optional arguments become required ones.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _tool_choice(choice: ToolChoice) -> str | _Json:
    if choice.mode == "named":
        return {"type": "function", "name": choice.tool_name}
    return choice.mode


def _add_include(body: _Json, options: _Json, *, reasons: bool) -> None:
    wanted = options.pop("include", ()) if "include" in options else None
    if wanted is not None and not wanted:
        return
    # A model that doesn't reason refuses to be asked for it.
    include = [*([_ENCRYPTED_REASONING] if reasons else ()), *(wanted or ())]
    if include:
        body["include"] = list(dict.fromkeys(include))


def _add_settings(body: _Json, request: Request, options: _Json, warnings: list[Warning]) -> None:
    text = {**_text_format(request.response_format), **(options.pop("text", None) or {})}
    effort = {} if request.reasoning_effort is None else {"effort": request.reasoning_effort}
    reasoning = {**effort, **(options.pop("reasoning", None) or {})}
    settings: _Json = {
        "text": text or None,
        "reasoning": reasoning or None,
        "max_output_tokens": request.max_tokens,
        "metadata": request.metadata or None,
        **_sampling(request, reasoning.get("effort"), warnings),
    }
    body.update({key: value for key, value in settings.items() if value is not None})
    if request.stop_sequences:
        warnings.append(_dropped("stop sequences are not part of the Responses API", "stop_dropped"))


def _sampling(request: Request, effort: str | None, warnings: list[Warning]) -> _Json:
    settings = {"temperature": request.temperature, "top_p": request.top_p}
    sampling = features_of(request.model).sampling
    if sampling == "always" or (sampling == "without_effort" and effort in (None, "none")):
        return settings
    warnings.extend(
        _dropped(f"{request.model} takes no {name} when it reasons", f"{name}_dropped")
        for name, value in settings.items()
        if value is not None
    )
    return {}


def _text_format(response_format: ResponseFormat | None) -> _Json:
    if response_format is None or response_format.type == "text":
        return {}
    if response_format.json_schema is None:
        return {"format": {"type": "json_object"}}
    title = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(response_format.json_schema.get("title", "")))[:64]
    schema = {
        "type": "json_schema",
        "name": title.strip("_") or "response",
        "schema": response_format.json_schema,
        "strict": response_format.strict,
    }
    return {"format": schema}


def _dropped(reason: str, code: str) -> Warning:
    return Warning(message=f"{reason}; it was left out", code=code)
