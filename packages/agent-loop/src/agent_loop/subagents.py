"""Child sessions that work for a session while it goes on (section 7): their handles, results and ends.

A subagent works no longer than the input that it was spawned for: when that ends, those that still run are stopped. Its
result stays, and it can be given further work during a later input.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import anyio
from anyio.abc import TaskGroup
from unified_llm import Usage

from agent_loop.config import StopReason, SubmitResult
from agent_loop.errors import ToolError


class SubAgentStatus(StrEnum):
    """Where a subagent stands (section 7.3)."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentResult:
    """What a subagent has to show: its last text, partial if it was cut short. `reason` says how it ended.

    `usage` is what it has used since it was spawned, subagents of its own included.
    """

    output: str
    success: bool
    turns_used: int
    reason: str
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """What is asked of a new subagent. None means: as the parent. `max_turns` of 0 means the configured default."""

    task: str
    working_dir: str | None = None
    model: str | None = None
    max_turns: int = 0


class ChildSession(Protocol):
    """The part of a Session that matters here."""

    steering_queue: deque[str]
    turn_count: int

    @property
    def total_usage(self) -> Usage:
        """Tokens of all its model calls, and of those of its subagents."""
        ...

    async def submit(self, user_input: str) -> SubmitResult:
        """Process an input to its end."""
        ...

    def steer(self, message: str) -> None:
        """Say something to the model between its rounds."""
        ...

    async def close(self) -> None:
        """End whatever runs. Does nothing the second time."""
        ...


@dataclass(kw_only=True, eq=False)
class SubAgentHandle:
    """A subagent as its parent sees it. `result` is that of its latest work, None while it runs."""

    id: str
    session: ChildSession
    status: SubAgentStatus = SubAgentStatus.RUNNING
    result: SubAgentResult | None = None
    closed: bool = False
    finished: anyio.Event = field(default_factory=anyio.Event)


class SubAgents:
    """A session's subagents. They run while the `async with` block is open, and are stopped at its end.

    `create` makes a child session; `report` is told, in a sentence, of subagents that were stopped unfinished. Methods
    raise ToolError, for it is a model that calls them.
    """

    def __init__(
        self, create: Callable[[SpawnRequest], Awaitable[ChildSession]], report: Callable[[str], None]
    ) -> None:
        self._create = create
        self._report = report
        self._handles: dict[str, SubAgentHandle] = {}
        self._tasks: TaskGroup | None = None

    @property
    def handles(self) -> Mapping[str, SubAgentHandle]:
        """All that were ever spawned, by id."""
        return self._handles

    @property
    def usage(self) -> Usage:
        """Tokens that all of them, running or not, have used so far."""
        return sum((handle.session.total_usage for handle in self._handles.values()), Usage())

    async def spawn(self, request: SpawnRequest) -> SubAgentHandle:
        """Start a subagent. It runs beside the caller."""
        self._require_open()
        session = await self._create(request)
        self._require_open()
        handle = SubAgentHandle(id=f"agent-{len(self._handles) + 1}", session=session)
        self._handles[handle.id] = handle
        self._start(handle, request.task)
        return handle

    def send_input(self, agent_id: str, message: str) -> SubAgentHandle:
        """Steer a running subagent, or give one that has finished more to do."""
        handle = self._get(agent_id)
        if handle.closed:
            raise ToolError(f"subagent {agent_id} is closed; spawn another one")
        if handle.status is SubAgentStatus.RUNNING:
            handle.session.steer(message)
        else:
            self._start(handle, message)
        return handle

    async def wait(self, agent_id: str) -> SubAgentResult:
        """The result, as soon as there is one; the same again the next time."""
        handle = self._get(agent_id)
        # Between its end and this waking up it may have been given more to do.
        while handle.result is None:
            await handle.finished.wait()
        return handle.result

    async def close_agent(self, agent_id: str) -> SubAgentHandle:
        """Stop a subagent for good. Does nothing the second time."""
        handle = self._get(agent_id)
        await self._close([handle])
        return handle

    async def close_all(self) -> None:
        """Stop all subagents for good, at the same time, and wait until they have ended."""
        await self._close(list(self._handles.values()))

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        running = [handle for handle in self._handles.values() if handle.status is SubAgentStatus.RUNNING]
        for handle in running:
            if not handle.closed:
                self._report(f"Subagent {handle.id} was still running when the input ended, and was stopped.")
        with anyio.CancelScope(shield=True):
            await self._close(running)
        # What the block raised goes on as it is; given to the task group it would come out wrapped in another error.
        await tasks.__aexit__(None, None, None)

    def _start(self, handle: SubAgentHandle, message: str) -> None:
        tasks = self._require_open()
        handle.status, handle.result, handle.finished = SubAgentStatus.RUNNING, None, anyio.Event()
        tasks.start_soon(self._run, handle, message)

    async def _run(self, handle: SubAgentHandle, message: str) -> None:
        """Whatever happens to a child becomes its result, never an error of the parent."""
        turns_before = handle.session.turn_count
        result = SubmitResult(text="", stop_reason=StopReason.ABORTED)
        try:
            result = await handle.session.submit(message)
            # What was said after the child's last round is still in its queue.
            while handle.session.steering_queue and _succeeded(result):
                result = await handle.session.submit(handle.session.steering_queue.popleft())
        except Exception as error:
            result = SubmitResult(text="", stop_reason=StopReason.ERROR, error=error)
        finally:
            success = _succeeded(result)
            handle.status = SubAgentStatus.COMPLETED if success else SubAgentStatus.FAILED
            handle.result = SubAgentResult(
                output=result.text,
                success=success,
                turns_used=handle.session.turn_count - turns_before,
                reason=_reason(result),
                usage=handle.session.total_usage,
            )
            handle.finished.set()

    def _require_open(self) -> TaskGroup:
        if self._tasks is None:
            raise ToolError("subagents can only work while the session processes an input")
        return self._tasks

    async def _close(self, handles: list[SubAgentHandle]) -> None:
        async with anyio.create_task_group() as closing:
            for handle in handles:
                handle.closed = True
                closing.start_soon(handle.session.close)
        for handle in handles:
            await handle.finished.wait()

    def _get(self, agent_id: str) -> SubAgentHandle:
        handle = self._handles.get(agent_id)
        if handle is None:
            known = ", ".join(self._handles) or "none"
            raise ToolError(f"there is no subagent {agent_id!r}; the subagents are: {known}")
        return handle


def _succeeded(result: SubmitResult) -> bool:
    return result.stop_reason in (StopReason.COMPLETED, StopReason.AWAITING_INPUT)


def _reason(result: SubmitResult) -> str:
    if result.error is not None:
        return f"{type(result.error).__name__}: {result.error}"
    return result.stop_reason.value
