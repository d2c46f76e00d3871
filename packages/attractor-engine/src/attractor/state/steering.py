"""Telling a stage at work what to do differently: the file steering.md in its directory (section 4.11).

Whoever supervises a run appends to it, from whatever process; a backend that can be steered follows it while it works.
"""

from pathlib import Path

from attractor.state.stage_files import append_to, read_file

STEERING_NAME = "steering.md"


def write_steering(stage_dir: Path, text: str) -> None:
    """Add an instruction. The directory is made if the stage has not yet made it."""
    stage_dir.mkdir(parents=True, exist_ok=True)
    # One write in append mode: two supervisors don't mix their lines.
    append_to(stage_dir / STEERING_NAME, text.strip().encode("utf-8", "replace") + b"\n\n")


class SteeringReader:
    """Reads what is added to a stage's steering from now on; what lies there is of an earlier visit."""

    def __init__(self, stage_dir: Path) -> None:
        self._path = stage_dir / STEERING_NAME
        self._offset = self._size()

    def read(self) -> str:
        """What came since the last call; empty if nothing did."""
        if self._size() <= self._offset:
            return ""
        try:
            data = read_file(self._path, self._offset)
        except OSError:
            return ""  # The stage itself put something else there.
        # An instruction ends with an empty line; half of one is left for the next time.
        end = data.rfind(b"\n") + 1
        self._offset += end
        return data[:end].decode("utf-8", "replace").strip()

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0
