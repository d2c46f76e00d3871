"""When a loop that improves something has done enough: pure, for loops in DOT and in Python alike."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one turn came up with. A higher `score` is better; NaN means that there is none, which is no improvement.

    `payload` is any JSON. With `done` the loop ends here, whatever the score.
    """

    score: float
    payload: Any = None
    done: bool = False


class StopReason(StrEnum):
    """Why a loop ended. Where several hold, the first of these is told."""

    DONE = "done"
    OPTIMAL = "optimal"
    CONVERGED = "converged"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """When to stop: at `perfect_score`, after `patience` turns in a row that are no better than the best before them,
    after `max_iterations` turns. With a patience of 0 the first turn is the last. Raises ValueError.
    """

    perfect_score: float = 100.0
    patience: int = 4
    max_iterations: int = 20

    def __post_init__(self) -> None:
        if self.patience < 0:
            raise ValueError(f"patience must not be negative, as {self.patience} is")
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, which {self.max_iterations} is not")

    def judge(self, before: Mapping[str, Any], candidate: Candidate) -> dict[str, Any]:
        """What the turn changes in the state: all its values as they are next, `history` without the turns before.

        `before` has `best_score`, `streak` and `iterations` of the turns before, if there were any. `stop_reason` is
        empty while the loop goes on. ValueError for an infinite score.
        """
        score = float(candidate.score)
        if math.isinf(score):
            raise ValueError(f"a score must be a finite number, which {score} is not")
        known = None if math.isnan(score) else score
        best = before.get("best_score")
        improved = known is not None and (best is None or known > best)
        streak = 0 if improved else before.get("streak", 0) + 1
        iterations = before.get("iterations", 0) + 1
        update = {"iterations": iterations, "history": [known], "last_score": known, "streak": streak}
        if improved:
            best = known
            update |= {"best_score": known, "best_payload": candidate.payload}
        reason = ""
        if candidate.done:
            reason = StopReason.DONE.value
        elif best is not None and best >= self.perfect_score:
            reason = StopReason.OPTIMAL.value
        elif streak >= self.patience:
            reason = StopReason.CONVERGED.value
        elif iterations >= self.max_iterations:
            reason = StopReason.EXHAUSTED.value
        if reason and best is None:
            update |= {"best_score": None, "best_payload": None}
        return update | {"stop_reason": reason}
