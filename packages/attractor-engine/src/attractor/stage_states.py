"""In which state each stage of a run is, told from the run's events."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from attractor.events import (
    Event,
    InterviewStarted,
    InterviewTimeout,
    PipelineCompleted,
    PipelineFailed,
    PipelineWaiting,
    StageCompleted,
    StageFailed,
    StageRetrying,
    StageStarted,
    StageSuspended,
)


class StageState(StrEnum):
    """What pictures and pages show of a stage. SKIPPED: the run ended without it."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRYING = "retrying"
    WAITING = "waiting"
    SKIPPED = "skipped"


STATE_MARKS: Mapping[StageState, str] = MappingProxyType(
    {
        StageState.PENDING: "",
        StageState.RUNNING: "▸",
        StageState.SUCCEEDED: "✓",
        StageState.FAILED: "✕",
        StageState.RETRYING: "↻",
        StageState.WAITING: "?",
        StageState.SKIPPED: "–",
    }
)
"""A sign for each state, for those who can't tell colours apart."""


def read_states(events: Iterable[Event], stages: Iterable[str] = ()) -> dict[str, StageState]:
    """The state of each stage that the events tell of, by its node's id, and of `stages`.

    Of a stage that ran several times it is the last one's.
    """
    states: dict[str, StageState] = {}
    for event in events:
        note_state(states, event, stages)
    return states


def note_state(states: dict[str, StageState], event: Event, stages: Iterable[str] = ()) -> None:
    """Take into the states what happened next."""
    match event:
        case StageStarted(name=name) | InterviewTimeout(stage=name):
            states[name] = StageState.RUNNING
        case StageCompleted(name=name):
            states[name] = StageState.SUCCEEDED
        case StageFailed(name=name, will_retry=will_retry):
            states[name] = StageState.RETRYING if will_retry else StageState.FAILED
        case StageRetrying(name=name):
            states[name] = StageState.RETRYING
        case StageSuspended(name=name) | InterviewStarted(stage=name):
            states[name] = StageState.WAITING
        case PipelineCompleted():
            states |= {name: StageState.SKIPPED for name in stages if name not in states}
        case PipelineFailed():
            states |= {name: StageState.FAILED for name, state in states.items() if state in _UNDER_WAY}
        case PipelineWaiting():
            states |= {name: StageState.WAITING for name, state in states.items() if state in _UNDER_WAY}


_UNDER_WAY = (StageState.RUNNING, StageState.RETRYING, StageState.WAITING)
