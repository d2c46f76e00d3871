"""Ways to ask a person (section 6)."""

from attractor.interviewers.asked import AskedQuestion, Ending
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
    DeferringInterviewer,
    QueueInterviewer,
    RecordingInterviewer,
    ReplayInterviewer,
)
from attractor.interviewers.questions import QuestionStore

__all__ = [
    "Answer",
    "AnswerValue",
    "AskedQuestion",
    "AutoApproveInterviewer",
    "CallbackInterviewer",
    "ConsoleInterviewer",
    "DeferringInterviewer",
    "Ending",
    "Interviewer",
    "Option",
    "Question",
    "QuestionStore",
    "QuestionType",
    "QueueInterviewer",
    "RecordingInterviewer",
    "ReplayInterviewer",
    "ask_multiple",
]
