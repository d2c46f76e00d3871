"""A programmable coding agent: sessions, tools, execution environments, steering, events."""

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
from agent_loop.truncation import truncate_tool_output

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
]
