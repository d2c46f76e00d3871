"""What a run directory tells of its run, as JSON."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attractor.errors import CheckpointError
from attractor.interviewers import AskedQuestion, QuestionStore
from attractor.server.runs import STOPPED
from attractor.state.checkpoint import Checkpoint
from attractor.state.run_directory import is_in_use, read_manifest
from attractor.state.step import RunStatus
from attractor.state.suspensions import list_suspensions, load_last_checkpoint

_ENDED = {
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as it stands. `questions` are those that wait for an answer.

    `status` is running, waiting, completed, failed or cancelled. A run that was killed is failed and `interrupted`,
    unless it had asked something: then it is waiting, for an answer makes it go on.
    """

    id: str
    manifest: Mapping[str, Any]
    checkpoint: Checkpoint
    executed: bool
    status: str
    reason: str
    interrupted: bool
    questions: tuple[AskedQuestion, ...]

    @property
    def is_resumable(self) -> bool:
        """Whether it can go on, and nobody executes it."""
        return not self.executed and self.status != "completed"

    def to_record(self) -> dict[str, Any]:
        """As JSON, for listings."""
        manifest, checkpoint = self.manifest, self.checkpoint
        return {
            "pipeline_id": self.id,
            "status": self.status,
            "name": str(manifest.get("name", "")),
            "label": str(manifest.get("label", "")),
            "goal": str(manifest.get("goal", "")),
            "started_at": manifest.get("started_at", 0.0),
            "updated_at": checkpoint.timestamp or manifest.get("started_at", 0.0),
            "elapsed": round(checkpoint.elapsed, 3),
            "current_node": checkpoint.current_node,
            "next_node": checkpoint.next_node,
            "failure_reason": self.reason,
            "interrupted": self.interrupted,
            "resumable": self.is_resumable,
            "executed": self.executed,
            "dry_run": bool(manifest.get("dry_run")),
            "simulate": bool(manifest.get("options", {}).get("simulate")),
            "usage": checkpoint.usage.to_record() if checkpoint.usage else None,
            "restarts": checkpoint.restarts,
            "questions": len(self.questions),
        }

    def to_detailed_record(self, path: Path) -> dict[str, Any]:
        """As JSON, with the progress."""
        checkpoint = self.checkpoint
        suspensions = list_suspensions(path) if self.status == "waiting" else []
        return {
            **self.to_record(),
            "questions": [asked.to_record() for asked in self.questions],
            "suspensions": [found.to_record() for found in suspensions if not found.question],
            "completed_nodes": checkpoint.completed_nodes,
            "node_outcomes": {node_id: outcome.status.value for node_id, outcome in checkpoint.node_outcomes.items()},
            "node_retries": checkpoint.node_retries,
        }


def view_run(path: Path) -> RunView:
    """The run in a directory; raises RunDirectoryError if there is none, or its manifest is damaged."""
    manifest = read_manifest(path)
    executed = is_in_use(path)
    try:
        checkpoint, damage = load_last_checkpoint(path), ""
    except CheckpointError as error:
        checkpoint, damage = Checkpoint(status=RunStatus.FAILED), str(error).replace(f"{path}{os.sep}", "")
    interrupted = not executed and (
        checkpoint.status in (RunStatus.RUNNING, RunStatus.RESTARTED)
        or (checkpoint.status is RunStatus.CANCELLED and checkpoint.reason == STOPPED)
    )
    pending = executed or interrupted or checkpoint.status is RunStatus.WAITING
    questions = tuple(QuestionStore(path).list_open()) if pending else ()
    reason = damage or checkpoint.reason
    if executed:
        status, reason = "waiting" if questions else "running", ""
    elif checkpoint.status is RunStatus.WAITING or (interrupted and questions):
        status = "waiting"
    elif interrupted:
        status, reason = "failed", reason or "the process that executed it ended; resume it to go on"
    else:
        status = _ENDED[checkpoint.status]
    return RunView(
        id=path.name,
        manifest=manifest,
        checkpoint=checkpoint,
        executed=executed,
        status=status,
        reason=reason,
        interrupted=interrupted,
        questions=questions,
    )
