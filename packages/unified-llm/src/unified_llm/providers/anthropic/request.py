"""Request -> the JSON body of `POST /v1/messages` (section 7). Pure but for reading local media files."""

from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.history import repair_history
from unified_llm.provider_utils.provider_options import own_options
from unified_llm.providers.anthropic.caching import count_breakpoints, mark_breakpoints
from unified_llm.providers.anthropic.message import MessageTranslator
from unified_llm.providers.anthropic.models import ModelFeatures, features_of
from unified_llm.providers.anthropic.reasoning import plan_reasoning
from unified_llm.providers.anthropic.structured import plan_answer
from unified_llm.spec.errors import ConfigurationError, InvalidRequestError
from unified_llm.spec.request import Request
from unified_llm.spec.response import Warning
from unified_llm.spec.tools import Tool, ToolChoice

DEFAULT_MAX_TOKENS = 4096
CACHING_BETA = "prompt-caching-2024-07-31"

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What goes over the wire, and what could not be carried.

    `answer_tool` is the name of a tool that stands for the structured answer: its input is the answer's text.
    """

    body: _Json
    headers: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    answer_tool: str | None = None


def build_request(request: Request, *, provider: str = "anthropic", stream: bool = False) -> WireRequest:
    """Translate `request`.

    `provider_options[provider]` may hold `beta_headers` (a list), `extra_headers`, `auto_cache` (False leaves out
    automatic cache breakpoints), and any field of the body: `tools` are added to the request's own, `output_config`
    is merged, everything else overrides. Raises InvalidRequestError for what the protocol can't carry and the request
    can't do without.
    """
    history, repairs = repair_history(request.messages)
    warnings = list(repairs)
    options = own_options(request, provider)
    headers = dict(options.pop("extra_headers", None) or {})
    betas = _names(options.pop("beta_headers", None))
    auto_cache = options.pop("auto_cache", True)
    features = features_of(request.model)

    system, turns = MessageTranslator(provider, warnings).translate(history)
    if not turns:
        raise InvalidRequestError("the Messages API needs at least one message of the user's")
    body: _Json = {"model": request.model, "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS}
    if system:
        body["system"] = system
    body["messages"] = turns
    _add_tools(body, request, options.pop("tools", None))
    answer_tool = plan_answer(body, request, features, thinking=_thinks(options.get("thinking")))
    plan_reasoning(body, request, features, options, warnings)
    _add_settings(body, request, features, {**body, **options}, warnings)
    if stream:
        body["stream"] = True
    body.update(_merged(body, options))
    if mark_breakpoints(body) if auto_cache else count_breakpoints(body):
        betas = [CACHING_BETA, *betas]
    if betas:
        headers["anthropic-beta"] = ",".join(dict.fromkeys(betas))
    return WireRequest(body, headers, tuple(warnings), answer_tool)


def _names(value: Any) -> list[str]:
    names = value.split(",") if isinstance(value, str) else value or ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"beta_headers must be a list of names, but is {value!r:.100}")
    return [name.strip() for name in names if name.strip()]


def _add_tools(body: _Json, request: Request, more: list[_Json] | None) -> None:
    tools = [*(_tool(tool) for tool in request.tools or ()), *(more or ())]
    choice = request.tool_choice
    if choice is not None and choice.mode == "none":
        # A history with tool calls is refused without their definitions; otherwise none are needed.
        if tools and _mentions_tools(body["messages"]):
            body["tools"], body["tool_choice"] = tools, {"type": "none"}
        return
    if tools:
        body["tools"] = tools
        if choice is not None:
            body["tool_choice"] = _tool_choice(choice)
    elif choice is not None and choice.mode != "auto":
        raise InvalidRequestError(f"tool_choice {choice.mode!r} needs tools, and the request has none")


def _tool(tool: Tool) -> _Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _tool_choice(choice: ToolChoice) -> _Json:
    match choice.mode:
        case "named":
            return {"type": "tool", "name": choice.tool_name}
        case "required":
            return {"type": "any"}
        case mode:
            return {"type": mode}


def _mentions_tools(turns: list[_Json]) -> bool:
    return any(block["type"] in ("tool_use", "tool_result") for turn in turns for block in turn["content"])


def _thinks(thinking: Any) -> bool:
    return isinstance(thinking, dict) and thinking.get("type") != "disabled"


def _add_settings(
    body: _Json, request: Request, features: ModelFeatures, effective: _Json, warnings: list[Warning]
) -> None:
    _add_sampling(body, request, features, _thinks(effective.get("thinking")), warnings)
    if request.stop_sequences:
        stops = [stop for stop in request.stop_sequences if stop.strip()]
        if len(stops) < len(request.stop_sequences):
            warnings.append(_dropped("stop sequences of nothing but white space", "stop_dropped"))
        if stops:
            body["stop_sequences"] = stops
    if request.metadata:
        if "user_id" in request.metadata:
            body["metadata"] = {"user_id": request.metadata["user_id"]}
        if set(request.metadata) - {"user_id"}:
            warnings.append(_dropped("metadata other than user_id", "metadata_dropped"))


def _add_sampling(
    body: _Json, request: Request, features: ModelFeatures, thinking: bool, warnings: list[Warning]
) -> None:
    temperature, top_p = request.temperature, request.top_p
    if temperature is not None and (features.sampling == "none" or (thinking and temperature != 1)):
        warnings.append(_dropped(f"temperature, by {request.model} as it is used here,", "temperature_dropped"))
        temperature = None
    if temperature is not None and temperature > 1:
        warnings.append(Warning(message="temperature was lowered to 1, the highest", code="temperature_lowered"))
        temperature = 1.0
    if top_p is not None and (
        features.sampling == "none"
        or (thinking and top_p < 0.95)
        or (temperature is not None and features.sampling == "one")
    ):
        warnings.append(_dropped(f"top_p, by {request.model} as it is used here,", "top_p_dropped"))
        top_p = None
    if temperature is not None:
        body["temperature"] = temperature
    if top_p is not None:
        body["top_p"] = top_p


def _merged(body: _Json, options: _Json) -> _Json:
    if isinstance(options.get("output_config"), dict):
        return {**options, "output_config": {**body.get("output_config", {}), **options["output_config"]}}
    return options


def _dropped(what: str, code: str) -> Warning:
    return Warning(message=f"the Messages API doesn't take {what}; it was left out", code=code)
