"""What a child run tells of itself, read from its directory: which process runs it doesn't matter (section 4.11)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attractor.event_log import EVENTS_NAME, EventReader
from attractor.events import (
    Event,
    PipelineCompleted,
    PipelineFailed,
    PipelineStarted,
    PipelineWaiting,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
)
from attractor.outcome import StageStatus
from attractor.state.run_directory import is_in_use
from attractor.state.usage import TokenUsage

PREFIX = "stack.child."
_NOTHING = TokenUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """A child run so far. `status` is pending, running, waiting, completed, failed, or stopped: no process works on it.

    `active` are the stages under way, the last one begun being the last. `retries` counts attempts after the first.
    """

    status: str = "pending"
    run_id: str = ""
    active: tuple[str, ...] = ()
    completed: int = 0
    failed: int = 0
    retries: int = 0
    artifacts: int = 0
    last_stage: str = ""
    failure_reason: str = ""
    usage: TokenUsage = _NOTHING

    @property
    def has_ended(self) -> bool:
        """Whether the child run came to its end."""
        return self.status in ("completed", "failed")

    @property
    def outcome(self) -> str:
        """The word for how it ended; empty before the end."""
        words: Mapping[str, str] = {"completed": StageStatus.SUCCESS, "failed": StageStatus.FAIL}
        return str(words.get(self.status, ""))

    def after(self, event: Event) -> "Telemetry":
        """What is known once this happened."""
        match event:
            case PipelineStarted():
                return replace(self, status="running", run_id=event.id, active=(), failure_reason="")
            case PipelineCompleted():
                return replace(self, status="completed", active=(), artifacts=event.artifact_count)
            case PipelineFailed():
                return replace(self, status="failed", active=(), failure_reason=event.error)
            case PipelineWaiting():
                return replace(self, status="waiting", active=())
            case StageStarted():
                return replace(self, active=(*self.active, event.name), last_stage=event.name)
            case StageRetrying():
                return replace(self, retries=self.retries + 1)
            case StageCompleted():
                return replace(self._without(event.name), completed=self.completed + 1, usage=self._add(event.usage))
            case StageFailed(will_retry=False):
                ended = replace(self._without(event.name), failed=self.failed + 1, usage=self._add(event.usage))
                return replace(ended, failure_reason=event.error)
        return self

    def to_context(self, run_dir: Path) -> dict[str, Any]:
        """The keys of the parent's context, under `stack.child.`."""
        values = {
            "status": self.status,
            "outcome": self.outcome,
            "run_id": self.run_id,
            "run_dir": str(run_dir),
            "active_stage": self.active[-1] if self.active else "",
            "last_stage": self.last_stage,
            "completed": self.completed,
            "failed": self.failed,
            "retries": self.retries,
            "artifacts": self.artifacts,
            "failure_reason": self.failure_reason,
            "tokens": self.usage.total_tokens,
            "cost": self.usage.cost,
        }
        return {f"{PREFIX}{key}": value for key, value in values.items()}

    def _without(self, stage: str) -> "Telemetry":
        position = len(self.active) - 1 - self.active[::-1].index(stage) if stage in self.active else None
        kept = tuple(name for index, name in enumerate(self.active) if index != position)
        return replace(self, active=kept)

    def _add(self, usage: Mapping[str, Any] | None) -> TokenUsage:
        return self.usage + TokenUsage.from_record(usage) if usage else self.usage


class ChildWatch:
    """Follows the events of a run directory, which need not exist yet."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._reader = EventReader(run_dir / EVENTS_NAME)
        self._seen = Telemetry()

    def look(self) -> Telemetry:
        """What is known by now."""
        in_use = self._seen.status != "running" or is_in_use(self._run_dir)
        while batch := self._reader.read():
            for event in batch:
                self._seen = self._seen.after(event)
        # Asked before reading, so that an end told meanwhile is not missed.
        if self._seen.status == "running" and not in_use:
            return replace(self._seen, status="stopped")
        return self._seen
