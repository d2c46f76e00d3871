"""Handlers for what need not, or must not, be done twice."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

from attractor.effects import (
    ON_INCOMPLETE,
    EffectRecord,
    EffectStore,
    IdempotentOp,
    SqliteEffectStore,
    artifact_key,
)
from attractor.graph import Graph, Node, to_seconds
from attractor.handlers.work import Toolkit, do_work
from attractor.outcome import Outcome
from attractor.state.context import Context

STORE_PATH = ".attractor/effects.sqlite3"
STATUS_KEY = "effect.status"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the stages of one run look up what was done. `store` goes before what a node names."""

    working_dir: Path
    store: EffectStore | None = None
    clock: Callable[[], float] = time

    def find(self, node: Node) -> EffectStore:
        """The node's store: by default a file in the working directory."""
        return self.store or SqliteEffectStore(self.working_dir / (node.text("effect.store") or STORE_PATH))


class SkipIfDoneHandler:
    """Does the node's work, unless it was done before for the same values: then its context updates are told again.

    The work is a `function`, `tool_command` or `prompt`; it counts for the pipeline's name and goal, the node's id, the
    work as it is written, and the context values that `effect.key_from` names. Only success is kept, for `effect.ttl`.
    Files that the work made are not.
    """

    is_external = True

    def __init__(self, toolkit: Toolkit, ledger: Ledger) -> None:
        self._toolkit = toolkit
        self._ledger = ledger

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if _is_rehearsal(self._toolkit, node):
            return await do_work(self._toolkit, node, context, graph, logs_root)
        store, now = self._ledger.find(node), self._ledger.clock()
        key = artifact_key("skip_if_done", *_name(node, graph), _read_values(node, context))
        found = await store.find(key)
        if found is not None and found.done and found.holds(now):
            updates = {**found.result["context_updates"], STATUS_KEY: "known"}
            return Outcome.success(
                "Done before", preferred_label=found.result["preferred_label"], context_updates=updates
            )
        outcome = await do_work(self._toolkit, node, context, graph, logs_root)
        if outcome.status.is_success:
            done = EffectRecord(
                key=key,
                owner=uuid4().hex,
                claimed_at=now,
                done=True,
                result=_keep(outcome),
                expires_at=_expires_at(node, self._ledger.clock()),
            )
            await store.put(done)
        return outcome


class IdempotentHandler:
    """Does the node's work at most once for a key: claims it, does it, commits it (see IdempotentOp).

    The key is the pipeline's name, the node's id and the context values that `effect.key_from` names. Work that was
    claimed and not committed, because its process died or it failed, may have happened: `effect.on_incomplete` says
    whether that is an error, is skipped, or is done again. `effect.status` in the context tells what was done now:
    "done", "known" or "skipped".
    """

    is_external = True

    def __init__(self, toolkit: Toolkit, ledger: Ledger) -> None:
        self._toolkit = toolkit
        self._ledger = ledger

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        policy = node.text("effect.on_incomplete") or "error"
        if policy not in ON_INCOMPLETE:
            choices = ", ".join(ON_INCOMPLETE)
            return Outcome.fail(
                f"node {node.id!r}: effect.on_incomplete is one of {choices}, not {policy!r}", terminal=True
            )
        if _is_rehearsal(self._toolkit, node):
            return await do_work(self._toolkit, node, context, graph, logs_root)
        now: list[Outcome] = []

        async def perform() -> dict[str, Any]:
            outcome = await do_work(self._toolkit, node, context, graph, logs_root)
            if not outcome.status.is_success:
                raise _NotDoneError(outcome)
            now.append(outcome)
            return _keep(outcome)

        ttl = to_seconds(node.attrs.get("effect.ttl"))
        op = IdempotentOp(self._ledger.find(node), f"{graph.name}/{node.id}", ttl, clock=self._ledger.clock)
        try:
            kept = await op.run(_read_values(node, context), perform, policy)
        except _NotDoneError as error:
            return error.outcome
        if kept is None:
            return Outcome.success("Begun before, and skipped", context_updates={STATUS_KEY: "skipped"})
        updates = {**kept["context_updates"], STATUS_KEY: "done" if now else "known"}
        notes = now[0].notes if now else "Done before"
        return Outcome.success(notes, preferred_label=kept["preferred_label"], context_updates=updates)


class _NotDoneError(Exception):
    """Carries the outcome of work that failed out of the operation, which so stays incomplete."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.failure_reason)
        self.outcome = outcome


def _name(node: Node, graph: Graph) -> tuple[Any, ...]:
    return graph.name, node.id, [node.text(key) for key in ("function", "tool_command", "prompt")], graph.goal


def _read_values(node: Node, context: Context) -> dict[str, Any]:
    names = [name.strip() for name in node.text("effect.key_from").split(",")]
    return {name: context.get(name) for name in names if name}


def _expires_at(node: Node, now: float) -> float | None:
    ttl = to_seconds(node.attrs.get("effect.ttl"))
    return None if ttl is None else now + ttl


def _keep(outcome: Outcome) -> dict[str, Any]:
    return {"context_updates": dict(outcome.context_updates), "preferred_label": outcome.preferred_label}


def _is_rehearsal(toolkit: Toolkit, node: Node) -> bool:
    """Whether nothing would be done, so that nothing may be kept."""
    if node.text("function"):
        return False
    return toolkit.dry_run if node.text("tool_command") else toolkit.is_simulated
