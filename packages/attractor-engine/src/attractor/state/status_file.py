"""status.json of a stage: what it reported, and what became of it (Appendix C)."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from attractor.outcome import Outcome, parse_status_record, to_status_record
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.run_directory import write_all

STATUS_NAME = "status.json"


def write_status(stage_dir: Path | str, outcome: Outcome) -> None:
    """Record the outcome, and make the directory if it is missing.

    Not atomic: the journal is the truth, and a resumption writes again what a kill may have torn.
    """
    path = f"{stage_dir}/{STATUS_NAME}"
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC
    # Most stages have no directory before this.
    with suppress(FileExistsError):
        os.mkdir(stage_dir)
    try:
        descriptor = os.open(path, flags, 0o644)
    except IsADirectoryError:
        # A stage made that, which is no reason to end the run.
        shutil.rmtree(path)
        descriptor = os.open(path, flags, 0o644)
    try:
        write_all(descriptor, _encode(outcome))
    finally:
        os.close(descriptor)


def has_status(stage_dir: Path, outcome: Outcome) -> bool:
    """Whether the outcome is recorded there as `write_status()` does."""
    try:
        return (stage_dir / STATUS_NAME).read_bytes() == _encode(outcome)
    except OSError:
        return False


def _encode(outcome: Outcome) -> bytes:
    return to_bytes(encode_json(to_status_record(outcome)) + "\n")


def clear_status(stage_dir: Path) -> None:
    """Remove what an earlier visit or attempt left, so that it isn't taken for a new report."""
    with suppress(FileNotFoundError):
        os.unlink(f"{stage_dir}/{STATUS_NAME}")


def read_status(stage_dir: Path) -> Outcome | None:
    """What a tool or agent reported, or None. A file that can't be understood is a FAIL that says why."""
    path = stage_dir / STATUS_NAME
    try:
        return parse_status_record(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return Outcome.fail(f"{path}, which the stage wrote, can't be understood: {error}")
