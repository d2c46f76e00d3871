"""The arguments that `generate`, `stream`, `generate_object` and `stream_object` share, and what becomes of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import ValidationError

from unified_llm.api.limits import Limits
from unified_llm.api.tool_loop import RepairToolCall, StopCondition, ToolLoop
from unified_llm.client.client import Client, get_default_client
from unified_llm.provider_utils.retry import RetryPolicy
from unified_llm.spec.abort import AbortSignal
from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request, ResponseFormat, TimeoutConfig
from unified_llm.spec.tools import Tool, ToolChoice


class GenerationOptions(TypedDict, total=False):
    """The keyword arguments of every high-level function (section 4.3), but for `client`.

    Exactly one of the prompt and `messages` is given; `system` is put in front of either. `timeout` is in seconds:
    a number bounds the whole operation, a TimeoutConfig that or each model call. `max_tool_rounds` (1) bounds how
    often tools are executed, so that there are at most one more model calls; 0 executes none. `stop_when` sees the
    steps so far and ends the loop by returning true. `max_retries` (2) counts per model call; `retry_policy` replaces
    it with a whole policy, and `should_retry` decides which errors are retried. `repair_tool_call(call, error)` may
    return better arguments for a call that failed validation.
    """

    messages: Sequence[Message] | None
    system: str | None
    tools: Sequence[Tool] | None
    tool_choice: ToolChoice | str | None
    max_tool_rounds: int
    stop_when: StopCondition | None
    repair_tool_call: RepairToolCall | None
    response_format: ResponseFormat | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop_sequences: Sequence[str] | None
    reasoning_effort: str | None
    metadata: dict[str, str] | None
    provider: str | None
    provider_options: dict[str, Any] | None
    max_retries: int
    retry_policy: RetryPolicy | None
    should_retry: Callable[[Exception], bool] | None
    timeout: float | TimeoutConfig | None
    abort_signal: AbortSignal | None


class CallOptions(GenerationOptions, total=False):
    """The keyword arguments of the async functions. `client` defaults to the module-wide one."""

    client: Client | None


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call, ready to be made."""

    client: Client
    request: Request
    tool_loop: ToolLoop
    policy: RetryPolicy
    should_retry: Callable[[Exception], bool] | None
    limits: Limits


def prepare_call(
    model: str,
    prompt: str | None = None,
    *,
    messages: Sequence[Message] | None = None,
    system: str | None = None,
    tools: Sequence[Tool] | None = None,
    max_tool_rounds: int = 1,
    stop_when: StopCondition | None = None,
    repair_tool_call: RepairToolCall | None = None,
    max_retries: int = 2,
    retry_policy: RetryPolicy | None = None,
    should_retry: Callable[[Exception], bool] | None = None,
    timeout: float | TimeoutConfig | None = None,
    abort_signal: AbortSignal | None = None,
    client: Client | None = None,
    **fields: Any,
) -> Call:
    """Check the arguments before anything is sent; raises ConfigurationError that names the one at fault."""
    _check("max_tool_rounds", max_tool_rounds, int)
    _check("max_retries", max_retries, int)
    _check("retry_policy", retry_policy, RetryPolicy | None)
    _check("abort_signal", abort_signal, AbortSignal | None)
    for name, value in (
        ("stop_when", stop_when),
        ("repair_tool_call", repair_tool_call),
        ("should_retry", should_retry),
    ):
        if value is not None and not callable(value):
            raise ConfigurationError(f"{name} must be callable or None, but is {_shown(value)}")
    if client is not None and not hasattr(client, "complete"):
        raise ConfigurationError(f"client must be Client or None, but is {_shown(client)}")
    _check("tools", tools, Sequence | None)
    for tool in tools or ():
        _check("each of tools", tool, Tool)
    conversation = _conversation(prompt, messages, system)
    if max_tool_rounds < 0:
        raise ConfigurationError(f"max_tool_rounds must not be negative, but is {max_tool_rounds}")
    return Call(
        client=client or get_default_client(),
        request=_request(model=model, messages=conversation, tools=list(tools) if tools else None, **fields),
        tool_loop=ToolLoop(
            {tool.name: tool for tool in tools or ()}, max_tool_rounds, stop_when, repair_tool_call, abort_signal
        ),
        policy=retry_policy or RetryPolicy(max_retries=max_retries),
        should_retry=should_retry,
        limits=Limits(_timeout(timeout), abort_signal),
    )


def _check(name: str, value: object, wanted: Any) -> None:
    if not isinstance(value, wanted):
        word = getattr(wanted, "__name__", None) or f"{wanted.__args__[0].__name__} or None"
        raise ConfigurationError(f"{name} must be {word}, but is {_shown(value)}")


def _shown(value: object) -> str:
    return f"{value!r:.100} of {type(value).__module__}.{type(value).__qualname__}"


def _timeout(timeout: float | TimeoutConfig | None) -> TimeoutConfig:
    if isinstance(timeout, TimeoutConfig):
        return timeout
    try:
        return TimeoutConfig(total=timeout)
    except ValidationError as error:
        raise ConfigurationError(
            f"timeout must be a number of seconds, but is {_shown(timeout)}", cause=error
        ) from error


def _conversation(prompt: str | None, messages: Sequence[Message] | None, system: str | None) -> list[Message]:
    match prompt, messages:
        case None, None:
            raise ConfigurationError("one of prompt and messages must be given")
        case _, None if not isinstance(prompt, str):
            raise ConfigurationError(f"prompt must be text, but is {_shown(prompt)}; messages takes a list of Message")
        case str(), None:
            if not prompt.strip():
                raise ConfigurationError("prompt is empty")
            conversation = [Message.user(prompt)]
        case None, _:
            _check("messages", messages, Sequence)
            if not messages:
                raise ConfigurationError("messages is empty")
            conversation = list(messages)
        case _:
            raise ConfigurationError("prompt and messages are both given; give one of them")
    if system is None:
        return conversation
    if not isinstance(system, str):
        raise ConfigurationError(f"system must be text, but is {_shown(system)}")
    return [Message.system(system), *conversation]


def _request(**fields: Any) -> Request:
    unknown = fields.keys() - Request.model_fields.keys()
    if unknown:
        known = ", ".join(sorted(Request.model_fields.keys() - {"messages", "model", "tools"}))
        raise TypeError(f"unexpected keyword argument {sorted(unknown)[0]!r}; those of a request are {known}")
    try:
        return Request(**fields)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        told = f"{place}: {fault['msg']}, but it is {fault['input']!r:.100}" if place else fault["msg"]
        raise ConfigurationError(told, cause=error) from error
