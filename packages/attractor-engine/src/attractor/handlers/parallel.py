"""The fan-out: branches that run at once, and what becomes of their results (section 4.8)."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from attractor.errors import PipelineConfigurationError
from attractor.events import Emit, ParallelBranchCompleted, ParallelBranchStarted, ParallelCompleted, ParallelStarted
from attractor.graph import Edge, Graph, Node, to_int
from attractor.handlers.codergen import RESPONSE_NAME
from attractor.handlers.tool import keep_ends
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import BranchEnd, Context, FanOut
from attractor.state.run_directory import stage_path
from attractor.state.stage_files import read_file
from attractor.suspension import Suspend

RESULTS_KEY = "parallel.results"
FAILURE_KEY = "parallel.failure"
BEST_ID_KEY = "parallel.fan_in.best_id"
MAX_PARALLEL = 4
_RESPONSE_CHARACTERS = 8_000
_BOOKKEEPING = ("internal.", "parallel.", "current_node", "outcome", "preferred_label", "last_stage", "last_response")


@dataclass(frozen=True, slots=True)
class JoinPolicy:
    """`needed` successful branches end the fan-out, and the others are abandoned; None waits for all of them."""

    name: str
    needed: int | None

    @classmethod
    def of_node(cls, node: Node, branches: int) -> "JoinPolicy":
        """By `join_policy`: wait_all, first_success, or quorum of `join_count`, by default more than half."""
        name = node.text("join_policy") or "wait_all"
        if name == "first_success":
            return cls(name, 1)
        if name == "quorum":
            count = to_int(node.attrs.get("join_count")) or branches // 2 + 1
            if not 0 < count <= branches:
                raise PipelineConfigurationError(
                    f"fan-out {node.id!r}: join_count is {count}, but there are {branches} branches"
                )
            return cls(name, count)
        return cls("wait_all", None)

    def is_satisfied(self, successes: int) -> bool:
        """Whether no further branch is needed."""
        return self.needed is not None and successes >= self.needed


class ParallelHandler:
    """Runs the branches behind its edges, at most `max_parallel` at once, each in a context of its own.

    A branch that fails, or raises, leaves the others alone. When the node's `timeout` has passed, branches that have
    not ended fail. Results go to the context as `parallel.results`: of each branch `id` (its first node), `outcome`,
    `notes`, `failure_reason`, `response` (what its last model or command said), `context_updates` and `score`. The
    branches' own changes of the context stay theirs. A branch that must wait for something from outside suspends the
    fan-out when the others have ended.
    """

    owns_timeout = True

    def __init__(self, emit: Emit | None = None) -> None:
        self._emit = emit or (lambda kind, **fields: kind(**fields))

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if context.run.open_fan_out is None:
            raise PipelineConfigurationError(f"fan-out {node.id!r} can only be executed within a run")
        fan_out = context.run.open_fan_out(node, context)
        if not fan_out.edges:
            return Outcome.fail(f"fan-out {node.id!r} has no branches: no edge leads on from it", terminal=True)
        policy = JoinPolicy.of_node(node, len(fan_out.edges))
        if context.run.attempt > 1:
            fan_out.reopen()
        begun = time.monotonic()
        self._emit(ParallelStarted, branch_count=len(fan_out.edges))
        round_ = _Round(node, fan_out, policy, self._emit)
        try:
            ends = await round_.run()
        except Suspend:
            # Neither is the fan-out over: it begins again when the run goes on.
            raise
        except BaseException:
            round_.break_off()
            fan_out.hand_over()
            self._emit(ParallelCompleted, duration=round(time.monotonic() - begun, 6), **round_.count())
            raise
        self._emit(ParallelCompleted, duration=round(time.monotonic() - begun, 6), **round_.count())
        before = len(context.logs)
        for line in [line for end in ends for line in end.context.logs[before:]]:
            context.append_log(line)
        results = [describe_end(id, end, logs_root) for id, end in zip(name_branches(fan_out.edges), ends, strict=True)]
        joins_at_fan_in = fan_out.join != "" and graph.handler_type(graph.nodes[fan_out.join]) == "parallel.fan_in"
        successes = sum(end.outcome.status.is_success for end in ends)
        outcome = _judge(node, policy, results, successes, joins_at_fan_in=joins_at_fan_in)
        if context.get(BEST_ID_KEY):
            # An earlier fan-in chose among other branches.
            return replace(outcome, context_updates={**outcome.context_updates, BEST_ID_KEY: ""})
        return outcome


class _Round:
    """One go at the branches that have not ended."""

    def __init__(self, node: Node, fan_out: FanOut, policy: JoinPolicy, emit: Emit) -> None:
        self._node = node
        self._fan_out = fan_out
        self._policy = policy
        self._emit = emit
        most = max(to_int(node.attrs.get("max_parallel")) or MAX_PARALLEL, 1)
        self._limiter = anyio.CapacityLimiter(most) if most < len(fan_out.edges) else nullcontext()
        self._started: dict[int, float] = {}
        self._ends: dict[int, BranchEnd] = {}
        self._successes = 0
        self._failure: BaseException | None = None
        self._is_waiting = False

    async def run(self) -> list[BranchEnd]:
        """How all branches ended, in their order."""
        numbers = range(len(self._fan_out.edges))
        # A run that was killed goes on here: what ended before is not run again.
        for number in numbers:
            if (end := self._fan_out.find_end(number)) is not None:
                self._end(number, end)
        with anyio.move_on_after(self._node.timeout) as scope:
            async with anyio.create_task_group() as tasks:
                for number in numbers:
                    if number not in self._ends and not self._is_satisfied():
                        tasks.start_soon(self._run_branch, number, tasks.cancel_scope)
        if self._failure is not None:
            raise self._failure
        late = scope.cancelled_caught
        if self._is_waiting and not late and not self._is_satisfied():
            raise Suspend(nested=True)
        reason = f"fan-out {self._node.id!r} took longer than its timeout of {self._node.text('timeout')}"
        for number in numbers:
            if number not in self._ends:
                why = reason if late else "abandoned: enough other branches succeeded"
                self._end(number, self._fan_out.abandon(number, why, failed=late))
        return [self._ends[number] for number in numbers]

    def break_off(self) -> None:
        """Whoever watches isn't left with branches that seem to work on."""
        for number in self._started.keys() - self._ends.keys():
            self._tell_end(number, success=False)

    def count(self) -> dict[str, int]:
        """How many branches succeeded and failed so far."""
        failures = sum(end.outcome.status is StageStatus.FAIL for end in self._ends.values())
        return {"success_count": self._successes, "failure_count": failures}

    async def _run_branch(self, number: int, others: anyio.CancelScope) -> None:
        async with self._limiter:
            self._started[number] = time.monotonic()
            self._emit(ParallelBranchStarted, branch=self._fan_out.edges[number].target, index=number)
            try:
                self._end(number, await self._fan_out.run(number))
            except Suspend:
                # The others go on meanwhile, and finish what they can.
                self._is_waiting = True
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                # No stage's: those are outcomes by now. The run directory can't be written, and no branch can go on; or
                # the process shall end.
                self._failure = error
                others.cancel()
        if self._is_satisfied():
            others.cancel()

    def _end(self, number: int, end: BranchEnd) -> None:
        self._ends[number] = end
        self._successes += end.outcome.status.is_success
        if number in self._started:
            self._tell_end(number, success=end.outcome.status.is_success)

    def _tell_end(self, number: int, *, success: bool) -> None:
        self._emit(
            ParallelBranchCompleted,
            branch=self._fan_out.edges[number].target,
            index=number,
            duration=round(time.monotonic() - self._started[number], 6),
            success=success,
        )

    def _is_satisfied(self) -> bool:
        return self._policy.is_satisfied(self._successes)


def name_branches(edges: Sequence[Edge]) -> list[str]:
    """An id for each branch: its first node; a second branch that begins there gets a number."""
    seen: Counter[str] = Counter()
    ids = []
    for edge in edges:
        seen[edge.target] += 1
        ids.append(edge.target if seen[edge.target] == 1 else f"{edge.target}#{seen[edge.target]}")
    return ids


def describe_end(branch_id: str, end: BranchEnd, logs_root: Path) -> dict[str, Any]:
    """A branch's result as the context has it."""
    outcome = end.outcome
    score = end.changes.get("score")
    return {
        "id": branch_id,
        "outcome": outcome.status.value,
        "notes": outcome.notes,
        "failure_reason": outcome.failure_reason,
        "last_node": end.last_node,
        "response": _read_response(end, logs_root),
        "context_updates": {key: value for key, value in end.changes.items() if not key.startswith(_BOOKKEEPING)},
        "score": score if isinstance(score, int | float) and not isinstance(score, bool) else 0,
    }


def _read_response(end: BranchEnd, logs_root: Path) -> str:
    """What the branch's last model or command said."""
    stage = end.changes.get("last_stage")
    if not isinstance(stage, str):
        return ""
    try:
        text = read_file(stage_path(logs_root, stage) / RESPONSE_NAME).decode("utf-8", "replace")
    except OSError:
        text = str(end.changes.get("tool.output") or end.changes.get("last_response") or "")
    return keep_ends(text, _RESPONSE_CHARACTERS)


def _judge(
    node: Node, policy: JoinPolicy, results: Sequence[Mapping[str, Any]], successes: int, *, joins_at_fan_in: bool
) -> Outcome:
    failed = [result for result in results if result["outcome"] == StageStatus.FAIL]
    notes = f"{successes} of {len(results)} branches succeeded"
    if failed:
        notes += "; failed: " + "; ".join(f"{result['id']} ({result['failure_reason']})" for result in failed)
    reason = ""
    if policy.needed is not None and not policy.is_satisfied(successes):
        reason = f"fan-out {node.id!r}: join_policy {policy.name} needs {policy.needed}, but {notes}"
    elif len(failed) == len(results) and not joins_at_fan_in:
        # A fan-in would report it; nobody else would.
        reason = f"fan-out {node.id!r}: {notes}"
    updates = {
        RESULTS_KEY: list(results),
        FAILURE_KEY: reason,
        "parallel.success_count": successes,
        "parallel.failure_count": len(failed),
    }
    if reason:
        return Outcome.fail(keep_ends(reason, 2_000), context_updates=updates, notes=notes)
    partial = policy.needed is None and failed
    status = StageStatus.PARTIAL_SUCCESS if partial else StageStatus.SUCCESS
    return Outcome(status=status, notes=notes, context_updates=updates)
