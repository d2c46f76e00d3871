"""The state of a run, and the steps that make it (section 5.3).

A run is the fold of its steps: `checkpoint.apply(step)` is the one place where state changes, live and when a journal
is read back. So what a killed run continues from is what it would have had.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attractor.errors import CheckpointError
from attractor.graph import Graph, to_text
from attractor.outcome import Outcome, StageStatus
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.step import Entry, RunStatus, Step, decode_outcome, decode_suspension, encode_outcome
from attractor.state.usage import TokenUsage
from attractor.suspension import Suspension

FORMAT = 1
CHECKPOINT_NAME = "checkpoint.json"
JOURNAL_NAME = "journal.jsonl"


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """Everything that a run needs to go on.

    `current_node` is the last completed node, `next_node` the one to execute. `node_retries` counts the additional
    attempts of a node's last visit, `executions` all its attempts. `failures` holds a node's last reason and how many
    visits in a row ended with it. `sequence` counts steps; times are seconds since the epoch. `usage` adds up what all
    stages used of models, restarts and branches included; None if none did. `elapsed` is for how many seconds the run
    was executed, without the time in which no process did. `suspension` is what the next node waits for, `given` the
    values that it was given in this visit, in order.

    `branches` are those of the fan-out that is under way or was the last to be, the node `fan_out`, by number. Each has
    a state of its own, whose context holds only what it changed. When the fan-out completes, its branches' nodes are
    added to those of the run, in the order of the branches, however fast each one was. They are kept until a later
    node completes, so that a fan-out that is tried again goes on with them.
    """

    run_id: str = ""
    graph_hash: str = ""
    timestamp: float = 0.0
    current_node: str = ""
    next_node: str = ""
    edge: int | None = None
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    sequence: int = 0
    completed_nodes: list[str] = field(default_factory=list)
    node_outcomes: dict[str, Outcome] = field(default_factory=dict)
    node_retries: dict[str, int] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    failures: dict[str, tuple[str, int]] = field(default_factory=dict)
    gate_rounds: int = 0
    restarts: int = 0
    context_values: dict[str, Any] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    fan_out: str = ""
    branches: dict[str, "Checkpoint"] = field(default_factory=dict)
    usage: TokenUsage | None = None
    elapsed: float = 0.0
    suspension: Suspension | None = None
    given: list[Any] = field(default_factory=list)

    def apply(self, entry: "Entry") -> None:
        """Move on by one step, or let a branch move on."""
        self._apply(entry, entry.branch)

    def _apply(self, entry: Entry, branch: Sequence[tuple[str, str]]) -> None:
        step, before, stood_at = entry.step, self.status, self.next_node
        self.sequence += 1
        self.elapsed = max(self.elapsed, entry.elapsed)
        self.timestamp = entry.time
        if entry.usage is not None:
            self.usage = entry.usage if self.usage is None else self.usage + entry.usage
        if branch:
            (fan_out, number), *inner = branch
            self.begin_fan_out(fan_out)
            if number not in self.branches:
                self.branches[number] = Checkpoint()
            self.branches[number]._apply(entry, inner)
            return
        self.next_node, self.edge = step.next_node, step.edge
        self.status, self.reason = step.status, step.reason
        self.suspension = step.suspension
        self.given.extend(step.given)
        self.context_values.update(entry.changes)
        for key, items in entry.appended.items():
            self.context_values[key] = [*self.context_values[key], *items]
        self.logs.extend(entry.logs)
        if step.outcome is not None:
            self._gather_branches(step)
            self._complete(step.node_id, step.outcome, step.attempts)
        elif step.node_id:
            self.gate_rounds += 1
        elif step.status is RunStatus.RUNNING and (before is not RunStatus.WAITING or step.next_node != stood_at):
            self._resume(before)

    def _resume(self, before: RunStatus) -> None:
        """Someone decided to go on: what counts against a stuck run starts anew."""
        self.failures.clear()
        self.given.clear()
        if before is RunStatus.FAILED:
            self.visits.clear()
            self.gate_rounds = 0
        if self.next_node != self.fan_out:
            self.branches.clear()
        elif before is RunStatus.FAILED:
            for branch in self.branches.values():
                branch.reopen()

    def begin_fan_out(self, node_id: str) -> None:
        """Forget the branches of another fan-out."""
        if self.fan_out != node_id:
            self.fan_out = node_id
            self.branches.clear()

    def reopen(self) -> None:
        """Let a branch that failed or was abandoned try again where it stopped."""
        if self.status in (RunStatus.FAILED, RunStatus.CANCELLED):
            self.status, self.reason = RunStatus.RUNNING, ""
            self._resume(RunStatus.FAILED)

    def _gather_branches(self, step: Step) -> None:
        for number in sorted(self.branches, key=int):
            branch = self.branches[number]
            self.completed_nodes += branch.completed_nodes
            self.node_outcomes |= branch.node_outcomes
            self.node_retries |= branch.node_retries
            for mine, theirs in ((self.visits, branch.visits), (self.executions, branch.executions)):
                for node_id, count in theirs.items():
                    mine[node_id] = mine.get(node_id, 0) + count
            # Counted once, even if the branch goes on later.
            branch.completed_nodes.clear()
            branch.visits.clear()
            branch.executions.clear()
        if step.status is RunStatus.RUNNING and (step.node_id != self.fan_out or step.next_node == self.fan_out):
            self.branches.clear()

    def _complete(self, node_id: str, outcome: Outcome, attempts: int) -> None:
        self.current_node = node_id
        self.given.clear()
        self.completed_nodes.append(node_id)
        self.visits[node_id] = self.visits.get(node_id, 0) + 1
        self.executions[node_id] = self.executions.get(node_id, 0) + attempts
        if attempts > 1 or node_id in self.node_retries:
            self.node_retries[node_id] = attempts - 1
        # A skipped stage proceeds without recording an outcome (section 5.2).
        if outcome.status is not StageStatus.SKIPPED:
            self.node_outcomes[node_id] = outcome.without_updates()
        if outcome.status is StageStatus.FAIL:
            reason, count = self.failures.get(node_id, ("", 0))
            self.failures[node_id] = (outcome.failure_reason, count + 1 if reason == outcome.failure_reason else 1)
        else:
            self.failures.pop(node_id, None)

    def restarted(self) -> "Checkpoint":
        """The state behind an edge with loop_restart: fresh, but for what makes a run come to an end."""
        return Checkpoint(
            run_id=self.run_id,
            graph_hash=self.graph_hash,
            next_node=self.next_node,
            visits=dict(self.visits),
            executions=dict(self.executions),
            failures=dict(self.failures),
            gate_rounds=self.gate_rounds,
            restarts=self.restarts + 1,
            usage=self.usage,
            elapsed=self.elapsed,
        )

    def save(self, path: Path) -> None:
        """Write a checkpoint file by itself, not atomically; a run's own is kept by CheckpointStore."""
        path.write_bytes(to_bytes(encode_checkpoint(self, encode_json(self.context_values))))

    @staticmethod
    def load(path: Path) -> "Checkpoint":
        """Read checkpoint.json, given itself or its directory; raises CheckpointError, which says what to do.

        For what a killed run continues from, which may be a few steps further, see `load_checkpoint()`.
        """
        path = path / CHECKPOINT_NAME if path.is_dir() else path
        try:
            fields = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise CheckpointError(f"{path} does not exist; name a run directory, or start a new run") from None
        except OSError as error:
            raise CheckpointError(f"{path} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise CheckpointError(f"{path} is damaged: it is not valid JSON ({error}); {_advice(path)}") from error
        return decode_checkpoint(fields, path)


def hash_graph(graph: Graph) -> str:
    """A digest of the pipeline, to recognise a checkpoint of another one."""
    text = graph.source or encode_json(
        [
            graph.name,
            _texts(graph.attrs),
            {node.id: [_texts(node.attrs), list(node.classes)] for node in graph.nodes.values()},
            [[edge.source, edge.target, _texts(edge.attrs)] for edge in graph.edges],
        ]
    )
    return hashlib.sha256(to_bytes(text)).hexdigest()[:16]


def _texts(attrs: Mapping[str, Any]) -> dict[str, str]:
    return {key: to_text(value) for key, value in attrs.items()}


_PLAIN_FIELDS = (
    ("run_id", str),
    ("graph_hash", str),
    ("timestamp", (int, float)),
    ("current_node", str),
    ("next_node", str),
    ("edge", (int, type(None))),
    ("reason", str),
    ("sequence", int),
    ("completed_nodes", list),
    ("node_retries", dict),
    ("visits", dict),
    ("executions", dict),
    ("gate_rounds", int),
    ("restarts", int),
    ("logs", list),
    ("fan_out", str),
)


def encode_checkpoint(checkpoint: Checkpoint, context: str) -> str:
    """The content of checkpoint.json. `context` is the JSON of the context, which the caller keeps."""
    fields: dict[str, Any] = {"format": FORMAT, "status": checkpoint.status.value}
    fields.update((name, getattr(checkpoint, name)) for name, _ in _PLAIN_FIELDS)
    fields["failures"] = checkpoint.failures
    if checkpoint.usage is not None:
        fields["usage"] = checkpoint.usage.to_record()
    if checkpoint.suspension is not None:
        fields["suspension"] = checkpoint.suspension.to_record()
    fields.update((name, value) for name in ("elapsed", "given") if (value := getattr(checkpoint, name)))
    # Apart from the rest, as the encoder takes several times the length of what it makes at once.
    outcomes = encode_json({node_id: encode_outcome(outcome) for node_id, outcome in checkpoint.node_outcomes.items()})
    branches = [
        f"{encode_json(number)}:{encode_checkpoint(branch, encode_json(branch.context_values))}"
        for number, branch in checkpoint.branches.items()
    ]
    return "".join(
        (
            encode_json(fields)[:-1],
            f',"node_outcomes":{outcomes}',
            f',"branches":{{{",".join(branches)}}},"context":{context}}}',
        )
    )


def decode_checkpoint(fields: Any, path: Path) -> Checkpoint:
    """The reverse; raises CheckpointError naming the field at fault."""
    if not isinstance(fields, dict) or "format" not in fields:
        raise CheckpointError(f"{path} is no checkpoint of this program; {_advice(path)}")
    if fields["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has format {fields['format']!r}, and this version reads format {FORMAT}; resume it with the "
            "version that wrote it"
        )
    for name, kind in (
        *_PLAIN_FIELDS,
        ("status", str),
        ("context", dict),
        ("node_outcomes", dict),
        ("failures", dict),
        ("branches", dict),
    ):
        if not isinstance(fields.get(name, _MISSING), kind):
            raise CheckpointError(
                f"{path} is damaged: its field {name!r} is missing or of the wrong type; {_advice(path)}"
            )
        if not all(isinstance(item, kind) for item in _items(fields[name]) for kind in _ITEMS.get(name, ())):
            raise CheckpointError(f"{path} is damaged: its field {name!r} holds something else; {_advice(path)}")
    try:
        return Checkpoint(
            **{name: fields[name] for name, _ in _PLAIN_FIELDS},
            status=RunStatus(fields["status"]),
            context_values=fields["context"],
            node_outcomes={node_id: decode_outcome(outcome) for node_id, outcome in fields["node_outcomes"].items()},
            failures={node_id: (reason, count) for node_id, (reason, count) in fields["failures"].items()},
            branches={number: decode_checkpoint(branch, path) for number, branch in fields["branches"].items()},
            usage=TokenUsage.from_record(fields["usage"]) if "usage" in fields else None,
            elapsed=float(fields.get("elapsed", 0.0)),
            suspension=decode_suspension(fields),
            given=list(fields.get("given", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error!r}; {_advice(path)}") from error


_MISSING = object()
_ITEMS: Mapping[str, Sequence[type]] = {
    "completed_nodes": (str,),
    "node_retries": (int,),
    "visits": (int,),
    "executions": (int,),
    "logs": (str,),
}
"""What the lists and dicts among the fields hold."""


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _advice(path: Path) -> str:
    if path.name == CHECKPOINT_NAME and (path.parent / JOURNAL_NAME).exists():
        return "delete that file to resume from the journal beside it, which holds every step, or start a new run"
    return "start a new run in another directory"
