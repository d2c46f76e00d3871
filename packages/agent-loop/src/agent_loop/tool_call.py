"""From a model's call to its result (section 3.8): lookup, validate, approve, execute, truncate, emit, return."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread
from unified_llm import ToolCall, ToolResultData

from agent_loop.approvals import Allow, ApprovalRequest, Deny, decide
from agent_loop.environments.base import absolute_path
from agent_loop.events import EventKind
from agent_loop.session_record import SessionRecord
from agent_loop.text_encoding import to_unicode
from agent_loop.tools.registry import RegisteredTool, ToolContext, ToolOutput
from agent_loop.truncation import truncate_tool_output

MAX_STREAMED_CHARACTERS = 1024 * 1024
MAX_STREAMED_PIECES = 5_000
CANCELLED = "The call was cancelled before it finished."


async def execute_tool_calls(session: SessionRecord, calls: Sequence[ToolCall], results: list[ToolResultData]) -> None:
    """Execute all calls of a round and put the results in place, in the order of the calls.

    They run together where the profile allows it, but those that modify the same file one after the other. `results`
    comes filled with what stands for a call that doesn't get to its end.
    """
    if not session.provider_profile.supports_parallel_tool_calls or len(calls) == 1:
        for index, call in enumerate(calls):
            results[index] = await execute_single_tool(session, call)
        return
    files = [_files_written(session, call) for call in calls]
    done = [anyio.Event() for _ in calls]

    async def run(index: int) -> None:
        for earlier in range(index):
            if files[index] & files[earlier]:
                await done[earlier].wait()
        results[index] = await execute_single_tool(session, calls[index])
        done[index].set()

    async with anyio.create_task_group() as tasks:
        for index in range(len(calls)):
            tasks.start_soon(run, index)


def cancelled_results(calls: Sequence[ToolCall]) -> list[ToolResultData]:
    """What stands for calls until they are done, so that a history never holds a call without its result."""
    return [ToolResultData(tool_call_id=call.id, content=CANCELLED, is_error=True) for call in calls]


def _files_written(session: SessionRecord, call: ToolCall) -> frozenset[str]:
    tool = session.provider_profile.tool_registry.get(call.name)
    if tool is None or tool.writes is None:
        return frozenset()
    try:
        paths = [] if _find_error(call, tool) else list(tool.writes(call.arguments))
    except Exception:
        # The tool is at fault; what is wrong with it will be the call's result.
        return frozenset()
    return frozenset(absolute_path(session.execution_env, path) for path in paths)


async def execute_single_tool(session: SessionRecord, call: ToolCall) -> ToolResultData:
    """The pipeline. Whatever goes wrong becomes an error result that the model can act on; only cancellation raises."""
    session.emit(EventKind.TOOL_CALL_START, tool_name=call.name, call_id=call.id, arguments=call.arguments)
    tool = session.provider_profile.tool_registry.get(call.name)
    if tool is None:
        known = ", ".join(session.provider_profile.tool_registry.names()) or "none"
        return _fail(session, call, f"Unknown tool: {call.name}. The tools are: {known}")
    try:
        if error := _find_error(call, tool):
            return _fail(session, call, f"Invalid arguments for tool: {call.name}: {error}")
        if session.approvers and isinstance(denial := await _decide(session, call, tool), Deny):
            return _fail(session, call, f"Denied: {denial.reason}")
        output = await _execute(session, call, tool)
    except (Exception, SystemExit) as raised:
        # SystemExit too: a function that was written for the command line must not end the host.
        return _fail(session, call, f"Tool error ({call.name}): {str(raised) or type(raised).__name__}")
    except anyio.get_cancelled_exc_class():
        _fail(session, call, CANCELLED)
        raise
    session.emit(
        EventKind.TOOL_CALL_END,
        tool_name=call.name,
        call_id=call.id,
        output=output.text,
        is_error=output.is_error,
    )
    return ToolResultData(
        tool_call_id=call.id,
        content=truncate_tool_output(output.text, call.name, session.config),
        is_error=output.is_error,
        image_data=output.image.data if output.image is not None else None,
        image_media_type=output.image.media_type if output.image is not None else None,
    )


def _fail(session: SessionRecord, call: ToolCall, error: str) -> ToolResultData:
    error = to_unicode(error)
    session.emit(EventKind.TOOL_CALL_END, tool_name=call.name, call_id=call.id, error=error, is_error=True)
    content = truncate_tool_output(error, call.name, session.config)
    return ToolResultData(tool_call_id=call.id, content=content, is_error=True)


def _find_error(call: ToolCall, tool: RegisteredTool) -> str:
    return call.parse_error or "; ".join(tool.find_argument_errors(call.arguments))


async def _decide(session: SessionRecord, call: ToolCall, tool: RegisteredTool) -> Allow | Deny:
    request = ApprovalRequest(
        session_id=session.id,
        call_id=call.id,
        tool=tool,
        arguments=call.arguments,
        environment=session.execution_env,
    )
    return await decide(request, session.approvers, session.ask_host)


async def _execute(session: SessionRecord, call: ToolCall, tool: RegisteredTool) -> ToolOutput:
    execute = partial(tool.executor, call.arguments, session.execution_env)
    if tool.wants_context:
        report = _OutputReport(session, call.id)
        context = ToolContext(call_id=call.id, config=session.config, report_output=report, subagents=session.subagents)
        execute = partial(execute, context=context)
    if inspect.iscoroutinefunction(tool.executor):
        output = execute()
    else:
        # An executor that blocks must hold up neither the other calls nor an abort.
        output = await anyio.to_thread.run_sync(execute, abandon_on_cancel=True)
    if inspect.isawaitable(output):
        output = await output
    return (
        replace(output, text=to_unicode(output.text))
        if isinstance(output, ToolOutput)
        else ToolOutput(text=to_unicode(str(output)))
    )


class _OutputReport:
    """Reports output as it comes, up to a bound: events are kept, and a flood must not fill the memory with them."""

    def __init__(self, session: SessionRecord, call_id: str) -> None:
        self._session = session
        self._call_id = call_id
        self._characters = MAX_STREAMED_CHARACTERS
        self._pieces = MAX_STREAMED_PIECES

    def __call__(self, text: str) -> None:
        if self._characters <= 0 or self._pieces <= 0:
            return
        self._characters -= len(text)
        self._pieces -= 1
        if self._characters <= 0 or self._pieces <= 0:
            text += "\n[There is more output; it follows whole when the call has ended.]\n"
        self._session.emit(EventKind.TOOL_CALL_OUTPUT_DELTA, call_id=self._call_id, delta=text)
