"""One step of a run, and how the journal writes it down (section 5.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from attractor.outcome import Outcome, StageStatus
from attractor.state.json_values import encode_json
from attractor.state.usage import TokenUsage
from attractor.suspension import Suspension

BranchPath = tuple[tuple[str, str], ...]
"""Where a branch lies: the fan-out and its number there, behind those of the branches that it lies in."""


class RunStatus(StrEnum):
    """Where a run stands. RESTARTED: an edge with loop_restart went on in `restart-N`.

    WAITING: a stage, or one in each of several branches, waits for something from outside.
    """

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RESTARTED = "restarted"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one visit of a node changed, and where the run goes.

    `outcome` is None where no handler ran: the exit turned a run away because of a goal gate, a limit ended it, someone
    stopped or resumed it. `next_node` is empty at an end, which `status` then names. `edge` is the index, among the
    source's outgoing edges, of the edge taken; None for a jump. `suspension` is what a suspended stage waits for,
    `given` the value that it goes on with, alone in a tuple.
    """

    node_id: str
    outcome: Outcome | None = None
    attempts: int = 1
    next_node: str = ""
    edge: int | None = None
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    suspension: Suspension | None = None
    given: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A step as the journal has it: with what it changed in the context and log, its time and what it used of a model.

    A step of a branch names it: by its fan-out and its number there, behind those of the branches that it lies in.
    `elapsed` is for how many seconds the run has been executed by then, in all processes. `appended` are items that a
    list of the context got behind those it had: a journal writes these instead of the whole list among the `changes`.
    """

    step: Step
    time: float
    changes: Mapping[str, Any]
    logs: Sequence[str] = ()
    branch: BranchPath = ()
    usage: TokenUsage | None = None
    elapsed: float = 0.0
    appended: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """The fields that are not at their default; without the updates, which the context has."""
    fields: dict[str, Any] = {"status": outcome.status.value}
    for name in ("preferred_label", "notes", "failure_reason", "word", "terminal"):
        if value := getattr(outcome, name):
            fields[name] = value
    if outcome.suggested_next_ids:
        fields["suggested_next_ids"] = list(outcome.suggested_next_ids)
    return fields


def decode_outcome(fields: Mapping[str, Any]) -> Outcome:
    """The reverse; raises KeyError, TypeError or ValueError for what is no outcome."""
    return Outcome(
        **{
            **fields,
            "status": StageStatus(fields["status"]),
            "suggested_next_ids": tuple(fields.get("suggested_next_ids", ())),
        }
    )


def encode_entry(entry: Entry, changes: str, appended: str) -> str:
    """One line of the journal. `changes` and `appended` are the JSON of what the context changed, or empty."""
    step = entry.step
    fields: dict[str, Any] = {"node": step.node_id, "time": round(entry.time, 3)}
    if step.outcome is not None:
        fields["outcome"] = encode_outcome(step.outcome)
        if step.outcome.context_updates:
            fields["updates"] = list(step.outcome.context_updates)
    if step.next_node:
        fields["next"] = step.next_node
    if step.edge is not None:
        fields["edge"] = step.edge
    if step.attempts != 1:
        fields["attempts"] = step.attempts
    if step.status is not RunStatus.RUNNING:
        fields["end"] = step.status.value
    if step.reason:
        fields["reason"] = step.reason
    if entry.logs:
        fields["logs"] = entry.logs
    if entry.branch:
        fields["branch"] = entry.branch
    if entry.usage is not None:
        fields["usage"] = entry.usage.to_record()
    if entry.elapsed:
        fields["elapsed"] = entry.elapsed
    if step.suspension is not None:
        fields["suspension"] = step.suspension.to_record()
    if step.given:
        fields["given"] = step.given
    line = encode_json(fields)[:-1]
    line += f',"context":{changes}' if changes else ""
    return line + (f',"appended":{appended}}}' if appended else "}")


def decode_entry(fields: Mapping[str, Any]) -> Entry:
    """The reverse; raises KeyError, TypeError or ValueError for what is no entry."""
    step = Step(
        node_id=fields["node"],
        outcome=decode_outcome(fields["outcome"]) if "outcome" in fields else None,
        attempts=fields.get("attempts", 1),
        next_node=fields.get("next", ""),
        edge=fields.get("edge"),
        status=RunStatus(fields.get("end", "running")),
        reason=fields.get("reason", ""),
        suspension=decode_suspension(fields),
        given=tuple(fields.get("given", ())),
    )
    branch = tuple((fan_out, number) for fan_out, number in fields.get("branch", ()))
    usage = TokenUsage.from_record(fields["usage"]) if "usage" in fields else None
    elapsed = fields.get("elapsed", 0.0)
    return Entry(
        step,
        fields["time"],
        fields.get("context", {}),
        fields.get("logs", ()),
        branch,
        usage,
        elapsed,
        fields.get("appended", {}),
    )


def decode_suspension(fields: Mapping[str, Any]) -> Suspension | None:
    """What a record of a step or a checkpoint says of it."""
    return Suspension.from_record(fields["suspension"]) if "suspension" in fields else None
