"""The four tools for subagents (section 7.2)."""

import json
from typing import Any

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import ToolError
from agent_loop.subagents import SpawnRequest, SubAgentHandle, SubAgents
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolContext, ToolDefinition


async def spawn_agent(arguments: Arguments, environment: ExecutionEnvironment, *, context: ToolContext) -> str:
    """Start one, and say under which id."""
    request = SpawnRequest(
        task=arguments["task"],
        working_dir=arguments.get("working_dir"),
        model=arguments.get("model"),
        max_turns=int(arguments.get("max_turns", 0)),
    )
    return _describe(await _subagents(context).spawn(request))


async def send_input(arguments: Arguments, environment: ExecutionEnvironment, *, context: ToolContext) -> str:
    """Pass a message on."""
    return _describe(_subagents(context).send_input(arguments["agent_id"], arguments["message"]))


async def wait(arguments: Arguments, environment: ExecutionEnvironment, *, context: ToolContext) -> str:
    """The result as JSON."""
    result = await _subagents(context).wait(arguments["agent_id"])
    shown = {
        "agent_id": arguments["agent_id"],
        "output": result.output,
        "success": result.success,
        "turns_used": result.turns_used,
        "reason": result.reason,
    }
    return json.dumps(shown, ensure_ascii=False)


async def close_agent(arguments: Arguments, environment: ExecutionEnvironment, *, context: ToolContext) -> str:
    """Stop one, and say how it had fared."""
    return _describe(await _subagents(context).close_agent(arguments["agent_id"]))


def _subagents(context: ToolContext) -> SubAgents:
    if context.subagents is None:
        raise ToolError("subagents are not available here")
    return context.subagents


def _describe(handle: SubAgentHandle) -> str:
    return json.dumps({"agent_id": handle.id, "status": handle.status.value})


def _definition(name: str, description: str, required: dict[str, Any], **optional: Any) -> ToolDefinition:
    properties = {**required, **optional}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition(name=name, description=description, parameters=parameters)


_AGENT_ID = {"type": "string", "description": "The id that spawn_agent returned"}

SUBAGENT_TOOLS = (
    RegisteredTool(
        _definition(
            "spawn_agent",
            "Start a subagent: another agent like you, with the same files and tools but none of this conversation. It "
            "works on its task while you go on; several can work at once, on different things. Returns its id at once. "
            "Use wait to get its result before you give your final answer, for then subagents that still run are "
            "stopped. Worth it for tasks that are large and stand by themselves.",
            {"task": {"type": "string", "description": "All that it needs to know: what to do, where, what to report"}},
            working_dir={"type": "string", "description": "Subdirectory to work in (default: the same directory)"},
            model={"type": "string", "description": "Another model of the same provider (default: yours)"},
            max_turns={"type": "integer", "minimum": 0, "description": "Limit of its model calls (0: the default)"},
        ),
        spawn_agent,
    ),
    RegisteredTool(
        _definition(
            "send_input",
            "Send a message to a subagent: a running one reads it after its present step, and one that has finished "
            "goes on with it, knowing what it did before.",
            {"agent_id": _AGENT_ID, "message": {"type": "string", "description": "What to tell it"}},
        ),
        send_input,
    ),
    RegisteredTool(
        _definition(
            "wait",
            "Wait until a subagent has finished, and return its result: output (its final answer), success, turns_used "
            "and the reason why it ended.",
            {"agent_id": _AGENT_ID},
        ),
        wait,
    ),
    RegisteredTool(
        _definition("close_agent", "Stop a subagent for good, and return its status.", {"agent_id": _AGENT_ID}),
        close_agent,
    ),
)
