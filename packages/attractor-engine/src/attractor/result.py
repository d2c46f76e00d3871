"""How a run ended, for whoever had it run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attractor.diagnostics import Diagnostic
from attractor.outcome import Outcome, StageStatus
from attractor.state.checkpoint import Checkpoint
from attractor.state.json_values import copy_json
from attractor.state.run_directory import restart_path
from attractor.state.step import RunStatus
from attractor.state.suspensions import find_suspensions
from attractor.state.usage import TokenUsage
from attractor.suspension import Suspension


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. `status` is SUCCESS or FAIL; `duration` is in seconds; `context` is a copy of the values.

    After `restarts` by edges with loop_restart, what it completed lies in `stages_root`, a folder of `logs_root`.
    `node_outcomes` are those of each node's last visit, without their context updates. `diagnostics` are lint's.
    `usage` is what the whole run used of models, also before it was resumed; None if it asked none.

    A run that is `cancelled` or `waiting` has not ended: its status is FAIL, since nobody may build on it yet, and it
    goes on when it is resumed. `suspensions` are what a waiting run waits for; those with a `question` are answered
    through QuestionStore, the others by `give_value()`.
    """

    status: StageStatus
    completed_nodes: tuple[str, ...]
    node_outcomes: Mapping[str, Outcome] = field(repr=False)
    context: Mapping[str, Any] = field(repr=False)
    failure_reason: str
    logs_root: Path
    run_id: str
    duration: float
    cancelled: bool = False
    waiting: bool = False
    suspensions: tuple[Suspension, ...] = ()
    restarts: int = 0
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)
    usage: TokenUsage | None = None

    @property
    def cost(self) -> float | None:
        """In US dollars at list prices; None if it is not known, or no model was asked."""
        return self.usage.cost if self.usage else None

    @property
    def stages_root(self) -> Path:
        """The folder that holds the directories of the completed nodes."""
        return restart_path(self.logs_root, self.restarts)


def to_result(
    checkpoint: Checkpoint, logs_root: Path, duration: float, diagnostics: tuple[Diagnostic, ...]
) -> RunResult:
    """The result of a run whose state is `checkpoint`."""
    succeeded, waiting = checkpoint.status is RunStatus.COMPLETED, checkpoint.status is RunStatus.WAITING
    return RunResult(
        status=StageStatus.SUCCESS if succeeded else StageStatus.FAIL,
        completed_nodes=tuple(checkpoint.completed_nodes),
        node_outcomes=dict(checkpoint.node_outcomes),
        context=copy_json(checkpoint.context_values),
        failure_reason=checkpoint.reason,
        logs_root=logs_root,
        run_id=checkpoint.run_id,
        duration=duration,
        cancelled=checkpoint.status is RunStatus.CANCELLED,
        waiting=waiting,
        suspensions=tuple(find_suspensions(checkpoint)) if waiting else (),
        restarts=checkpoint.restarts,
        diagnostics=diagnostics,
        usage=checkpoint.usage,
    )
