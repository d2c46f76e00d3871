"""Limits and settings of a session, and the states it passes through (sections 2.2 and 2.3)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from agent_loop.guards import asks_question


class SessionState(StrEnum):
    """Where a session stands (section 2.3)."""

    IDLE = "idle"
    PROCESSING = "processing"
    AWAITING_INPUT = "awaiting_input"
    CLOSED = "closed"


class StopReason(StrEnum):
    """Why an input's processing ended (section 2.8)."""

    COMPLETED = "completed"
    AWAITING_INPUT = "awaiting_input"
    ROUND_LIMIT = "round_limit"
    TURN_LIMIT = "turn_limit"
    ABORTED = "aborted"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """What became of an input. `text` is the model's last answer to it; `error` is set when `stop_reason` is ERROR."""

    text: str
    stop_reason: StopReason
    error: Exception | None = None


@dataclass(slots=True, kw_only=True)
class SessionConfig:
    """Settings that the host may change at any time; the next model or tool call sees the change.

    Limits of 0 mean unlimited. Limits of output by tool name are in characters and lines and override section 5.2's.
    `max_turns` counts the model's answers over the whole session; `subagent_max_turns` is that of a subagent which was
    spawned without a limit of its own. `awaits_input` tells, from the final text of an
    answer, whether the model waits for the user. `user_instructions` end the system prompt and win over the rest of it.
    """

    max_turns: int = 0
    max_tool_rounds_per_input: int = 0
    default_command_timeout_ms: int = 10_000
    max_command_timeout_ms: int = 600_000
    reasoning_effort: str | None = None
    tool_output_limits: dict[str, int] = field(default_factory=dict)
    tool_line_limits: dict[str, int] = field(default_factory=dict)
    enable_loop_detection: bool = True
    loop_detection_window: int = 10
    max_subagent_depth: int = 1
    subagent_max_turns: int = 50
    user_instructions: str = ""
    stream: bool = True
    awaits_input: Callable[[str], bool] = asks_question
