"""Where the runs of graphs written in Python are kept: a folder with a run directory for each."""

import re
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
