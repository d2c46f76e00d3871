"""Executing one node: its handler, its time limit, its retries, and what is recorded of it."""

import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import anyio

from attractor.calls import call
from attractor.engine.retry import build_retry_policy, execute_with_retry
from attractor.errors import ContextValueError
from attractor.events import (
    Emit,
    StageActivity,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
    StageSuspended,
)
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context
from attractor.state.json_values import to_json_value
from attractor.suspension import Suspend

AUTO_STATUS_NOTES = "auto-status: handler completed without writing status"


class Prepare(Protocol):
    """Brings the run directory to where the stage expects it."""

    def __call__(self, node_id: str, *, external: bool) -> None: ...


class StageExecutor:
    """Executes the nodes of one graph in one run directory. Several may be under way at once, in branches.

    `prepare(node_id, external=...)` is called before a stage starts; `external` if its handler works outside of this
    process. `first_index` is the number that the first stage to be executed has in its events.
    """

    def __init__(
        self,
        graph: Graph,
        handlers: HandlerRegistry,
        logs_root: Path,
        emit: Emit,
        *,
        prepare: Prepare = lambda node_id, *, external: None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        first_index: int = 0,
    ) -> None:
        self._graph = graph
        self._handlers = handlers
        self._logs_root = self.folder = logs_root
        self._emit = emit
        self._prepare = prepare
        self._sleep = sleep
        self._uniform = uniform
        self._index = count(first_index)
        self._turns: dict[str, anyio.Lock] = {}

    async def execute(self, node: Node, context: Context) -> tuple[Outcome, int]:
        """The node's outcome, applied to the context, and the number of attempts.

        A node that several branches come to is executed for one after the other, since it has one directory. Raises
        Suspend, of which the context has been told nothing, and what ends the whole run: cancellation, and a disk that
        can't be written.
        """
        if not context.run.branch:
            return await self._execute(node, context)
        turn = self._turns.get(node.id) or self._turns.setdefault(node.id, anyio.Lock(fast_acquire=True))
        async with turn:
            return await self._execute(node, context)

    async def _execute(self, node: Node, context: Context) -> tuple[Outcome, int]:
        begun, index = time.monotonic(), next(self._index)
        context.set("current_node", node.id)
        context.run.attempt = 0
        context.run.node_id, context.run.logs_root = node.id, self._logs_root
        handler = self._handlers.resolve(node, self._graph)
        self._prepare(node.id, external=bool(getattr(handler, "is_external", False)))
        self._emit(StageStarted, name=node.id, index=index)
        context.run.tell = lambda kind, text: self._emit(
            StageActivity, name=node.id, index=index, activity=kind, text=text
        )

        def retrying(number: int, failed: Outcome, delay: float) -> None:
            context.set(f"internal.retry_count.{node.id}", number - 1)
            error = failed.failure_reason or failed.notes or "the stage asked for another attempt"
            self._emit(StageFailed, name=node.id, index=index, error=error, will_retry=True, usage=_used(context))
            self._emit(StageRetrying, name=node.id, index=index, attempt=number, delay=delay)

        try:
            outcome, attempts = await execute_with_retry(
                partial(self._attempt, handler, node, context),
                build_retry_policy(node, self._graph),
                node_id=node.id,
                allow_partial=node.allow_partial,
                on_retry=retrying,
                sleep=self._sleep,
                uniform=self._uniform,
            )
        except Suspend:
            self._emit(StageSuspended, name=node.id, index=index)
            raise
        except anyio.get_cancelled_exc_class():
            # Whoever watches isn't left with a stage that seems to work on.
            error = f"stage {node.id!r} was stopped before it ended"
            self._emit(StageFailed, name=node.id, index=index, error=error, will_retry=False, usage=_used(context))
            raise
        outcome = _apply(node, outcome, context)
        if outcome.status is StageStatus.FAIL and not self._only_passes_on(node):
            error = outcome.failure_reason
            self._emit(StageFailed, name=node.id, index=index, error=error, will_retry=False, usage=_used(context))
        else:
            duration = round(time.monotonic() - begun, 6)
            self._emit(StageCompleted, name=node.id, index=index, duration=duration, usage=_used(context))
        return outcome, attempts

    async def _attempt(self, handler: Handler, node: Node, context: Context) -> Outcome:
        context.run.attempt += 1
        if context.run.attempt > 1 and (reason := context.run.refuse_more()):
            return Outcome.fail(f"stage {node.id!r} is not tried again: {reason}", terminal=True)
        limit = None if getattr(handler, "owns_timeout", False) else node.timeout
        if limit is None:
            result = await self._call(handler, node, context)
        else:
            with anyio.move_on_after(limit) as scope:
                result = await self._call(handler, node, context)
            if scope.cancelled_caught:
                return Outcome.fail(f"stage {node.id!r} took longer than its timeout of {node.text('timeout')}")
        if isinstance(result, Outcome):
            return _check(node, result)
        if result is not None:
            return Outcome.fail(
                f"stage {node.id!r}: its handler returned {type(result).__name__} instead of an Outcome", terminal=True
            )
        if node.auto_status:
            return Outcome.success(AUTO_STATUS_NOTES)
        return Outcome.fail(
            f"stage {node.id!r}: its handler returned no Outcome; set auto_status=true if that means success"
        )

    async def _call(self, handler: Handler, node: Node, context: Context) -> Any:
        return await call(handler.execute, node, context, self._graph, self._logs_root)

    def _only_passes_on(self, node: Node) -> bool:
        return self._graph.handler_type(node) == "conditional"


def _used(context: Context) -> dict[str, Any] | None:
    usage = context.run.usage
    return usage.to_record() if usage else None


def _check(node: Node, outcome: Outcome) -> Outcome:
    """The outcome, if everything about it can be recorded."""
    try:
        updates: Mapping[str, Any] = {
            key: to_json_value(value, key) for key, value in outcome.context_updates.items() if isinstance(key, str)
        }
        if len(updates) != len(outcome.context_updates):
            raise ContextValueError("context keys must be text")
        status = StageStatus(outcome.status)
        texts = (outcome.preferred_label, outcome.notes, outcome.failure_reason, *outcome.suggested_next_ids)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("its label, notes, reason and suggested ids must be text")
    except (ContextValueError, TypeError, ValueError) as error:
        return Outcome.fail(f"stage {node.id!r}: {error}", terminal=True)
    return (
        replace(outcome, status=status, context_updates=updates) if updates or status is not outcome.status else outcome
    )


def _apply(node: Node, outcome: Outcome, context: Context) -> Outcome:
    """Tell the context. A skipped stage leaves no outcome there (section 5.2)."""
    context.apply_updates(outcome.context_updates)
    if outcome.status is not StageStatus.SKIPPED:
        context.set("outcome", outcome.status.value)
    if outcome.preferred_label:
        context.set("preferred_label", outcome.preferred_label)
    counter = f"internal.retry_count.{node.id}"
    if outcome.status.is_success and context.get(counter):
        context.set(counter, 0)
    return outcome
