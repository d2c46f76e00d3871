"""What a run's stages did and do, added up from its events."""

from dataclasses import dataclass, field
from typing import Any

from attractor.events import (
    Event,
    PipelineCompleted,
    PipelineFailed,
    PipelineStarted,
    PipelineWaiting,
    StageActivity,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
    StageSuspended,
)

RUNNING, RETRYING = "running", "retrying"


@dataclass(slots=True)
class Visit:
    """One visit of a node. Times are in seconds since the epoch; `usage` is the record of a TokenUsage."""

    index: int
    started_at: float
    status: str = RUNNING
    attempts: int = 1
    ended_at: float | None = None
    error: str = ""
    activity: str = ""
    usage: Any = None

    def to_record(self, now: float) -> dict[str, Any]:
        """As JSON; the duration of a visit under way is that until `now`."""
        ended = now if self.ended_at is None else self.ended_at
        usage = self.usage or {}
        return {
            "index": self.index,
            "status": self.status,
            "attempts": self.attempts,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "duration": round(max(ended - self.started_at, 0), 6),
            "error": self.error,
            "activity": self.activity,
            "input_tokens": usage.get("input_tokens"),
            "output_tokens": usage.get("output_tokens"),
            "cost": usage.get("cost"),
        }


@dataclass(slots=True)
class Stages:
    """The visits of each node, in the order of the first ones."""

    visits: dict[str, list[Visit]] = field(default_factory=dict)
    _open: dict[tuple[str, int], Visit] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take in what happened next."""
        match event:
            case StageStarted(name=name, index=index):
                self._open[name, index] = Visit(index, event.time)
                self.visits.setdefault(name, []).append(self._open[name, index])
            case StageCompleted(name=name, index=index, usage=usage):
                self._end(name, index, "completed", event.time, usage=usage)
            case StageFailed(name=name, index=index, will_retry=True, error=error):
                if visit := self._open.get((name, index)):
                    visit.status, visit.error = RETRYING, error
            case StageFailed(name=name, index=index, error=error, usage=usage):
                self._end(name, index, "failed", event.time, error=error, usage=usage)
            case StageRetrying(name=name, index=index, attempt=attempt):
                if visit := self._open.get((name, index)):
                    visit.status, visit.attempts = RETRYING, attempt
            case StageActivity(name=name, index=index, text=text):
                if visit := self._open.get((name, index)):
                    visit.status, visit.activity = RUNNING, text
            case StageSuspended(name=name, index=index):
                self._end(name, index, "suspended", event.time)
            case PipelineStarted() | PipelineCompleted() | PipelineFailed() | PipelineWaiting():
                for name, index in list(self._open):
                    self._end(name, index, "interrupted", event.time)

    def _end(self, name: str, index: int, status: str, time: float, *, error: str = "", usage: Any = None) -> None:
        if (visit := self._open.pop((name, index), None)) is not None:
            visit.status, visit.ended_at, visit.error, visit.activity = status, time, error, ""
            visit.usage = usage

    def find_working(self) -> list[str]:
        """The nodes that are under way."""
        return list(dict.fromkeys(name for name, _ in self._open))

    def to_record(self, now: float) -> list[dict[str, Any]]:
        """As JSON, a record a node."""
        return [
            {"node_id": name, "status": visits[-1].status, "visits": [visit.to_record(now) for visit in visits]}
            for name, visits in self.visits.items()
        ]
