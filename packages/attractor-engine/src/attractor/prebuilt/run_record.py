"""What the directory of a run of a Python graph tells: its state, its history, what it waits for, what failed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attractor.prebuilt.errors import Interrupt
from attractor.prebuilt.node_handler import PREFIX, Program
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import read_steps
from attractor.state.run_directory import restart_path
from attractor.state.step import RunStatus
from attractor.state.suspensions import list_suspensions, load_last_checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One step that succeeded: `node` was executed, and left `state`. `changed` are the channels that it changed.

    `number` counts from 1; `time` is in seconds since the epoch. `branch` has the node and the number of each parallel
    branch that the step lies in, whose state is the branch's own; the step that merges them is that of no node of the
    graph, and is named after the node in front of them.
    """

    number: int
    node: str
    state: Mapping[str, Any]
    changed: Mapping[str, Any]
    time: float
    branch: tuple[tuple[str, str], ...] = ()


def extract_state(context: Mapping[str, Any]) -> dict[str, Any]:
    """The channels among the values of a context."""
    return {key.removeprefix(PREFIX): value for key, value in context.items() if key.startswith(PREFIX)}


def read_last_state(run_dir: Path) -> dict[str, Any]:
    """Raises CheckpointError where there is no run."""
    return extract_state(load_last_checkpoint(run_dir).context_values)


def read_history(run_dir: Path, program: Program) -> Iterator[Snapshot]:
    """The steps of a run; raises CheckpointError."""
    number = 0
    for entry, checkpoint in read_steps(run_dir):
        node, outcome = entry.step.node_id, entry.step.outcome
        if outcome is None or not outcome.status.is_success:
            continue
        if node not in program.functions and not node.endswith(".branches"):
            continue
        number += 1
        values = dict(checkpoint.context_values)
        inner = checkpoint
        for _, branch in entry.branch:
            inner = inner.branches[branch]
            values |= inner.context_values
        yield Snapshot(
            number=number,
            node=node,
            state=extract_state(values),
            changed=extract_state({**entry.changes, **{key: values[key] for key in entry.appended}}),
            time=entry.time,
            branch=entry.branch,
        )


def find_interrupts(run_dir: Path) -> list[Interrupt]:
    """What a run waits for, runs within it included: those whose turn it is, in no more than one place of a branch."""
    found = [
        Interrupt(id=each.id, node=each.node_id, payload=each.payload, run_dir=run_dir)
        for each in list_suspensions(run_dir)
        if not each.question
    ]
    folder = restart_path(run_dir, load_last_checkpoint(run_dir).restarts)
    for manifest in sorted(folder.glob("*/child-*/manifest.json")):
        if load_last_checkpoint(manifest.parent).status is RunStatus.WAITING:
            found += find_interrupts(manifest.parent)
    return found


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a failed run stopped: of parallel branches the first one that failed.

    `at_limit` holds if `node` did not fail itself, but a limit ended the run in front of it.
    """

    node: str
    at_limit: bool


def find_stop(run_dir: Path) -> Stop:
    """Where a failed run stopped."""
    return _find_stop(load_last_checkpoint(run_dir))


def _find_stop(checkpoint: Checkpoint) -> Stop:
    if checkpoint.next_node == checkpoint.fan_out:
        for number in sorted(checkpoint.branches, key=int):
            if checkpoint.branches[number].status is RunStatus.FAILED:
                return _find_stop(checkpoint.branches[number])
    node = checkpoint.next_node
    return Stop(node, node not in checkpoint.failures)
