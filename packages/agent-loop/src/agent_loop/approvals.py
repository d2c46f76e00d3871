"""Who may say no to a tool call, between its validation and its execution (sections 3.8 and 8)."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from agent_loop.environments.base import ExecutionEnvironment, absolute_path
from agent_loop.tools.registry import Arguments, RegisteredTool


@dataclass(frozen=True, slots=True)
class Allow:
    """Go ahead."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Don't; the model gets to read why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Let the host decide this question."""

    question: str


Decision = Allow | Deny | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call whose arguments are valid, about to be executed. A subagent's calls carry its own `session_id`."""

    session_id: str
    call_id: str
    tool: RegisteredTool
    arguments: Arguments
    environment: ExecutionEnvironment

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return self.tool.definition.name

    def files_read(self) -> frozenset[str]:
        """Absolute paths of the files that the call shows to the model, as far as its arguments tell."""
        return self._absolute(self.tool.reads(self.arguments) if self.tool.reads is not None else ())

    def files_written(self) -> frozenset[str]:
        """Absolute paths of the files that the call modifies, as far as its arguments tell."""
        return self._absolute(self.tool.writes(self.arguments) if self.tool.writes is not None else ())

    def _absolute(self, paths: Iterable[str]) -> frozenset[str]:
        return frozenset(absolute_path(self.environment, path) for path in paths)


Approver = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]
"""Decides on a call, or leaves it to the host. If it raises, the call isn't executed and the model reads the error."""

HostAnswer = Callable[[ApprovalRequest, str], Allow | Deny | Awaitable[Allow | Deny]]
"""Answers the question of an Ask; a person does, perhaps. The session waits, and an abort ends the waiting."""


async def decide(request: ApprovalRequest, approvers: Sequence[Approver], ask_host: HostAnswer | None) -> Allow | Deny:
    """One denial is enough; the host is asked only if nobody denies. Without a host, asking is denial."""
    questions = []
    for approver in approvers:
        decision = approver(request)
        match await decision if inspect.isawaitable(decision) else decision:
            case Deny() as denial:
                return denial
            case Ask(question):
                questions.append(question)
    for question in questions:
        if ask_host is None:
            return Deny(f"this needs a permission that nobody is here to give ({question})")
        answer = ask_host(request, question)
        if isinstance(decided := await answer if inspect.isawaitable(answer) else answer, Deny):
            return decided
    return Allow()


class ReadBeforeWrite:
    """An approver that denies changing an existing file which the session has neither read nor written before.

    A guardrail against overwriting what was never looked at. What a shell command reads or writes goes unnoticed.
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    async def __call__(self, request: ApprovalRequest) -> Decision:
        """Remember what is read; look up what is written."""
        known = self._known.setdefault(request.session_id, set())
        known |= request.files_read()
        written = request.files_written()
        for path in sorted(written - known):
            if await request.environment.file_exists(path):
                return Deny(f"{path} exists, but you haven't read it yet; read it before you change it")
        known |= written
        return Allow()
