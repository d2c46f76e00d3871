"""What a stage reports when it ends (section 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    @classmethod
    def success(cls, notes: str = "", **fields: Any) -> "Outcome":
        """A SUCCESS with notes."""
        return cls(status=StageStatus.SUCCESS, notes=notes, **fields)

    @classmethod
    def fail(cls, reason: str, **fields: Any) -> "Outcome":
        """A FAIL with its reason."""
        return cls(status=StageStatus.FAIL, failure_reason=reason, **fields)
