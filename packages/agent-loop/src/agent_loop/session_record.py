"""What a session holds (section 2.1). The loop works on this record; `Session` adds what a host calls."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unified_llm import Client, RetryPolicy, Usage

from agent_loop.approvals import Approver, HostAnswer
from agent_loop.clock import Clock, utc_now
from agent_loop.config import SessionConfig, SessionState
from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.events import EventEmitter, EventKind
from agent_loop.history import HistoryView, Turn
from agent_loop.profiles.base import ProviderProfile
from agent_loop.subagents import SubAgents
from agent_loop.system_prompt import GitSnapshot


@dataclass(kw_only=True, eq=False)
class SessionRecord:
    """The conversation and everything around it.

    `history` may be edited by the host while the session is idle. `turn_count` counts the model's answers in the
    whole session, `usage` adds up their tokens. `git` and `today` are taken at the session's start, so that the
    system prompt stays the same and can be cached by the provider; `project_docs` are read anew for every input.
    `depth` is 0, or one more than the parent's for a subagent.
    """

    id: str
    provider_profile: ProviderProfile
    execution_env: ExecutionEnvironment
    llm_client: Client
    event_emitter: EventEmitter
    subagents: SubAgents
    config: SessionConfig = field(default_factory=SessionConfig)
    history: list[Turn] = field(default_factory=list)
    state: SessionState = SessionState.IDLE
    steering_queue: deque[str] = field(default_factory=deque)
    followup_queue: deque[str] = field(default_factory=deque)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    clock: Clock = utc_now
    approvers: Sequence[Approver] = ()
    ask_host: HostAnswer | None = None
    depth: int = 0
    abort_signaled: bool = False
    git: GitSnapshot | None = None
    today: str = ""
    project_docs: str = ""
    turn_count: int = 0
    usage: Usage = field(default_factory=Usage)
    history_view: HistoryView = field(default_factory=HistoryView)
    context_warned: bool = False

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Report to all who read the session's events."""
        self.event_emitter.emit(kind, **data)
