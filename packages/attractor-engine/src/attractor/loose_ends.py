"""Ending in a run's event log what a kill left open there, so that each record of a start has that of its end."""

from collections.abc import Callable, Iterable
from pathlib import Path

from attractor.errors import RunDirectoryError
from attractor.event_log import EventLog, Observer, read_events
from attractor.events import (
    ChildCompleted,
    ChildStarted,
    Event,
    ParallelBranchCompleted,
    ParallelBranchStarted,
    ParallelCompleted,
    ParallelStarted,
    PipelineWaiting,
    StageCompleted,
    StageFailed,
    StageStarted,
    StageSuspended,
)
from attractor.outcome import StageStatus


def open_log(folder: Path, observer: Observer | None, clock: Callable[[], float]) -> EventLog:
    """A run's event log, to go on with. What no process works on any more has its end there, inner before outer.

    Questions stay open, for they are asked still; the run itself goes on. A fan-out's counts are 0: none was judged.
    """
    log = EventLog(folder, observer, clock)
    if not log.has_end:
        _tie_up(log)
    return log


def _tie_up(log: EventLog) -> None:
    try:
        open_, last = find_open(read_events(log.path.parent))
    except RunDirectoryError:
        # The log is not what a run goes on from, so that no damage to it may hold a run up.
        return
    for event in reversed(open_):
        duration = round(max(last - event.time, 0), 6)
        match event:
            case StageStarted(name=name, index=index):
                error = f"stage {name!r} was stopped before it ended: the process that executed it was killed"
                log.emit(StageFailed, name=name, index=index, error=error, will_retry=False)
            case ParallelBranchStarted(branch=branch, index=index):
                log.emit(ParallelBranchCompleted, branch=branch, index=index, duration=duration, success=False)
            case ParallelStarted():
                log.emit(ParallelCompleted, duration=duration, success_count=0, failure_count=0)
            case ChildStarted(name=name):
                log.emit(ChildCompleted, name=name, status=StageStatus.FAIL.value, duration=duration)


def find_open(events: Iterable[Event]) -> tuple[list[Event], float]:
    """The starts that have no end, in their order, and the time of the last event.

    What waits with its run is not open: it begins again when that goes on.
    """
    open_: list[Event] = []
    last = 0.0
    for event in events:
        last = event.time
        match event:
            case StageStarted() | ParallelStarted() | ParallelBranchStarted() | ChildStarted():
                open_.append(event)
            case PipelineWaiting():
                open_.clear()
            case StageFailed(will_retry=True):
                pass
            case _:
                _end(open_, event)
    return open_, last


def _end(open_: list[Event], end: Event) -> None:
    for position in range(len(open_) - 1, -1, -1):
        if _is_end(open_[position], end):
            del open_[position]
            return


def _is_end(start: Event, end: Event) -> bool:
    match start, end:
        case StageStarted(), StageCompleted() | StageFailed() | StageSuspended():
            return (start.name, start.index) == (end.name, end.index)
        case ParallelBranchStarted(), ParallelBranchCompleted():
            return (start.branch, start.index) == (end.branch, end.index)
        case ChildStarted(), ChildCompleted():
            return start.name == end.name
        case ParallelStarted(), ParallelCompleted():
            return True
    return False
