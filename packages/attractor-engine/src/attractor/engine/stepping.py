"""A run one step at a time, for whoever owns the loop: a queue worker, a workflow service, a debugger.

    stepper = Stepper(graph, logs_root, backend=backend)
    state = stepper.begin("run-7")
    while state.status is RunStatus.RUNNING:
        taken = await stepper.advance(state)
        state = taken.state
        keep(encode_state(state), taken.events)
    await stepper.close()

A step is: state in, state and effects out. The state given stays as it is; nothing is kept between two steps, so each
may be taken by another process. The run's own loop, `Execution`, takes the same steps and writes them to a journal.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from attractor.backends.base import CodergenBackend
from attractor.engine.branches import start_traversal
from attractor.engine.execution import mirror_graph
from attractor.engine.joins import Joins
from attractor.engine.limits import Budget, Limits
from attractor.engine.stage import StageExecutor
from attractor.engine.traversal import Walk
from attractor.errors import CheckpointError
from attractor.events import Event
from attractor.graph import Graph
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.handlers.defaults import build_registry
from attractor.interviewers.base import Interviewer
from attractor.interviewers.questions import QuestionStore
from attractor.state.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint, hash_graph
from attractor.state.context import Context
from attractor.state.json_values import encode_json
from attractor.state.run_directory import restart_path
from attractor.state.step import Entry, RunStatus

__all__ = ["Advance", "Checkpoint", "RunStatus", "Stepper", "decode_state", "encode_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A step that was taken. `state` is where the run stands now.

    `entries` are what led there, in order: `state` is the state before with each of them applied. There is one, or for
    a fan-out also those of its branches. `events` tell what happened meanwhile, numbered from 1.
    """

    state: Checkpoint
    entries: tuple[Entry, ...]
    events: tuple[Event, ...]


class Stepper:
    """Takes the steps of runs of one graph, which must have passed transforms and lint.

    Stages have their directories in `logs_root`, which must exist; else nothing but what handlers do touches the disk:
    journal, checkpoint, status.json and events are up to the owner of the loop. `handlers` are added to the built-in
    ones; those for child pipelines are not among them. `close()` ends what tool commands left running.
    """

    def __init__(
        self,
        graph: Graph,
        logs_root: str | Path,
        *,
        backend: CodergenBackend | None = None,
        interviewer: Interviewer | None = None,
        handlers: HandlerRegistry | Mapping[str, Handler] | None = None,
        working_dir: str | Path | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._graph = graph
        self._root = Path(logs_root).absolute()
        self._limits = limits or Limits.of_graph(graph)
        self._clock = clock
        self._sleep = sleep
        self._events: list[Event] = []
        self._own = build_registry(
            backend, interviewer=interviewer, emit=self._emit, clock=clock, working_dir=working_dir
        )
        self._handlers = self._own.merged_with(handlers)
        self._joins = Joins(graph)

    def begin(self, run_id: str, context: Mapping[str, Any] | None = None) -> Checkpoint:
        """The first state of a run."""
        state = Checkpoint(run_id=run_id, graph_hash=hash_graph(self._graph), next_node=self._graph.start_nodes[0].id)
        return self._fill(state, context)

    async def advance(self, state: Checkpoint, context: Mapping[str, Any] | None = None) -> Advance:
        """Execute the next node, with its retries, or the next fan-out with all its branches, and find the way on.

        A state that is RESTARTED goes on as a fresh one, whose context begins with `context`; a WAITING one goes on if
        what it waits for is there. Any other end is returned as it is, without entries. Raises CheckpointError for a
        state of another graph. One step at a time for a Stepper. A step that is cancelled was not taken.
        """
        if state.graph_hash != hash_graph(self._graph):
            raise CheckpointError("this state belongs to another pipeline; begin a new run")
        if state.status is RunStatus.RESTARTED:
            state = self._fill(state.restarted(), context)
        state = deepcopy(state)
        self._events.clear()
        kept = _Entries(state)
        folder = restart_path(self._root, state.restarts)
        folder.mkdir(exist_ok=True)
        stages = StageExecutor(
            self._graph, self._handlers, folder, self._emit, sleep=self._sleep, first_index=len(state.completed_nodes)
        )
        walk = Walk(
            graph=self._graph,
            store=kept,
            stages=stages,
            emit=self._emit,
            budget=Budget(self._limits, lambda: state.usage),
            joins=self._joins,
            root=self._root,
            questions=QuestionStore(self._root, self._clock),
            clock=self._clock,
        )
        traversal = start_traversal(walk, state, Context(state.context_values, state.logs), resumed=False)
        if state.status is RunStatus.WAITING:
            traversal.wake()
        if state.status is RunStatus.RUNNING:
            await traversal.advance()
        return Advance(state=state, entries=tuple(kept.entries), events=tuple(self._events))

    async def close(self) -> None:
        """End what handlers that were made here left running."""
        await self._own.close()

    def _fill(self, state: Checkpoint, values: Mapping[str, Any] | None) -> Checkpoint:
        state.timestamp = self._clock()
        state.context_values = Context({**mirror_graph(self._graph), **(values or {})}).snapshot()
        return state

    def _emit(self, kind: type[Event], **fields: Any) -> Event:
        event = kind(sequence=len(self._events) + 1, time=round(self._clock(), 6), **fields)
        self._events.append(event)
        return event


class _Entries:
    """Applies the entries of a step, and keeps them."""

    def __init__(self, state: Checkpoint) -> None:
        self._state = state
        self.entries: list[Entry] = []

    def append(self, entry: Entry) -> None:
        self._state.apply(entry)
        self.entries.append(entry)

    def sync(self) -> None:
        """Entries are the caller's to keep."""


def encode_state(state: Checkpoint) -> str:
    """A state as JSON, as in checkpoint.json."""
    return encode_checkpoint(state, encode_json(state.context_values))


def decode_state(text: str) -> Checkpoint:
    """The reverse; raises CheckpointError for what is no state."""
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"this is no state of a run: it is not valid JSON ({error})") from error
    return decode_checkpoint(fields, Path("the state"))
