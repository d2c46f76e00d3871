"""The key-value store that the stages of a run share (section 5.1)."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from attractor.events import Emit
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome
from attractor.state.json_values import copy_json, to_json_value
from attractor.state.run_directory import stage_path
from attractor.state.usage import TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchEnd:
    """How a branch ended: with the outcome of its last node, `last_node`, or with what stopped it.

    `context` is the branch's own, `changes` what it changed in it. `abandoned` means that it wasn't let to its end.
    """

    outcome: Outcome
    last_node: str
    context: "Context"
    changes: Mapping[str, Any]
    abandoned: bool = False


class FanOut(Protocol):
    """The branches of a fan-out, which the engine runs and a handler decides about.

    `edges` are where they begin; methods take a branch's number among them. `join` is the node where the branches meet,
    empty if they don't.
    """

    @property
    def edges(self) -> Sequence[Edge]: ...

    @property
    def join(self) -> str: ...

    def find_end(self, number: int) -> BranchEnd | None:
        """How the branch ended; None while it has not."""
        ...

    async def run(self, number: int) -> BranchEnd:
        """Run the branch, from where it stands, to its end; raises Suspend if it must wait before that."""
        ...

    def abandon(self, number: int, reason: str, *, failed: bool) -> BranchEnd:
        """Record that the branch is not let to its end; one that has ended stays as it is."""
        ...

    def hand_over(self) -> None:
        """Count with the fan-out's stage what the branches used of models that no step of theirs has recorded."""
        ...

    def reopen(self) -> None:
        """Let the branches that failed or were abandoned try again, where they stopped."""
        ...


@dataclass(slots=True)
class RunFacts:
    """What the engine knows and handlers may read. It is no part of the context's values.

    `node_id` is the stage that is executed, `logs_root` the directory in which its own lies; `incoming_edge` is None at
    the start and after a jump.
    `last_outcome` is that of the last stage that recorded one. `executions` counts each node's attempts in visits
    before this one, `attempt` those of this visit, the one under way included. `resumed` holds for the first stage
    after a resumption. `branch` has the fan-out and the number of each branch that the stage lies in; in a branch,
    `outer_executions` counts the attempts before its fan-out. `open_fan_out` gives a handler the branches of its node.
    `usage` is what the stage used of a model so far; whoever asks one adds to it, by `add_usage()`, and asks no more
    when `refuse_more()` says so. `given` are the
    values that a stage which suspended itself in this visit was given since, in order. `run_root` is the run directory,
    also after a restart; `questions_root` that of the outermost run, which has the questions of all. `tell` lets
    observers know what the stage is doing now: a kind and a short text; `emit` records an event. `refuse_child` tells a
    stage that is a run itself, given that run's directory and what it used, why it may use no more. `working_dir` is
    where a run within another works, if its node says so; `depth` counts the runs around this one.
    """

    run_id: str = ""
    graph: Graph | None = None
    node_id: str = ""
    logs_root: Path | None = None
    last_outcome: Outcome | None = None
    previous_node: str = ""
    incoming_edge: Edge | None = None
    resumed: bool = False
    node_outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    executions: Mapping[str, int] = field(default_factory=dict)
    attempt: int = 0
    branch: tuple[tuple[str, str], ...] = ()
    outer_executions: Sequence[Mapping[str, int]] = ()
    open_fan_out: Callable[[Node, "Context"], FanOut] | None = None
    usage: TokenUsage | None = None
    is_counted: bool = False
    given: tuple[Any, ...] = ()
    run_root: Path | None = None
    questions_root: Path | None = None
    tell: Callable[[str, str], object] = lambda kind, text: None
    emit: Emit = lambda kind, **fields: kind(**fields)
    refuse_child: Callable[[str, TokenUsage | None], str] = lambda child, usage: ""
    working_dir: Path | None = None
    depth: int = 0

    @property
    def stage_dir(self) -> Path | None:
        """The directory of the stage that is executed; None outside of a run. It may not exist yet."""
        # Made when asked for: a path costs more than all else that is noted here, and few stages want it.
        return None if self.logs_root is None else stage_path(self.logs_root, self.node_id)

    def attempt_number(self, node_id: str) -> int:
        """Which attempt of the whole run this is for the node that is executed, counted from 1."""
        before = sum(counts.get(node_id, 0) for counts in (self.executions, *self.outer_executions))
        return before + max(self.attempt, 1)

    def add_usage(self, usage: TokenUsage) -> None:
        """Count what a call to a model used, whether or not the stage succeeds."""
        self.usage = usage if self.usage is None else self.usage + usage
        self.refuse_more()

    def refuse_more(self, usage: TokenUsage | None = None) -> str:
        """Why the stage may ask no more of models, if it used this beside what was added; empty if it may.

        What stages use that are at work at the same time, and runs within them, counts at once.
        """
        total = self.usage if usage is None else usage if self.usage is None else self.usage + usage
        self.is_counted = total is not None
        return self.refuse_child(self._counter, total)

    def take_usage(self) -> TokenUsage | None:
        """What the stage used, to be recorded once."""
        usage, self.usage = self.usage, None
        if self.is_counted:
            self.is_counted = False
            self.refuse_child(self._counter, None)
        return usage

    @property
    def _counter(self) -> str:
        """What the run's budget knows the stage by."""
        return "/".join((str(self.stage_dir), *(number for _, number in self.branch)))


class Context:
    """Thread-safe. Values are JSON: anything else raises ContextValueError, naming the key.

    What is stored is a copy, and so is a list or dict that `get` returns: changes come in through `set` alone.
    """

    __slots__ = ("_changes", "_lock", "_logs", "_values", "run")

    def __init__(self, values: Mapping[str, Any] | None = None, logs: Iterable[str] = ()) -> None:
        self._lock = threading.RLock()
        self._values: dict[str, Any] = {key: to_json_value(value, key) for key, value in (values or {}).items()}
        self._logs = list(logs)
        self._changes: dict[str, Any] = {}
        self.run = RunFacts()

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        checked = to_json_value(value, key)
        with self._lock:
            self._store(key, checked)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`."""
        with self._lock:
            return copy_json(self._values[key]) if key in self._values else default

    def get_string(self, key: str, default: str = "") -> str:
        """The value as text: `true` and `false` for booleans; `default` if it is missing or null."""
        value = self.get(key)
        if value is None:
            return default
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    def append_log(self, entry: str) -> None:
        """Add a line to the run's log."""
        with self._lock:
            self._logs.append(str(entry))

    @property
    def logs(self) -> tuple[str, ...]:
        """The run's log so far."""
        with self._lock:
            return tuple(self._logs)

    def logs_since(self, count: int) -> list[str]:
        """The log without its first `count` lines."""
        with self._lock:
            return self._logs[count:]

    def snapshot(self) -> dict[str, Any]:
        """A deep copy of all values."""
        with self._lock:
            return {key: copy_json(value) for key, value in self._values.items()}

    def clone(self, changes: Mapping[str, Any] | None = None) -> "Context":
        """An independent copy, for a branch; with what it has changed already, if it goes on."""
        with self._lock:
            copy = Context(changes, self._logs)
            # Values are copied on their way in and out, so those inside may be shared.
            copy._values = self._values | copy._values
        copy.run = replace(self.run)
        return copy

    def apply_updates(self, updates: Mapping[str, Any]) -> None:
        """Store several values, or none of them if one is not JSON."""
        checked = {key: to_json_value(value, key) for key, value in updates.items()}
        with self._lock:
            for key, value in checked.items():
                self._store(key, value)

    def take_changes(self) -> dict[str, Any]:
        """What changed since the last call, for the journal."""
        with self._lock:
            changes, self._changes = self._changes, {}
            return changes

    def _store(self, key: str, value: Any) -> None:
        # A number and a boolean may be equal without being the same; a nested one can't be told apart cheaply.
        old = self._values.get(key, self)
        if type(old) is type(value) and not isinstance(value, list | dict) and old == value:
            return
        self._values[key] = value
        self._changes[key] = value
