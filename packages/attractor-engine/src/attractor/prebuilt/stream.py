"""Watching a run of a Python graph while it goes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from attractor.event_log import read_events
from attractor.events import Event, StageCompleted
from attractor.prebuilt.background import BackgroundTask
from attractor.prebuilt.errors import InterruptError, LimitError, NodeError
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

    `async for item in graph.stream(input)` alone does the same: the run begins with the first item. It is cancelled
    when iterating is, by `aclose()`, and soon after nobody holds the stream any more, as behind a `break`.
    """

    def __init__(self, watch: "Watch[S]", tasks: set[BackgroundTask]) -> None:
        self._watch = watch
        self._tasks = tasks
        self._task: BackgroundTask | None = None
        self._is_scoped = False

    @property
    def result(self) -> S:
        """The final state of a run that ended; raises RuntimeError before that."""
        if self._watch.result is None:
            raise RuntimeError("the run has no result yet; iterate to the end of its stream")
        return self._watch.result

    async def __aenter__(self) -> Self:
        self._is_scoped = True
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Event | StateUpdate]:
        return self

    async def __anext__(self) -> Event | StateUpdate:
        if self._task is None:
            await self._begin()
        try:
            return await self._watch.receive.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            if (error := self._watch.error) is not None:
                raise error from error.__cause__
            raise StopAsyncIteration from None
        except anyio.get_cancelled_exc_class():
            if not self._is_scoped:
                await self.aclose()
            raise

    async def aclose(self) -> None:
        """Cancel the run, unless it has ended, and wait for that."""
        if self._task is not None:
            self._task.cancel()
            with anyio.CancelScope(shield=True):
                await self._task.wait()

    def __del__(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _begin(self) -> None:
        if self._task is not None:
            raise RuntimeError("a stream is one run; call graph.stream() again for another")
        await settle(self._tasks)
        # Nothing in it may hold this object, whose end must end it.
        self._task = BackgroundTask(partial(self._watch.run, self._watch.begin()))
        self._tasks.add(self._task)


async def settle(tasks: set[BackgroundTask]) -> None:
    """Wait for those that were cancelled, so that their runs may go on elsewhere, and forget those that have ended."""
    for task in list(tasks):
        if task.is_ending:
            await task.wait()
        if task.is_ending or task.has_ended:
            tasks.discard(task)


@dataclass(slots=True, kw_only=True, eq=False)
class Watch(Generic[S]):
    """A run that is watched, without whoever watches it. `error` is what `invoke()` would have raised."""

    prepare: Callable[[Updates], Launch]
    execute: Callable[[Launch], Awaitable[S]]
    release: Callable[[Launch, BaseException | None], None]
    result: S | None = None
    error: BaseException | None = None
    receive: MemoryObjectReceiveStream[Event | StateUpdate] = field(init=False)
    _send: MemoryObjectSendStream[Event | StateUpdate] = field(init=False)
    _updates: Updates = field(default_factory=Updates)

    def begin(self) -> Launch:
        """Raises what is wrong with the input."""
        launch = self.prepare(self._updates)
        self._send, self.receive = anyio.create_memory_object_stream[Event | StateUpdate](0)
        return launch

    async def run(self, launch: Launch) -> None:
        """Run, and let what is told be read to its end."""
        try:
            await self._run(launch)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self.error = self.error or error
        finally:
            # Nothing is left to be read: the stream holds no item.
            self._send.close()
            self.receive.close()
            self.release(launch, self.error)

    async def _run(self, launch: Launch) -> None:
        last = _count_events(launch)
        async with anyio.create_task_group() as telling:
            telling.start_soon(self._tell, launch, last)
            try:
                self.result = await self.execute(launch)
            except Exception as error:
                self.error = error
                if not isinstance(error, InterruptError | LimitError | NodeError):
                    # It may be that the run didn't begin, and will tell nothing.
                    telling.cancel_scope.cancel()

    async def _tell(self, launch: Launch, last: int) -> None:
        # Whoever reads may be gone.
        async with aclosing(launch.runner.events()) as events:
            with suppress(anyio.BrokenResourceError):
                async for event in events:
                    if event.sequence > last:
                        await self._send.send(event)
                        if (update := self._updates.take(event)) is not None:
                            await self._send.send(update)


def _count_events(launch: Launch) -> int:
    """How many events lie there of earlier processes."""
    return max((event.sequence for event in read_events(launch.run_dir)), default=0)
