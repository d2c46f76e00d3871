"""Where the runs of graphs written in Python are kept: a folder with a run directory for each."""

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attractor.errors import RunDirectoryError
from attractor.state.run_directory import read_manifest

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class RunStore:
    """A folder, made when it is needed, in which the run of id `x` lies in `x`. Several processes may share it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()

    def path(self, run_id: str) -> Path:
        """The run's directory, which may not exist yet; raises RunDirectoryError for an id that can't name one."""
        if not _PLAIN.fullmatch(run_id):
            raise RunDirectoryError(f"run id {run_id!r} can't name a directory; use letters, digits, '.', '-' and '_'")
        return self.folder / run_id

    def run_ids(self) -> list[str]:
        """The ids of the runs, the one that was begun last at the end."""
        if not self.folder.is_dir():
            return []
        paths = [path for path in self.folder.iterdir() if (path / "manifest.json").is_file()]
        return [name for _, name in sorted((read_manifest(path).get("started_at", 0.0), path.name) for path in paths)]


@dataclass(frozen=True, slots=True)
class _Temporary:
    run_dir: Path
    remove: Callable[[], object]


class RunPlaces:
    """Where the runs of one compiled graph lie: in its store, or without one in temporary folders.

    Of the latter, what isn't released is removed together with this object, or when the process ends.
    """

    def __init__(self, store: RunStore | None) -> None:
        self.store = store
        self._last_id = ""
        self._temporary: dict[str, _Temporary] = {}

    def make(self, run_id: str) -> Path:
        """The directory of a new run."""
        if self.store is not None:
            run_dir = self.store.path(run_id)
        else:
            folder = tempfile.mkdtemp(prefix="attractor-")
            remove = weakref.finalize(self, partial(shutil.rmtree, folder, ignore_errors=True))
            run_dir = Path(folder) / run_id
            self._temporary[run_id] = _Temporary(run_dir, remove)
        self._last_id = run_id
        return run_dir

    def find(self, run_id: str | None) -> Path:
        """The directory of a run, by default of the last one; raises RunDirectoryError if there is none."""
        wanted = run_id or self._last_id
        if self.store is None:
            if wanted not in self._temporary:
                raise RunDirectoryError(
                    "nothing is kept of this run; compile the graph with a checkpointer, a folder for its runs"
                )
            return self._temporary[wanted].run_dir
        wanted = wanted or next(reversed(self.store.run_ids()), "")
        if not wanted:
            raise RunDirectoryError(f"{self.store.folder} holds no run yet; begin one with invoke()")
        return self.store.path(wanted)

    def release(self, run_id: str) -> None:
        """Remove what is not to be kept of a run."""
        if (temporary := self._temporary.pop(run_id, None)) is not None:
            temporary.remove()
