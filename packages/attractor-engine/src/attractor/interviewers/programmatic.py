"""Interviewers without a terminal or page of their own: for tests, automation and other programs (section 6.4)."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from attractor.calls import call
from attractor.interviewers.base import Answer, AnswerValue, Interviewer, Question, QuestionType


class AutoApproveInterviewer:
    """Says yes, and takes the first option."""

    async def ask(self, question: Question) -> Answer:
        if question.type in (QuestionType.YES_NO, QuestionType.CONFIRMATION):
            return Answer(value=AnswerValue.YES)
        if question.type is QuestionType.MULTIPLE_CHOICE and question.options:
            first = question.options[0]
            return Answer(value=first.key, selected_option=first)
        return Answer(value="auto-approved", text="auto-approved")


class CallbackInterviewer:
    """Asks a function, async or not; one that isn't runs in a worker thread."""

    def __init__(self, callback: Callable[[Question], Answer | Awaitable[Answer]]) -> None:
        self._callback = callback

    async def ask(self, question: Question) -> Answer:
        answer: Answer = await call(self._callback, question)
        return answer


class DeferringInterviewer:
    """Asks nobody: the run is suspended, until somebody answered its questions and resumes it."""

    async def ask(self, question: Question) -> Answer:
        return Answer(value=AnswerValue.DEFERRED)


class QueueInterviewer:
    """Gives prepared answers in order, then skips."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers = deque(answers)

    async def ask(self, question: Question) -> Answer:
        return self.answers.popleft() if self.answers else Answer(value=AnswerValue.SKIPPED)


class RecordingInterviewer:
    """Asks another interviewer and keeps what was asked and answered in `recordings`."""

    def __init__(self, inner: Interviewer) -> None:
        self._inner = inner
        self.recordings: list[tuple[Question, Answer]] = []

    async def ask(self, question: Question) -> Answer:
        answer: Answer = await call(self._inner.ask, question)
        self.recordings.append((question, answer))
        return answer
