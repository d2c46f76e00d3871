"""What a session holds (section 2.1). The loop works on this record; `Session` adds what a host calls."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from unified_llm import Client, RetryPolicy, Usage

from agent_loop.approvals import Approver, HostAnswer
from agent_loop.clock import Clock, utc_now
from agent_loop.config import SessionConfig, SessionState
from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.events import EventEmitter, EventKind
from agent_loop.history import AssistantTurn, HistoryView, Turn
from agent_loop.profiles.base import ProviderProfile
from agent_loop.subagents import SubAgents
from agent_loop.system_prompt import GitSnapshot

if TYPE_CHECKING:
    from agent_loop.personalization import PersonalMemory


@dataclass(kw_only=True, eq=False)
class SessionRecord:
    """The conversation and everything around it.

    `history` may be edited by the host while the session is idle. `turn_count` counts the model's answers in the
    whole session, `usage` adds up their tokens. `git` and `today` are taken at the session's start, so that the
    system prompt stays the same and can be cached by the provider; `project_docs` are read anew for every input.
    `personal_context` is the memory of the person as it was then. `depth` is 0, or one more than the parent's for a
    subagent. `turns_before` counts those of an earlier conversation that this one goes on with.
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
    listen: Callable[[], str] | None = None
    personalization: "PersonalMemory | None" = None
    depth: int = 0
    abort_signaled: bool = False
    git: GitSnapshot | None = None
    today: str = ""
    project_docs: str = ""
    personal_context: str = ""
    turns_before: int = field(init=False)
    turn_count: int = 0
    usage: Usage = field(default_factory=Usage)
    history_view: HistoryView = field(default_factory=HistoryView)
    context_warned: bool = False

    def __post_init__(self) -> None:
        self.turns_before = len(self.history)

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Report to all who read the session's events."""
        self.event_emitter.emit(kind, **data)

    async def recall(self) -> None:
        """Take the memory of the person into the system prompt. One that can't be read is a WARNING, no failure."""
        if self.personalization is None:
            return
        try:
            self.personal_context = await self.personalization.context()
        except Exception as error:
            self.emit(EventKind.WARNING, message=f"The memory of the person can't be read: {error}")

    async def remember(self) -> None:
        """Take this conversation into the memory of the person, if that is wanted. A failure is a WARNING."""
        memory, said = self.personalization, self.history[self.turns_before :]
        if memory is None or not memory.ingest_on_close or not any(isinstance(turn, AssistantTurn) for turn in said):
            return
        profile = self.provider_profile
        try:
            with anyio.fail_after(memory.close_seconds):
                await memory.or_by(self.llm_client, profile.id, profile.model).ingest_conversation(said)
        except Exception as error:
            reason = str(error) or f"it took more than {memory.close_seconds:g} seconds"
            self.emit(EventKind.WARNING, message=f"The conversation was not taken into the memory: {reason}")
