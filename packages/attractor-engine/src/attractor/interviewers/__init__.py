"""Ways to ask a person (section 6)."""

from attractor.interviewers.base import (
    Answer,
    AnswerValue,
    Interviewer,
    Option,
    Question,
    QuestionType,
    ask_multiple,
)
from attractor.interviewers.console import ConsoleInterviewer
from attractor.interviewers.programmatic import (
    AutoApproveInterviewer,
    CallbackInterviewer,
    QueueInterviewer,
    RecordingInterviewer,
)

__all__ = [
    "Answer",
    "AnswerValue",
    "AutoApproveInterviewer",
    "CallbackInterviewer",
    "ConsoleInterviewer",
    "Interviewer",
    "Option",
    "Question",
    "QuestionType",
    "QueueInterviewer",
    "RecordingInterviewer",
    "ask_multiple",
]
