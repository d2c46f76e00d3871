"""The suspended stages of a run, and the values that they are given, by whatever process.

A value lies in `suspensions/{id}.json` of the run directory. The file is made once and whole, so that of several who
give a value the first one counts, and a kill at any moment loses nothing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attractor.errors import AnsweredError, QuestionError, RunDirectoryError
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import has_checkpoint, load_checkpoint
from attractor.state.json_values import encode_json, to_bytes, to_json_value
from attractor.state.run_directory import create_file, restart_path
from attractor.state.step import RunStatus
from attractor.suspension import Suspension

SUSPENSIONS_NAME = "suspensions"


def load_last_checkpoint(logs_root: Path) -> Checkpoint:
    """The state of a run after its last restart; an empty one if it did not get as far as its first checkpoint.

    Raises CheckpointError.
    """
    checkpoint = load_checkpoint(logs_root) if has_checkpoint(logs_root) else Checkpoint()
    while checkpoint.status is RunStatus.RESTARTED:
        folder = restart_path(logs_root, checkpoint.restarts + 1)
        if not has_checkpoint(folder):
            break
        checkpoint = load_checkpoint(folder)
    return checkpoint


def list_suspensions(logs_root: Path) -> list[Suspension]:
    """What a run waits for and has not been given, in no more than one place of each branch.

    Those with a `question` are answered as questions; the others by `give_value()`.
    """
    return [
        found
        for found in find_suspensions(load_last_checkpoint(logs_root))
        if not _value_path(logs_root, found.id).exists()
    ]


def find_suspensions(checkpoint: Checkpoint) -> Iterator[Suspension]:
    """The suspended stages of a state, its branches included, in their order."""
    if checkpoint.suspension is not None:
        yield checkpoint.suspension
    if checkpoint.next_node == checkpoint.fan_out:
        for number in sorted(checkpoint.branches, key=int):
            yield from find_suspensions(checkpoint.branches[number])


def give_value(logs_root: Path, suspension_id: str, value: Any) -> None:
    """Hand a suspended stage the JSON value that it goes on with when the run is resumed. Durable when this returns.

    Raises QuestionError if nothing of that id waits for a value, AnsweredError if it was given one already,
    ContextValueError for what is no JSON, RunDirectoryError.
    """
    content = encode_json({"value": to_json_value(value, suspension_id)})
    path = _value_path(logs_root, suspension_id)
    if not path.exists():
        known = {found.id for found in find_suspensions(load_last_checkpoint(logs_root)) if not found.question}
        if suspension_id not in known:
            waiting = ", ".join(sorted(known)) or "nothing"
            raise QuestionError(f"no suspended stage of {logs_root} has the id {suspension_id!r}; waiting: {waiting}")
    if not create_file(path, to_bytes(content + "\n")):
        raise AnsweredError(f"{suspension_id!r} of {logs_root} was given a value already; the first one counts")


def read_value(logs_root: Path, suspension_id: str) -> tuple[Any, ...]:
    """The value that a suspended stage was given, alone; empty if it was given none."""
    path = _value_path(logs_root, suspension_id)
    try:
        return (json.loads(path.read_bytes())["value"],)
    except FileNotFoundError:
        return ()
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{path} can't be read ({error!r}); delete it, and give the value again") from error


def _value_path(logs_root: Path, suspension_id: str) -> Path:
    name = "".join(char for char in suspension_id if char.isalnum() or char in "-.")
    return logs_root / SUSPENSIONS_NAME / f"{name}.json"
