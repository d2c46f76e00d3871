"""Pipelines of language model stages, tools and people.

The everyday names are here. What a codergen stage runs on is in `attractor.backends`, blocking functions in
`attractor.sync`, what tests need in `attractor.testing`. Names are imported when first used, so that whoever reads or
lints a graph doesn't load what runs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attractor.backends import CodergenBackend, SimulatedBackend
    from attractor.conditions import Condition, parse_condition
    from attractor.diagnostics import Diagnostic, Severity
    from attractor.dot import parse_dot
    from attractor.errors import (
        AnsweredError,
        AttractorError,
        CheckpointError,
        ConditionSyntaxError,
        ContextValueError,
        DotSyntaxError,
        PipelineConfigurationError,
        QuestionError,
        RunDirectoryError,
        StylesheetSyntaxError,
        ValidationError,
    )
    from attractor.events import Event
    from attractor.graph import Edge, Graph, Node
    from attractor.graph_merge import MergeGraph
    from attractor.handlers.base import Handler, HandlerRegistry
    from attractor.interviewers import (
        Answer,
        AnswerValue,
        AskedQuestion,
        AutoApproveInterviewer,
        CallbackInterviewer,
        ConsoleInterviewer,
        DeferringInterviewer,
        Interviewer,
        Option,
        Question,
        QuestionStore,
        QuestionType,
        QueueInterviewer,
        RecordingInterviewer,
    )
    from attractor.outcome import Outcome, StageStatus
    from attractor.pipeline import PipelineRunner, RunResult, resume_pipeline, run_pipeline
    from attractor.state.checkpoint import Checkpoint
    from attractor.state.context import Context
    from attractor.state.suspensions import give_value, list_suspensions
    from attractor.suspension import Suspend, Suspension
    from attractor.transforms import Transform
    from attractor.validation import LintRule, validate, validate_or_raise

_HOMES = {
    "attractor.backends": ("CodergenBackend", "SimulatedBackend"),
    "attractor.conditions": ("Condition", "parse_condition"),
    "attractor.diagnostics": ("Diagnostic", "Severity"),
    "attractor.dot": ("parse_dot",),
    "attractor.errors": (
        "AnsweredError",
        "AttractorError",
        "CheckpointError",
        "ConditionSyntaxError",
        "ContextValueError",
        "DotSyntaxError",
        "PipelineConfigurationError",
        "QuestionError",
        "RunDirectoryError",
        "StylesheetSyntaxError",
        "ValidationError",
    ),
    "attractor.events": ("Event",),
    "attractor.graph": ("Edge", "Graph", "Node"),
    "attractor.graph_merge": ("MergeGraph",),
    "attractor.handlers.base": ("Handler", "HandlerRegistry"),
    "attractor.interviewers": (
        "Answer",
        "AnswerValue",
        "AskedQuestion",
        "AutoApproveInterviewer",
        "CallbackInterviewer",
        "ConsoleInterviewer",
        "DeferringInterviewer",
        "Interviewer",
        "Option",
        "Question",
        "QuestionStore",
        "QuestionType",
        "QueueInterviewer",
        "RecordingInterviewer",
    ),
    "attractor.outcome": ("Outcome", "StageStatus"),
    "attractor.pipeline": ("PipelineRunner", "RunResult", "resume_pipeline", "run_pipeline"),
    "attractor.state.checkpoint": ("Checkpoint",),
    "attractor.state.context": ("Context",),
    "attractor.state.suspensions": ("give_value", "list_suspensions"),
    "attractor.suspension": ("Suspend", "Suspension"),
    "attractor.transforms": ("Transform",),
    "attractor.validation": ("LintRule", "validate", "validate_or_raise"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "AnswerValue",
    "AnsweredError",
    "AskedQuestion",
    "AttractorError",
    "AutoApproveInterviewer",
    "CallbackInterviewer",
    "Checkpoint",
    "CheckpointError",
    "CodergenBackend",
    "Condition",
    "ConditionSyntaxError",
    "ConsoleInterviewer",
    "Context",
    "ContextValueError",
    "DeferringInterviewer",
    "Diagnostic",
    "DotSyntaxError",
    "Edge",
    "Event",
    "Graph",
    "Handler",
    "HandlerRegistry",
    "Interviewer",
    "LintRule",
    "MergeGraph",
    "Node",
    "Option",
    "Outcome",
    "PipelineConfigurationError",
    "PipelineRunner",
    "Question",
    "QuestionError",
    "QuestionStore",
    "QuestionType",
    "QueueInterviewer",
    "RecordingInterviewer",
    "RunDirectoryError",
    "RunResult",
    "Severity",
    "SimulatedBackend",
    "StageStatus",
    "StylesheetSyntaxError",
    "Suspend",
    "Suspension",
    "Transform",
    "ValidationError",
    "give_value",
    "list_suspensions",
    "parse_condition",
    "parse_dot",
    "resume_pipeline",
    "run_pipeline",
    "validate",
    "validate_or_raise",
]


def __getattr__(name: str) -> Any:
    if (module := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
