"""Executing the tools that a model calls, and deciding whether to go on (sections 5.2 and 5.5 to 5.8)."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from unified_llm.api.json_schema import check_value
from unified_llm.spec.abort import AbortSignal
from unified_llm.spec.errors import InvalidToolCallError
from unified_llm.spec.messages import Message
from unified_llm.spec.response import FinishReason, Response, Usage, Warning
from unified_llm.spec.tools import Tool, ToolCall, ToolResult

INJECTED = ("messages", "abort_signal", "tool_call_id")


@dataclass(frozen=True, slots=True)
class StepResult:
    """One model call, and the results of the tools that were executed after it (section 4.3)."""

    response: Response
    tool_results: list[ToolResult] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.response.text

    @property
    def reasoning(self) -> str | None:
        return self.response.reasoning

    @property
    def tool_calls(self) -> list[ToolCall]:
        return self.response.tool_calls

    @property
    def finish_reason(self) -> FinishReason:
        return self.response.finish_reason

    @property
    def usage(self) -> Usage:
        return self.response.usage

    @property
    def warnings(self) -> list[Warning]:
        return self.response.warnings


StopCondition = Callable[[list[StepResult]], bool]
Repair = ToolCall | Mapping[str, Any] | None
RepairToolCall = Callable[[ToolCall, InvalidToolCallError], Repair | Awaitable[Repair]]


@dataclass(frozen=True, slots=True)
class ToolLoop:
    """How far the loop may go, and the tools it executes."""

    tools: Mapping[str, Tool]
    max_rounds: int
    stop_when: StopCondition | None
    repair: RepairToolCall | None
    abort_signal: AbortSignal | None

    def wants_execution(self, response: Response, rounds: int) -> bool:
        """Whether the response calls tools that are to be executed, after `rounds` rounds so far.

        Without any active tool nothing is executed: all calls belong to the caller.
        """
        return (
            rounds < self.max_rounds
            and response.finish_reason.reason == "tool_calls"
            and bool(response.tool_calls)
            and any(tool.execute is not None for tool in self.tools.values())
        )

    def goes_on(self, steps: list[StepResult]) -> bool:
        """Whether the last step's results go back to the model. A call of a passive tool waits for the caller."""
        last = steps[-1]
        complete = bool(last.tool_results) and len(last.tool_results) == len(last.tool_calls)
        return complete and not (self.stop_when is not None and self.stop_when(steps))

    async def execute(self, calls: Sequence[ToolCall], messages: list[Message]) -> list[ToolResult]:
        """Execute the calls together; the results come in the calls' order, one failing never disturbs another.

        Calls of passive tools are left out. Cancelling cancels all of them; a sync tool, which runs in a worker
        thread, is then abandoned.
        """
        results: list[ToolResult | None] = [None] * len(calls)

        async def execute_at(index: int) -> None:
            results[index] = await self._execute_one(calls[index], messages)

        async with anyio.create_task_group() as tasks:
            for index, call in enumerate(calls):
                tool = self.tools.get(call.name)
                if tool is None or tool.execute is not None:
                    tasks.start_soon(execute_at, index)
        return [result for result in results if result is not None]

    async def _execute_one(self, call: ToolCall, messages: list[Message]) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None or tool.execute is None:
            known = ", ".join(self.tools)
            return _error(call, f"Unknown tool: {call.name}. The tools are: {known}")
        try:
            arguments = await self._valid_arguments(call, tool)
            injected = {"messages": messages, "abort_signal": self.abort_signal, "tool_call_id": call.id}
            return _result(call, await _invoke(tool, arguments, injected))
        except InvalidToolCallError as error:
            return _error(call, error.message)
        except anyio.get_cancelled_exc_class():
            # Raises again if this is a real cancellation. If not, the tool raised it by itself: its own failure.
            await checkpoint()
            return _error(call, f"the tool {call.name} was cancelled")
        except (Exception, SystemExit) as error:  # code made for a command line likes to exit
            return _error(call, _describe(error))

    async def _valid_arguments(self, call: ToolCall, tool: Tool) -> dict[str, Any]:
        fault = _fault(call, tool)
        if fault is None:
            return call.arguments
        error = InvalidToolCallError(f"Invalid arguments for {call.name}: {fault}")
        if self.repair is None:
            raise error
        repaired = self.repair(call, error)
        if inspect.isawaitable(repaired):
            repaired = await repaired
        if repaired is None:
            raise error
        if not isinstance(repaired, ToolCall):
            repaired = ToolCall(id=call.id, name=call.name, arguments=dict(repaired))
        if (fault := _fault(repaired, tool)) is not None:
            raise InvalidToolCallError(f"Invalid arguments for {call.name}, even after repair: {fault}")
        return repaired.arguments


def continue_conversation(messages: list[Message], step: StepResult) -> list[Message]:
    """The conversation with the step's answer and all its tool results, as the next call sends it."""
    results = [Message.tool_result(r.tool_call_id, r.content, r.is_error) for r in step.tool_results]
    return [*messages, step.response.message, *results]


def _fault(call: ToolCall, tool: Tool) -> str | None:
    if call.parse_error is not None:
        return call.parse_error
    if not tool.parameters.get("properties") and tool.parameters.keys() <= {"type", "properties", "description"}:
        return None  # nothing to check, and no need to load a validator
    return check_value(call.arguments, tool.parameters)


async def _invoke(tool: Tool, arguments: dict[str, Any], injected: dict[str, Any]) -> Any:
    assert tool.execute is not None
    bound = _bind(tool, arguments, injected)
    if inspect.iscoroutinefunction(tool.execute) or inspect.iscoroutinefunction(
        getattr(tool.execute, "__call__", None)  # noqa: B004  (an object with an async __call__)
    ):
        return await bound()
    value = await to_thread.run_sync(bound, abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value


def _bind(tool: Tool, arguments: dict[str, Any], injected: dict[str, Any]) -> Callable[[], Any]:
    """The handler with its arguments: as keywords, or as one dictionary if that is the one thing it takes."""
    assert tool.execute is not None
    declared = tool.parameters.get("properties") or {}
    parameters = inspect.signature(tool.execute).parameters
    # What the schema declares is the model's to fill, even under an injected name.
    context = {name: injected[name] for name in INJECTED if name in parameters and name not in declared}
    own = [p for name, p in parameters.items() if name not in context]
    if len(own) == 1 and own[0].name not in declared and _is_required_positional(own[0]):
        return partial(tool.execute, arguments, **context)
    return partial(tool.execute, **arguments, **context)


def _is_required_positional(parameter: inspect.Parameter) -> bool:
    positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return positional and parameter.default is parameter.empty


def _result(call: ToolCall, value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value.model_copy(update={"tool_call_id": call.id})
    if isinstance(value, str):
        return ToolResult(tool_call_id=call.id, content=value)
    try:
        plain = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        return _error(call, f"the tool {call.name} returned something that is not JSON: {error}")
    content = plain if isinstance(plain, str | dict | list) else to_json(plain).decode()
    return ToolResult(tool_call_id=call.id, content=content)


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(and it can't say why)"
    return f"{type(error).__name__}: {text}"


def _error(call: ToolCall, message: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, content=message, is_error=True)
