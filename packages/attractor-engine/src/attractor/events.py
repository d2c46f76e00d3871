"""What a run tells while it goes (section 9.6): one record for each kind of event.

Durations and delays are in seconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`sequence` counts from 1 through the whole run, resumptions included; `time` is seconds since the epoch."""

    sequence: int = 0
    time: float = 0.0

    @property
    def type(self) -> str:
        """The specification's name, such as "StageStarted"."""
        return self.__class__.__name__

    @property
    def description(self) -> str:
        """One line for a log."""
        names = [name for name in self.__dataclass_fields__ if name not in ("sequence", "time")]
        return f"{self.type}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def to_record(self) -> dict[str, Any]:
        """The event as JSON: `type`, `sequence`, `time`, then its own fields."""
        kind: Any = type(self)
        names, read = _find_fields(kind)
        return dict(zip(names, (self.type, *read(self)), strict=True))

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Event":
        """The reverse; raises KeyError for a type that is not known."""
        return EVENT_TYPES[record["type"]](**{key: value for key, value in record.items() if key != "type"})


@cache
def _find_fields(kind: type[Event]) -> tuple[tuple[str, ...], Callable[[Event], tuple[Any, ...]]]:
    """The names in a record of that kind, and what reads them but for `type`."""
    names = tuple(kind.__dataclass_fields__)
    return ("type", *names), attrgetter(*names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStarted(Event):
    """A run begins, or goes on after a pause. `id` is the run's."""

    name: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCompleted(Event):
    """A run succeeded. `duration` is in seconds."""

    duration: float
    artifact_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFailed(Event):
    """A run failed or was cancelled."""

    error: str
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineWaiting(Event):
    """A run was suspended: no process executes it until it is resumed. Fan-outs and children that wait with it have no
    end before this; they begin again then.

    `questions` are the ids of those that people must answer, `suspensions` those of the other suspended stages.
    """

    questions: Sequence[str]
    suspensions: Sequence[str]
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """A stage begins. `name` is the node's id; `index` counts the run's stages from 0."""

    name: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCompleted(Event):
    """A stage ended well (or was skipped). `usage` is the record of a TokenUsage, None if no model was asked."""

    name: str
    index: int
    duration: float
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailed(Event):
    """An attempt failed. With `will_retry` a StageRetrying follows. `usage` is that of all attempts so far."""

    name: str
    index: int
    error: str
    will_retry: bool
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRetrying(Event):
    """The stage is tried again after `delay` seconds. `attempt` is the one to come, counted from 1."""

    name: str
    index: int
    attempt: int
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSuspended(Event):
    """The stage waits for something from outside; it starts again when the run goes on there."""

    name: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageActivity(Event):
    """What the stage is doing now, for whoever watches. Of an agent, `activity` is one of tool_start, tool_end, text.

    `text` is one short line: a call of a tool, or how an answer begins. Pieces of answers and output are not told.
    """

    name: str
    index: int
    activity: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelStarted(Event):
    """A fan-out begins."""

    branch_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelBranchStarted(Event):
    """A branch begins. `branch` is the id of its first node."""

    branch: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelBranchCompleted(Event):
    """A branch ended."""

    branch: str
    index: int
    duration: float
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelCompleted(Event):
    """A fan-out ended."""

    duration: float
    success_count: int
    failure_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewStarted(Event):
    """A person is asked. `qid` is the question's id in the run."""

    question: str
    stage: str
    qid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewCompleted(Event):
    """A person answered, after `duration` since the question was first asked."""

    question: str
    answer: str
    duration: float
    qid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewTimeout(Event):
    """Nobody answered in time."""

    question: str
    stage: str
    duration: float
    qid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewWithdrawn(Event):
    """The answer isn't needed any more: the branch that asked was abandoned, or the run has ended without it."""

    question: str
    stage: str
    qid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """The node's result is on disk."""

    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted(Event):
    """A stage that is a run begins, or goes on. `name` is the stage; the child's own events lie in `run_dir`."""

    name: str
    run_dir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProgressed(Event):
    """A manager loop saw that its child got on. `active_stage` is a stage of the child's, empty between two."""

    name: str
    cycle: int
    status: str
    active_stage: str
    completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSteered(Event):
    """A manager loop told a stage of its child what to do differently."""

    name: str
    stage: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCompleted(Event):
    """A child run ended. `status` is success or fail."""

    name: str
    status: str
    duration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GateEvaluated(Event):
    """A quality gate judged. `route` is where that leads: pass, fail, or escalate when its attempts are used up.

    `attempt` counts the evaluations since the gate last passed, this one included.
    """

    gate: str
    passed: bool
    route: str
    attempt: int
    max_attempts: int
    score: float | None = None
    reasons: Sequence[str] = ()


EVENT_TYPES: Mapping[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


class Emit(Protocol):
    """Records an event of a run: `emit(StageStarted, name="plan", index=0)`."""

    def __call__(self, kind: type[Event], **fields: Any) -> Event: ...
