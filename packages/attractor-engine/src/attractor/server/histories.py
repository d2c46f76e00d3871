"""What the events of runs add up to, kept so that each event is read once however often somebody asks."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attractor.errors import RunDirectoryError
from attractor.event_log import EVENTS_NAME, EventReader
from attractor.server.stages import Stages
from attractor.stage_states import StageState, note_state

MOST_RUNS = 64


@dataclass(slots=True)
class _History:
    """One run, as far as its events were read."""

    reader: EventReader
    stages: Stages = field(default_factory=Stages)
    states: dict[str, StageState] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self) -> None:
        for event in self.reader.read_all():
            self.stages.add(event)
            note_state(self.states, event)


class Histories:
    """The histories of the `most` runs that were asked for last. Its methods block, and are called from any thread.

    They raise RunDirectoryError for a damaged log.
    """

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._histories: OrderedDict[Path, _History] = OrderedDict()
        self._lock = threading.Lock()

    def list_stages(self, run_dir: Path, now: float) -> list[dict[str, Any]]:
        """The visits of each node, as JSON."""
        with self._opened(run_dir) as history:
            return history.stages.to_record(now)

    def list_states(self, run_dir: Path) -> dict[str, StageState]:
        """The state of each stage."""
        with self._opened(run_dir) as history:
            return dict(history.states)

    def find_working(self, run_dir: Path) -> list[str]:
        """The stages that are under way."""
        with self._opened(run_dir) as history:
            return history.stages.find_working()

    @contextmanager
    def _opened(self, run_dir: Path) -> Iterator[_History]:
        with self._lock:
            history = self._histories.get(run_dir)
            if history is None or not history.reader.fits():
                # A log that got shorter is another one.
                history = self._histories[run_dir] = _History(EventReader(run_dir / EVENTS_NAME))
            self._histories.move_to_end(run_dir)
            while len(self._histories) > self._most:
                self._histories.popitem(last=False)
        with history.lock:
            try:
                history.catch_up()
            except RunDirectoryError:
                # What follows the damage adds up to something else.
                self._histories.pop(run_dir, None)
                raise
            yield history
