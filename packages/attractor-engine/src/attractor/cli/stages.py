"""What each stage of a run came to, all its visits and attempts together."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from attractor.cli.progress import format_seconds, format_usage
from attractor.events import Event, StageCompleted, StageFailed, StageRetrying, StageStarted, StageSuspended
from attractor.outcome import Outcome
from attractor.state.usage import TokenUsage

_LONGEST_NAME = 24
_LONGEST_NOTE = 100


@dataclass(slots=True)
class StageSummary:
    """A stage of a run. `seconds` adds up the attempts that events tell the duration of; `note` is the last word."""

    name: str
    visits: int = 0
    attempts: int = 0
    seconds: float = 0.0
    status: str = "running"
    note: str = ""
    usage: TokenUsage | None = None

    def to_record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "stage": self.name,
            "visits": self.visits,
            "attempts": self.attempts,
            "seconds": self.seconds,
            "status": self.status,
            "note": self.note,
            "usage": self.usage.to_record() if self.usage else None,
        }


def summarize_stages(events: Iterable[Event], outcomes: Mapping[str, Outcome]) -> list[StageSummary]:
    """The stages in the order in which they first began. `outcomes` has the last outcome of those that ended."""
    stages: dict[str, StageSummary] = {}
    begun: dict[str, float] = {}
    for event in events:
        match event:
            case StageStarted(name=name):
                stage = stages.setdefault(name, StageSummary(name))
                stage.visits += 1
                stage.attempts += 1
                stage.status, stage.note, begun[name] = "running", "", event.time
            case StageRetrying(name=name) if name in stages:
                stages[name].attempts += 1
            case StageSuspended(name=name) if name in stages:
                stages[name].status = "waiting"
            case StageCompleted(name=name) | StageFailed(name=name, will_retry=False) if name in stages:
                _end(stages[name], event, event.time - begun[name])
    for stage in stages.values():
        if (outcome := outcomes.get(stage.name)) and stage.status not in ("running", "waiting"):
            stage.status = outcome.word or outcome.status.value
            stage.note = outcome.failure_reason or outcome.notes or stage.note
    return list(stages.values())


def _end(stage: StageSummary, event: Event, seconds: float) -> None:
    assert isinstance(event, StageCompleted | StageFailed)
    failed = isinstance(event, StageFailed)
    stage.status = "fail" if failed else "success"
    stage.note = event.error if isinstance(event, StageFailed) else ""
    stage.seconds += seconds if isinstance(event, StageFailed) else event.duration
    if event.usage:
        stage.usage = TokenUsage.from_record(event.usage) + (stage.usage or TokenUsage())


def draw_stages(stages: list[StageSummary]) -> Iterator[str]:
    """A row for each stage, under a heading."""
    if not stages:
        return
    names = min(max(len(stage.name) for stage in stages), _LONGEST_NAME)
    yield f"  {'stage':<{names}}  visits  attempts  {'time':>12}  outcome"
    for stage in stages:
        told = "  ".join(part for part in (stage.status, format_usage(stage.usage) if stage.usage else "") if part)
        note = " ".join(stage.note.split())
        note = note if len(note) <= _LONGEST_NOTE else f"{note[: _LONGEST_NOTE - 1]}…"
        row = f"  {stage.name[:names]:<{names}}  {stage.visits:>6}  {stage.attempts:>8}"
        yield f"{row}  {format_seconds(stage.seconds):>12}  {told}  {note}".rstrip()
