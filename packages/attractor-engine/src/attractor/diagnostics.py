"""What parsing, transforming and linting have to say about a pipeline (section 7.1)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands in its source: 1-based line and column, and 0-based character offsets."""

    line: int
    column: int
    start: int
    end: int


class Severity(StrEnum):
    """How bad it is. A pipeline with an ERROR doesn't run."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: which rule, how bad, what, where, and how to mend it.

    `edge` is `(source, target)`. `span` is None for a graph that was not parsed from text.
    """

    rule: str
    severity: Severity
    message: str
    node_id: str = ""
    edge: tuple[str, str] | None = None
    fix: str = ""
    file_name: str = ""
    span: Span | None = None

    def __str__(self) -> str:
        place = self.file_name or "<graph>"
        if self.span:
            place += f":{self.span.line}:{self.span.column}"
        text = f"{place}: {self.severity.value}: {self.message} [{self.rule}]"
        return f"{text}\n  fix: {self.fix}" if self.fix else text


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A finding as JSON. `line` and `column` are null for a graph that was not parsed from text."""
    span = diagnostic.span
    return {
        "rule": diagnostic.rule,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "file": diagnostic.file_name,
        "line": span.line if span else None,
        "column": span.column if span else None,
        "node": diagnostic.node_id or None,
        "edge": list(diagnostic.edge) if diagnostic.edge else None,
        "fix": diagnostic.fix or None,
    }
