"""All runs of a directory in short, without reading again those that have ended."""

import os
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from attractor.errors import AttractorError
from attractor.server.runs import Runs
from attractor.server.views import view_run
from attractor.state.checkpoint import JOURNAL_NAME
from attractor.state.run_directory import is_in_use, restart_path

_MOST_KEPT = 5000
_Signature = tuple[tuple[int, int], ...]


class RunIndex:
    """Lists runs. Of each that has ended a short record is kept, of the latest 5,000 at most. Any thread may use it."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._kept: OrderedDict[str, tuple[_Signature, dict[str, Any]]] = OrderedDict()

    def list_records(self) -> list[dict[str, Any]]:
        """The runs, the latest first."""
        records = [record for run_id in self._runs.list_ids() if (record := self._describe(run_id)) is not None]
        return sorted(records, key=lambda record: (record["started_at"], record["pipeline_id"]), reverse=True)

    def count_statuses(self) -> Counter[str]:
        """How many runs there are of each status."""
        return Counter(record["status"] for record in self.list_records())

    def _describe(self, run_id: str) -> dict[str, Any] | None:
        """None for what is no run, or was removed meanwhile."""
        path = self._runs.root / run_id
        signature, record = self._kept.get(run_id, ((), {}))
        if record and not is_in_use(path) and signature == _sign(path, record["restarts"]):
            return record
        try:
            view = view_run(path)
        except AttractorError:
            return None
        record = view.to_record()
        if not view.executed and view.status != "waiting":
            # What changed while it was read is noticed the next time.
            self._kept[run_id] = _sign(path, view.checkpoint.restarts), record
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return record


def _sign(path: Path, restarts: int) -> _Signature:
    """What changes when the run goes on."""
    return tuple(_stat(folder / name) for folder in (path, restart_path(path, restarts)) for name in _FILES)


_FILES = ("manifest.json", JOURNAL_NAME)


def _stat(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
