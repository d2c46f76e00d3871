"""What a stage reports when it ends (section 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class StageStatus(StrEnum):
    """The five statuses; their values are the words that conditions compare with."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    RETRY = "retry"
    FAIL = "fail"
    SKIPPED = "skipped"

    @property
    def is_success(self) -> bool:
        """Success for goal gates: SUCCESS or PARTIAL_SUCCESS."""
        return self in (StageStatus.SUCCESS, StageStatus.PARTIAL_SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of executing a node.

    `context_updates` must be JSON values. `word` is a routing word of the pipeline's own that a stage reported where
    a status belongs: `outcome=word` matches it. `terminal` marks a FAIL that another attempt can't mend
    (authentication, configuration, validation), so that it uses no retries.
    """

    status: StageStatus
    preferred_label: str = ""
    suggested_next_ids: tuple[str, ...] = ()
    context_updates: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    failure_reason: str = ""
    word: str = ""
    terminal: bool = False

    def __post_init__(self) -> None:
        given: object = self.suggested_next_ids
        if isinstance(given, str):
            # One id alone; read as a sequence it would be its letters.
            object.__setattr__(self, "suggested_next_ids", (given,))

    @classmethod
    def success(cls, notes: str = "", **fields: Any) -> "Outcome":
        """A SUCCESS with notes."""
        return cls(status=StageStatus.SUCCESS, notes=notes, **fields)

    @classmethod
    def fail(cls, reason: str, **fields: Any) -> "Outcome":
        """A FAIL with its reason."""
        return cls(status=StageStatus.FAIL, failure_reason=reason, **fields)

    def without_updates(self) -> "Outcome":
        """The outcome alone, for memory: its updates are in the context already."""
        return replace(self, context_updates={}) if self.context_updates else self


_DIALECT = {"succeeded": "success", "failed": "fail", "failure": "fail"}
_LABEL_NAMES = ("preferred_label", "preferred_next_label")


def to_status_record(outcome: Outcome) -> dict[str, Any]:
    """The content of status.json (Appendix C). It has both `outcome`, which routes, and `status`, one of the five."""
    return {
        "outcome": outcome.word or outcome.status.value,
        "status": outcome.status.value,
        "preferred_label": outcome.preferred_label,
        "suggested_next_ids": list(outcome.suggested_next_ids),
        "context_updates": dict(outcome.context_updates),
        "notes": outcome.notes,
        "failure_reason": outcome.failure_reason,
    }


def parse_status_record(record: Any) -> Outcome:
    """What a stage reported in status.json or through `report_outcome`; raises ValueError naming the field at fault.

    `outcome` or `status` must be there. A word that is none of the five routes as itself: with a status beside it, it
    has that status; alone, it is a FAIL that no retry mends.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"it must be a JSON object, not {type(record).__name__}")
    words = [_read_text(record, name) for name in ("outcome", "status")]
    known = [status for word in words if (status := _to_status(word))]
    word = next((word for word in words if word and not _to_status(word)), "")
    if not known and not word:
        raise ValueError("it has neither `outcome` nor `status`")
    status = known[0] if known else StageStatus.FAIL
    notes = _read_text(record, "notes")
    reason = _read_text(record, "failure_reason")
    if status is StageStatus.FAIL:
        reason = reason or notes or f"the stage reported {word or 'fail'!r}"
    return Outcome(
        status=status,
        preferred_label=next((label for name in _LABEL_NAMES if (label := _read_text(record, name))), ""),
        suggested_next_ids=_read_ids(record),
        context_updates=_read_updates(record),
        notes=notes,
        failure_reason=reason,
        word=word,
        terminal=bool(word) and status is StageStatus.FAIL,
    )


def _to_status(word: str) -> StageStatus | None:
    word = word.strip().lower()
    try:
        return StageStatus(_DIALECT.get(word, word))
    except ValueError:
        return None


def _read_text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise ValueError(f"`{name}` must be text, not {type(value).__name__}")


def _read_ids(record: Mapping[str, Any]) -> tuple[str, ...]:
    value = record.get("suggested_next_ids") or ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("`suggested_next_ids` must be a list of node ids")


def _read_updates(record: Mapping[str, Any]) -> Mapping[str, Any]:
    value = record.get("context_updates") or {}
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"`context_updates` must be an object, not {type(value).__name__}")
