"""status.json of a stage: what it reported, and what became of it (Appendix C)."""

import json
import os
from contextlib import suppress
from pathlib import Path

from attractor.outcome import Outcome, parse_status_record, to_status_record
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.stage_files import read_file, remove_file, write_file

STATUS_NAME = "status.json"


def write_status(stage_dir: Path | str, outcome: Outcome) -> None:
    """Record the outcome, and make the directory if it is missing.

    Not atomic: the journal is the truth, and a resumption writes again what a kill may have torn.
    """
    # Most stages have no directory before this.
    with suppress(FileExistsError):
        os.mkdir(stage_dir)
    write_file(f"{stage_dir}/{STATUS_NAME}", _encode(outcome))


def has_status(stage_dir: Path, outcome: Outcome) -> bool:
    """Whether the outcome is recorded there as `write_status()` does."""
    try:
        return read_file(stage_dir / STATUS_NAME) == _encode(outcome)
    except OSError:
        return False


def _encode(outcome: Outcome) -> bytes:
    return to_bytes(encode_json(to_status_record(outcome)) + "\n")


def clear_status(stage_dir: Path) -> None:
    """Remove what an earlier visit or attempt left, so that it isn't taken for a new report."""
    remove_file(f"{stage_dir}/{STATUS_NAME}")


def read_status(stage_dir: Path) -> Outcome | None:
    """What a tool or agent reported, or None. A file that can't be understood is a FAIL that says why."""
    path = stage_dir / STATUS_NAME
    try:
        return parse_status_record(json.loads(read_file(path)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        return Outcome.fail(f"{path}, which the stage wrote, can't be understood: {why}")
