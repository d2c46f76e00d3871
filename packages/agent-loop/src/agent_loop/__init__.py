"""A programmable coding agent: sessions, tools, execution environments, steering, events.

Names are imported when first used, so that whoever needs the environments alone doesn't load the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_loop.approvals import Allow, ApprovalRequest, Approver, Ask, Deny, ReadBeforeWrite
    from agent_loop.config import SessionConfig, SessionState, StopReason, SubmitResult
    from agent_loop.environments import (
        DirEntry,
        EnvironmentPolicy,
        ExecResult,
        ExecutionEnvironment,
        GrepOptions,
        LocalExecutionEnvironment,
    )
    from agent_loop.errors import (
        AgentLoopError,
        EventsLostError,
        ExecutionEnvironmentError,
        SavedHistoryError,
        SessionError,
        ToolError,
    )
    from agent_loop.events import EventKind, SessionEvent
    from agent_loop.history import AssistantTurn, SteeringTurn, SystemTurn, ToolResultsTurn, Turn, UserTurn
    from agent_loop.profiles import (
        ProviderProfile,
        create_anthropic_profile,
        create_gemini_profile,
        create_openai_compatible_profile,
        create_openai_profile,
    )
    from agent_loop.saved_history import dump_history, dump_turn, load_history
    from agent_loop.session import Session
    from agent_loop.subagents import SubAgentHandle, SubAgentResult, SubAgentStatus
    from agent_loop.tools.registry import RegisteredTool, ToolContext, ToolDefinition, ToolOutput, ToolRegistry
    from agent_loop.tools.web import web_fetch_tool
    from agent_loop.truncation import truncate_tool_output

_HOMES = {
    "agent_loop.approvals": ("Allow", "ApprovalRequest", "Approver", "Ask", "Deny", "ReadBeforeWrite"),
    "agent_loop.config": ("SessionConfig", "SessionState", "StopReason", "SubmitResult"),
    "agent_loop.environments": (
        "DirEntry",
        "EnvironmentPolicy",
        "ExecResult",
        "ExecutionEnvironment",
        "GrepOptions",
        "LocalExecutionEnvironment",
    ),
    "agent_loop.errors": (
        "AgentLoopError",
        "EventsLostError",
        "ExecutionEnvironmentError",
        "SavedHistoryError",
        "SessionError",
        "ToolError",
    ),
    "agent_loop.events": ("EventKind", "SessionEvent"),
    "agent_loop.history": ("AssistantTurn", "SteeringTurn", "SystemTurn", "ToolResultsTurn", "Turn", "UserTurn"),
    "agent_loop.profiles": (
        "ProviderProfile",
        "create_anthropic_profile",
        "create_gemini_profile",
        "create_openai_compatible_profile",
        "create_openai_profile",
    ),
    "agent_loop.saved_history": ("dump_history", "dump_turn", "load_history"),
    "agent_loop.session": ("Session",),
    "agent_loop.subagents": ("SubAgentHandle", "SubAgentResult", "SubAgentStatus"),
    "agent_loop.tools.registry": ("RegisteredTool", "ToolContext", "ToolDefinition", "ToolOutput", "ToolRegistry"),
    "agent_loop.tools.web": ("web_fetch_tool",),
    "agent_loop.truncation": ("truncate_tool_output",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AgentLoopError",
    "Allow",
    "ApprovalRequest",
    "Approver",
    "Ask",
    "AssistantTurn",
    "Deny",
    "DirEntry",
    "EnvironmentPolicy",
    "EventKind",
    "EventsLostError",
    "ExecResult",
    "ExecutionEnvironment",
    "ExecutionEnvironmentError",
    "GrepOptions",
    "LocalExecutionEnvironment",
    "ProviderProfile",
    "ReadBeforeWrite",
    "RegisteredTool",
    "SavedHistoryError",
    "Session",
    "SessionConfig",
    "SessionError",
    "SessionEvent",
    "SessionState",
    "SteeringTurn",
    "StopReason",
    "SubAgentHandle",
    "SubAgentResult",
    "SubAgentStatus",
    "SubmitResult",
    "SystemTurn",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolOutput",
    "ToolRegistry",
    "ToolResultsTurn",
    "Turn",
    "UserTurn",
    "create_anthropic_profile",
    "create_gemini_profile",
    "create_openai_compatible_profile",
    "create_openai_profile",
    "dump_history",
    "dump_turn",
    "load_history",
    "truncate_tool_output",
    "web_fetch_tool",
]


def __getattr__(name: str) -> Any:
    if (module := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
