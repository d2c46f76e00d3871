"""When the stages of a run were under way, as bars of text."""

from collections.abc import Iterable
from dataclasses import dataclass

from attractor.events import (
    Event,
    PipelineCompleted,
    PipelineFailed,
    PipelineStarted,
    PipelineWaiting,
    StageCompleted,
    StageFailed,
    StageStarted,
    StageSuspended,
)

_LONGEST_NAME = 24
_MOST_ROWS = 200


@dataclass(slots=True)
class _Bar:
    """A stage; times are in seconds since the run began, without the pauses."""

    name: str
    begun: float
    ended: float | None = None
    mark: str = "▒"


def draw_timeline(events: Iterable[Event], width: int = 48) -> list[str]:
    """A row for each visit of a stage: name, bar, and seconds. The time in which no process ran is left out.

    █ ended well, ▓ failed, ▒ was suspended, cut off, or is under way.
    """
    bars: list[_Bar] = []
    open_bars: dict[tuple[str, int], _Bar] = {}
    origin, last = 0.0, 0.0
    for event in events:
        if isinstance(event, PipelineStarted):
            # What happened before goes on without the pause.
            origin = event.time - last
            open_bars.clear()
        last = max(event.time - origin, last)
        match event:
            case StageStarted(name=name, index=index):
                open_bars[name, index] = _Bar(name, last)
                bars.append(open_bars[name, index])
            case StageCompleted(name=name, index=index):
                _end(open_bars, (name, index), last, "█")
            case StageFailed(name=name, index=index, will_retry=False):
                _end(open_bars, (name, index), last, "▓")
            case StageSuspended(name=name, index=index):
                _end(open_bars, (name, index), last, "▒")
            case PipelineCompleted() | PipelineFailed() | PipelineWaiting():
                for key in list(open_bars):
                    _end(open_bars, key, last, "▒")
    rows = bars[-_MOST_ROWS:]
    scale = width / last if last else 0.0
    names = min(max((len(bar.name) for bar in rows), default=0), _LONGEST_NAME)
    return [_draw(bar, names, width, scale, last) for bar in rows]


def _end(open_bars: dict[tuple[str, int], _Bar], key: tuple[str, int], time: float, mark: str) -> None:
    if (bar := open_bars.pop(key, None)) is not None:
        bar.ended, bar.mark = time, mark


def _draw(bar: _Bar, names: int, width: int, scale: float, last: float) -> str:
    ended = last if bar.ended is None else bar.ended
    first = min(int(bar.begun * scale), width - 1)
    length = min(max(round((ended - bar.begun) * scale), 1), width - first)
    drawn = " " * first + bar.mark * length
    return f"  {bar.name[:names]:<{names}}  |{drawn:<{width}}|  {ended - bar.begun:.1f} s"
