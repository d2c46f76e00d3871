"""Watching a run of a Python graph while it goes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream

from attractor.event_log import read_events
from attractor.events import Event, StageCompleted
from attractor.prebuilt.errors import InterruptError, NodeError, StepLimitError
from attractor.prebuilt.launch import Launch
from attractor.prebuilt.node_context import S


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUpdate:
    """A node was executed: what it reported, and the state that came of it. In a branch that is the branch's own."""

    node: str
    update: Mapping[str, Any]
    state: Mapping[str, Any]


class Updates:
    """What the nodes of a run reported and nobody was told yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[StateUpdate]] = {}

    def add(self, node: str, update: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Keep one."""
        self._waiting.setdefault(node, []).append(StateUpdate(node=node, update=update, state=dict(state)))

    def take(self, event: Event) -> StateUpdate | None:
        """The one that belongs to the end of a stage."""
        waiting = self._waiting.get(event.name) if isinstance(event, StageCompleted) else None
        return waiting.pop(0) if waiting else None


class RunStream(Generic[S]):
    """A run and what it tells: each Event, and behind the end of each node its StateUpdate.

        async with graph.stream(input) as run:
            async for item in run:
                ...
        run.result

    The run begins with the `async with`, and is cancelled if that is left before it ended; it can be resumed then. What
    `invoke()` would raise, iterating raises behind the last item.
    """

    def __init__(
        self,
        prepare: Callable[[Updates], Launch],
        execute: Callable[[Launch], Awaitable[S]],
        release: Callable[[Launch, BaseException | None], None],
    ) -> None:
        self._prepare = prepare
        self._execute = execute
        self._release = release
        self._updates = Updates()
        self._tasks: TaskGroup | None = None
        self._result: S | None = None
        self._error: Exception | None = None

    @property
    def result(self) -> S:
        """The final state of a run that ended; raises RuntimeError before that."""
        if self._result is None:
            raise RuntimeError("the run has no result yet; iterate to the end of its stream")
        return self._result

    async def __aenter__(self) -> Self:
        launch = self._prepare(self._updates)
        send, self._receive = anyio.create_memory_object_stream[Event | StateUpdate](0)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._run, launch, send)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        self._receive.close()
        # What the caller raised is not the tasks', and must not come out in a group.
        await self._tasks.__aexit__(None, None, None)

    def __aiter__(self) -> AsyncIterator[Event | StateUpdate]:
        if self._tasks is None:
            raise RuntimeError("a stream must be opened first: async with graph.stream(...) as run")
        return self

    async def __anext__(self) -> Event | StateUpdate:
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            if self._error is not None:
                raise self._error from self._error.__cause__
            raise StopAsyncIteration from None

    async def _run(self, launch: Launch, send: MemoryObjectSendStream[Event | StateUpdate]) -> None:
        """Run, and let what is told be read to its end."""
        last = _count_events(launch)
        try:
            async with send, anyio.create_task_group() as telling:
                telling.start_soon(self._tell, launch, send, last)
                try:
                    self._result = await self._execute(launch)
                except Exception as error:
                    self._error = error
                    if not isinstance(error, InterruptError | NodeError | StepLimitError):
                        # It may be that the run didn't begin, and will tell nothing.
                        telling.cancel_scope.cancel()
        finally:
            self._release(launch, self._error)

    async def _tell(self, launch: Launch, send: MemoryObjectSendStream[Event | StateUpdate], last: int) -> None:
        # Whoever reads may be gone.
        async with aclosing(launch.runner.events()) as events:
            with suppress(anyio.BrokenResourceError):
                async for event in events:
                    if event.sequence > last:
                        await send.send(event)
                        if (update := self._updates.take(event)) is not None:
                            await send.send(update)


def _count_events(launch: Launch) -> int:
    """How many events lie there of earlier processes."""
    return max((event.sequence for event in read_events(launch.run_dir)), default=0)
