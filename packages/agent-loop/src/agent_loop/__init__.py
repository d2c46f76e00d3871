"""A programmable coding agent: sessions, tools, execution environments, steering, events."""

from agent_loop.config import SessionConfig, SessionState, StopReason
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
from agent_loop.session import Session, SubmitResult
from agent_loop.tools.registry import RegisteredTool, ToolContext, ToolDefinition, ToolOutput, ToolRegistry
from agent_loop.truncation import truncate_tool_output

__all__ = [
    "AgentLoopError",
    "AssistantTurn",
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
    "RegisteredTool",
    "Session",
    "SessionConfig",
    "SessionError",
    "SessionEvent",
    "SessionState",
    "SteeringTurn",
    "StopReason",
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
    "truncate_tool_output",
]
