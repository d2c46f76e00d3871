"""The error tree of this package. Each message is one clear sentence: what, where, and what to do.

AttractorError
 +-- DotSyntaxError        the DOT source can't be read
 +-- ConditionSyntaxError  an edge condition can't be read
 +-- StylesheetSyntaxError a model stylesheet can't be read
 +-- ValidationError       lint found errors; the pipeline doesn't run
 +-- CheckpointError       a run can't be resumed from what lies on disk
 +-- RunDirectoryError     the run directory can't be used
 +-- ContextValueError     a context value isn't JSON
 +-- QuestionError         a question isn't open, or an answer doesn't fit it
 |    +-- AnsweredError    somebody answered it already
 +-- DrawingError          a pipeline can't be drawn
 +-- IncompleteEffectError an effect was begun, and nobody knows whether it happened
 +-- PipelineConfigurationError   a backend, handler or option is missing or contradictory
"""

from collections.abc import Sequence
from typing import Any

from attractor.diagnostics import Diagnostic

_EXCERPT = 160
"""Characters of a source line that a message shows."""


class AttractorError(Exception):
    """Base of all errors that this package raises."""


def point_at(line: str, column: int) -> str:
    """A source line, or what stands around its 1-based column if it is long, and a caret under that column."""
    start = max(0, column - 1 - _EXCERPT // 2) if len(line) > _EXCERPT else 0
    # Tabs stay tabs, so that the caret stands under its character in any terminal.
    before = "".join("\t" if char == "\t" else " " for char in line[start : column - 1])
    return f"    {line[start : start + _EXCERPT]}\n    {before}^"


class DotSyntaxError(AttractorError):
    """The DOT source can't be read. `str()` shows place, source line, caret and hint."""

    def __init__(
        self,
        message: str,
        *,
        file_name: str = "",
        line: int = 1,
        column: int = 1,
        source_line: str = "",
        hint: str = "",
    ) -> None:
        self.message = message
        self.file_name = file_name
        self.line = line
        self.column = column
        self.source_line = source_line
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        text = f"{self.file_name or '<dot>'}:{self.line}:{self.column}: {self.message}"
        if self.source_line:
            text += f"\n{point_at(self.source_line, self.column)}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ConditionSyntaxError(AttractorError):
    """An edge condition can't be read. `column` is 1-based within the condition."""

    def __init__(self, message: str, *, column: int = 1) -> None:
        super().__init__(message)
        self.column = column


class StylesheetSyntaxError(AttractorError):
    """A model stylesheet can't be read. `line` and `column` are 1-based within the stylesheet."""

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class ValidationError(AttractorError):
    """Lint found errors. `diagnostics` holds all findings, warnings included."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(found) for found in self.diagnostics if found.severity == "error"))


class CheckpointError(AttractorError):
    """A run can't be resumed: its checkpoint is missing, torn, or belongs to another pipeline."""


class RunDirectoryError(AttractorError):
    """The run directory can't be made, read or written."""


class ContextValueError(AttractorError):
    """A context value is not JSON; names the node and the key."""


class QuestionError(AttractorError):
    """There is no such open question or suspended stage, or what was said is no answer to it."""


class AnsweredError(QuestionError):
    """The question was answered already, or the value given: the first answer counts."""


class DrawingError(AttractorError):
    """A pipeline can't be drawn: nothing on this machine does that, or the graph is too much for it."""


class IncompleteEffectError(AttractorError):
    """An effect was claimed and not committed: it may have happened or not. `key` and `namespace` tell which."""

    def __init__(self, message: str, *, key: Any = None, namespace: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.namespace = namespace


class PipelineConfigurationError(AttractorError):
    """A backend, handler or option is missing or contradicts another."""
