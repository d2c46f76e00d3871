"""The journal and the checkpoint file of a run: how its state survives a kill and a loss of power (section 5.3).

journal.jsonl gets one synced record per step and is the truth: a run is loaded by folding it. checkpoint.json, the
whole state in one file, and the status.json of each stage are for readers; writing them after every step would cost
more than a quick step itself, so they may lag behind the journal by what RewritePolicy allows.
"""

import json
import os
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attractor.errors import CheckpointError
from attractor.outcome import Outcome
from attractor.state.checkpoint import (
    CHECKPOINT_NAME,
    JOURNAL_NAME,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.run_directory import replace_file, stage_name, stage_path, sync_directory, write_all
from attractor.state.status_file import has_status, write_status
from attractor.state.step import BranchPath, Entry, decode_entry, encode_entry

# macOS has no fdatasync.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePolicy:
    """How soon after the last time what readers want is written again, in seconds.

    A small checkpoint.json waits until writing takes at most one part in `cost_share` of the run's time; one of more
    than `large_bytes` waits for `large_interval`. The stages' files wait for `status_interval`. Pauses, ends and stages
    that work outside of this process don't wait, a large checkpoint.json aside.
    """

    smallest_interval: float = 0.05
    cost_share: float = 20.0
    large_bytes: int = 64 * 1024
    large_interval: float = 1.0
    status_interval: float = 1.0


class CheckpointStore:
    """Keeps the checkpoint of one run, and the status.json of its stages, up to date on disk. Close it in the end.

    Writes block until they are on disk: a step is not done before that. `statuses` are those that a killed run may not
    have come to write, as `restore_run()` finds them.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint: Checkpoint,
        policy: RewritePolicy = RewritePolicy(),
        clock: Callable[[], float] = time.monotonic,
        *,
        statuses: Mapping[str, Outcome] = MappingProxyType({}),
        sync: Callable[[int], None] | None = None,
    ) -> None:
        self._folder = folder
        self._checkpoint = checkpoint
        self._policy = policy
        self._clock = clock
        self._sync = sync or _sync
        self._statuses = dict(statuses)
        self._fragments = _encode_items(checkpoint.context_values)
        self._branch_fragments: dict[BranchPath, dict[str, str]] = {}
        self._saved_sequence = -1
        self._saved_at = 0.0
        self._statuses_written_at = clock()
        self._cost = 0.0
        self._size = 0
        self._is_synced = True
        self._failure: OSError | None = None
        self._journal = self._open_journal()
        self._write_statuses()
        self.save()

    def append(self, entry: Entry) -> None:
        """Apply a step to the checkpoint and write it down; it is durable after `sync()`, and to be acted on then."""
        fragments = self._find_fragments(entry.branch)
        self._checkpoint.apply(entry)
        whole = _encode_items(entry.changes)
        appended = _find_appended(fragments, whole)
        fragments.update(whole)
        whole = {key: fragment for key, fragment in whole.items() if key not in appended}
        line = encode_entry(entry, _join(whole) if whole else "", _join(appended) if appended else "")
        write_all(self._journal, to_bytes(line + "\n"))
        self._is_synced = False
        if entry.step.outcome is not None:
            self._statuses[entry.step.node_id] = entry.step.outcome

    def _find_fragments(self, branch: BranchPath) -> dict[str, str]:
        """What the run, or a branch of it, has set so far, as JSON."""
        if not branch:
            self._branch_fragments.clear()
            return self._fragments
        fragments = self._branch_fragments.setdefault(branch, {})
        place: Checkpoint | None = self._checkpoint
        for fan_out, number in branch:
            place = place.branches.get(number) if place is not None and place.fan_out == fan_out else None
        # A fan-out that is come to again begins with nothing.
        for key in fragments.keys() - (place.context_values.keys() if place is not None else ()):
            del fragments[key]
        return fragments

    def sync(self) -> None:
        """Make durable what was appended, if somebody else hasn't since."""
        if self._is_synced:
            return
        # The system tells of a failure once; what comes behind it must not count as durable.
        if self._failure is not None:
            raise self._failure
        try:
            self._sync(self._journal)
        except OSError as error:
            self._failure = error
            raise
        self._is_synced = True
        self.keep_up()

    def keep_up(self) -> None:
        """Write what lags behind, if it is time for that."""
        now = self._clock()
        if now - self._saved_at >= self._interval():
            self.save()
        if now - self._statuses_written_at >= self._policy.status_interval:
            self._write_statuses()

    def prepare(self, node_id: str, *, external: bool) -> None:
        """Write what a stage that starts, or whoever looks at it meanwhile, must find."""
        if external:
            self.catch_up()
        elif node_id in self._statuses:
            # Of its last visit: written later, it would be taken for a report of this one.
            write_status(stage_path(self._folder, node_id), self._statuses.pop(node_id))

    def catch_up(self) -> None:
        """Write what lags behind; but not checkpoint.json if that is large and was written lately."""
        self._write_statuses()
        if self._size <= self._policy.large_bytes or self._clock() - self._saved_at >= self._interval():
            self.save()

    def save(self) -> None:
        """Write checkpoint.json if it lags behind."""
        self.sync()  # A checkpoint.json that knows of more than the journal would make a gap in it.
        if self._saved_sequence == self._checkpoint.sequence:
            return
        begun = self._clock()
        data = to_bytes(encode_checkpoint(self._checkpoint, _join(self._fragments)) + "\n")
        # The journal has every step already, so that the name may come later than the content.
        replace_file(self._folder / CHECKPOINT_NAME, data, sync_name=False)
        self._saved_sequence, self._size = self._checkpoint.sequence, len(data)
        self._saved_at = self._clock()
        self._cost = self._saved_at - begun

    def close(self) -> None:
        """Write everything a last time and close the journal."""
        if self._journal < 0:
            return
        try:
            self.sync()
            self._write_statuses()
            self.save()
        finally:
            os.close(self._journal)
            self._journal = -1

    def _write_statuses(self) -> None:
        statuses, self._statuses = self._statuses, {}
        for node_id, outcome in statuses.items():
            # Paths of text: thousands may be due at once.
            write_status(f"{self._folder}/{stage_name(node_id)}", outcome)
        self._statuses_written_at = self._clock()

    def _interval(self) -> float:
        if self._size > self._policy.large_bytes:
            return self._policy.large_interval
        return max(self._policy.smallest_interval, self._policy.cost_share * self._cost)

    def _open_journal(self) -> int:
        path = self._folder / JOURNAL_NAME
        fresh = not path.exists()
        if not fresh:
            _cut_torn_tail(path)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if fresh or path.stat().st_size == 0:
            write_all(descriptor, to_bytes(encode_checkpoint(self._checkpoint, _join(self._fragments)) + "\n"))
            os.fsync(descriptor)
            sync_directory(self._folder)
        return descriptor


def has_checkpoint(folder: Path) -> bool:
    """Whether a run was begun there: what a kill leaves before the first record is whole doesn't count."""
    journal = folder / JOURNAL_NAME
    return (folder / CHECKPOINT_NAME).exists() or (journal.exists() and b"\n" in journal.read_bytes())


def load_checkpoint(folder: Path) -> Checkpoint:
    """The state that a run directory holds: that of its journal, or of checkpoint.json where that is newer.

    A torn last line of the journal is a step that never was. Everything else that doesn't fit raises CheckpointError.
    """
    return restore_run(folder)[0]


def restore_run(folder: Path) -> tuple[Checkpoint, dict[str, Outcome]]:
    """The same, and the outcomes of stages whose status.json a kill left missing, old or torn."""
    path, journal = folder / CHECKPOINT_NAME, folder / JOURNAL_NAME
    records = _read_journal(journal) if journal.exists() else iter(())
    first = next(records, None)
    checkpoint = Checkpoint.load(path) if path.exists() else None
    if checkpoint is None and first is None:
        raise CheckpointError(
            f"{folder} holds no checkpoint: neither {CHECKPOINT_NAME} nor {JOURNAL_NAME}; name a directory that a run "
            "printed, or start a new run"
        )
    if first is None:
        assert checkpoint is not None
        return checkpoint, {}
    begun = decode_checkpoint(first[1], journal)
    if checkpoint is not None and checkpoint.run_id != begun.run_id:
        raise CheckpointError(
            f"{path} is of run {checkpoint.run_id}, but {JOURNAL_NAME} beside it is of run {begun.run_id}; put back "
            f"the right file, or delete {CHECKPOINT_NAME} to resume from the journal"
        )
    outcomes: dict[str, Outcome] = {}
    for number, fields in records:
        try:
            entry = decode_entry(fields)
            begun.apply(entry)
            if entry.step.outcome is not None:
                outcomes[entry.step.node_id] = _with_updates(entry, fields.get("updates", ()), begun)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{journal}, line {number} is damaged ({error!r}); start a new run") from error
    if checkpoint is not None and checkpoint.sequence > begun.sequence:
        return checkpoint, {}
    missing = {
        node_id: outcome
        for node_id, outcome in outcomes.items()
        if not has_status(stage_path(folder, node_id), outcome)
    }
    return begun, missing


def read_steps(folder: Path) -> Iterator[tuple[Entry, Checkpoint]]:
    """Each step that the journal of a run directory holds, and the state behind it, which the next step changes.

    Those of restarts lie in folders of their own. Raises CheckpointError.
    """
    path = folder / JOURNAL_NAME
    records = _read_journal(path)
    first = next(records, None)
    if first is None:
        return
    state = decode_checkpoint(first[1], path)
    for number, fields in records:
        try:
            entry = decode_entry(fields)
            state.apply(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}, line {number} is damaged ({error!r}); start a new run") from error
        yield entry, state


def _with_updates(entry: Entry, keys: Iterable[str], checkpoint: Checkpoint) -> Outcome:
    """The step's outcome, whose updates the journal holds as changes of the context alone."""
    assert entry.step.outcome is not None
    scopes = [checkpoint.context_values]
    for _, number in entry.branch:
        checkpoint = checkpoint.branches[number]
        scopes.insert(0, checkpoint.context_values)
    values = ChainMap(*scopes)
    return replace(entry.step.outcome, context_updates={key: values.get(key) for key in keys})


def _read_journal(path: Path) -> Iterator[tuple[int, Any]]:
    """Line number and content of each whole record."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror}") from error
    for number, line in enumerate(lines[:-1], 1):
        try:
            yield number, json.loads(line)
        except ValueError as error:
            if number == len(lines) - 1:
                return  # A loss of power may leave a line whose blocks never reached the disk.
            raise CheckpointError(f"{path}, line {number} is damaged ({error}); start a new run") from error


def _cut_torn_tail(path: Path) -> None:
    """Remove what follows the last whole record, so that the next one begins on its own line."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    last = data[data.rfind(b"\n", 0, end - 1) + 1 : end] if end else b""
    if last:
        try:
            json.loads(last)
        except ValueError:
            end -= len(last)
    if end != len(data):
        os.truncate(path, end)


def _encode_items(values: Mapping[str, Any]) -> dict[str, str]:
    """Each key and value as they stand in a JSON object."""
    return {key: f"{encode_json(key)}:{encode_json(value)}" for key, value in values.items()}


def _find_appended(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Of lists that only got items behind those they had, these, so that a list that grows isn't written at each step.

    JSON that begins like a list's, less its bracket, and goes on with a comma, begins with the list's items.
    """
    found = {}
    for key, text in after.items():
        old = before.get(key, "")
        if old.endswith("]") and text[len(old) - 1 : len(old)] == "," and text.startswith(old[:-1]):
            found[key] = f"{encode_json(key)}:[{text[len(old) :]}"
    return found


def _join(fragments: Mapping[str, str]) -> str:
    return f"{{{','.join(fragments.values())}}}"
