"""Cancelling a run that no process executes: one that waits, or whose process was killed."""

import time
from functools import partial
from pathlib import Path

from agent_loop.environments import end_processes

from attractor.event_log import EventLog
from attractor.events import PipelineFailed
from attractor.state.journal import CheckpointStore, restore_run
from attractor.state.run_directory import STAGE_DIR_VARIABLE, RunDirectory, lies_within, restart_path
from attractor.state.step import Entry, RunStatus, Step
from attractor.state.suspensions import load_last_checkpoint

_OPEN = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CANCELLED)


async def record_cancellation(path: Path, reason: str) -> None:
    """Write down that the run was cancelled, as the process that executes it would, and end what a killed one left.

    Nothing happens to a run that has ended otherwise. Raises RunDirectoryError if a process executes it,
    CheckpointError if it is damaged.
    """
    with RunDirectory.open(path):
        await end_processes(STAGE_DIR_VARIABLE, partial(lies_within, path))
        folder = restart_path(path, load_last_checkpoint(path).restarts)
        checkpoint, statuses = restore_run(folder)
        if checkpoint.status not in _OPEN:
            return
        store = CheckpointStore(folder, checkpoint, statuses=statuses)
        try:
            end = Step(
                node_id="",
                status=RunStatus.CANCELLED,
                next_node=checkpoint.next_node,
                edge=checkpoint.edge,
                reason=reason,
            )
            store.append(Entry(end, time.time(), {}))
        finally:
            store.close()
        log = EventLog(path)
        log.emit(PipelineFailed, error=reason, duration=0.0)
        log.close()
