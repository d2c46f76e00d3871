"""What a quality gate says of a piece of work, and where that leads: pure, for gates in DOT and in Python alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PASS, FAIL, ESCALATE = "pass", "fail", "escalate"
GATE_ROUTES = (PASS, FAIL, ESCALATE)
GATE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class GateResult:
    """An evaluator's verdict. `reasons` say why, `feedback` tells whoever does the work next what to do differently.

    `score` is for people and logs: what counts is `passed`. Raises ValueError for a score that is no finite number.
    """

    passed: bool
    score: float | None = None
    reasons: Sequence[str] = ()
    feedback: str = ""

    def __post_init__(self) -> None:
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"the score of a gate must be a finite number or None, not {self.score}")
        if isinstance(self.reasons, str):
            # One reason alone; read as a sequence it would be its letters.
            object.__setattr__(self, "reasons", (self.reasons,))


def record_verdict(before: Mapping[str, Any] | None, result: GateResult, max_attempts: int) -> dict[str, Any]:
    """The gate's record after an evaluation: the result, with `attempts` and the `route` that it takes.

    A gate counts its evaluations since it last passed. The one that reaches `max_attempts` without passing, and each
    after it, escalates.
    """
    failed = 0 if before is None or before.get("passed") else int(before.get("attempts", 0))
    attempts = failed + 1
    route = PASS if result.passed else FAIL if attempts < max_attempts else ESCALATE
    return {
        "passed": result.passed,
        "score": result.score,
        "reasons": list(result.reasons),
        "feedback": result.feedback,
        "attempts": attempts,
        "route": route,
    }


def check_max_attempts(max_attempts: int) -> None:
    """Raises ValueError for a budget that leaves no evaluation."""
    if max_attempts < 1:
        raise ValueError(f"max_attempts must be at least 1, which {max_attempts} is not")


def read_verdict(record: Any) -> GateResult:
    """A verdict from JSON: `passed`, and any of `score`, `reasons`, `feedback`. Raises ValueError naming the field."""
    if not isinstance(record, Mapping):
        raise ValueError(f"a verdict must be a JSON object, not {type(record).__name__}")
    passed = record.get("passed")
    if not isinstance(passed, bool):
        raise ValueError(f"`passed` of a verdict must be true or false, not {passed!r}")
    score = record.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float | None):
        raise ValueError(f"`score` of a verdict must be a number, not {score!r}")
    reasons = record.get("reasons") or ()
    if isinstance(reasons, str):
        reasons = (reasons,)
    if not isinstance(reasons, list | tuple) or not all(isinstance(reason, str) for reason in reasons):
        raise ValueError("`reasons` of a verdict must be a list of texts")
    feedback = record.get("feedback") or ""
    if not isinstance(feedback, str):
        raise ValueError(f"`feedback` of a verdict must be text, not {type(feedback).__name__}")
    return GateResult(passed, None if score is None else float(score), tuple(reasons), feedback)


VERDICT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "passed": {"type": "boolean", "description": "whether the work meets the criteria"},
        "score": {"type": "number", "description": "how good it is, from 0 to 100"},
        "reasons": {"type": "array", "items": {"type": "string"}, "description": "why, one short sentence each"},
        "feedback": {"type": "string", "description": "what to do differently; empty if it passed"},
    },
    "required": ["passed", "score", "reasons", "feedback"],
    "additionalProperties": False,
}
"""What a model that judges is asked for."""
