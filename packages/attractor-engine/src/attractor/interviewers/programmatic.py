"""Interviewers without a terminal or page of their own: for tests, automation and other programs (section 6.4)."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Self

from attractor.calls import call
from attractor.errors import QuestionError
from attractor.interviewers.asked import Ending
from attractor.interviewers.base import Answer, AnswerValue, Interviewer, Question, QuestionType
from attractor.interviewers.questions import QuestionStore


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
    """Asks another interviewer and keeps what was asked and answered in `recordings`, for `ReplayInterviewer`."""

    def __init__(self, inner: Interviewer) -> None:
        self._inner = inner
        self.recordings: list[tuple[Question, Answer]] = []

    async def ask(self, question: Question) -> Answer:
        answer: Answer = await call(self._inner.ask, question)
        self.recordings.append((question, answer))
        return answer

    async def inform(self, message: str, stage: str) -> None:
        """Pass a message on."""
        if (inform := getattr(self._inner, "inform", None)) is not None:
            await call(inform, message, stage)


class ReplayInterviewer:
    """Gives again what was answered before, in a run of the same pipeline: to each stage's question its own, in order.

    A question that was not recorded raises QuestionError: a replay must not go another way unnoticed.
    """

    def __init__(self, recordings: Iterable[tuple[Question, Answer]]) -> None:
        self._left = list(recordings)

    @classmethod
    def of_run(cls, logs_root: Path) -> Self:
        """What was answered in the run of that directory. Raises RunDirectoryError if its questions can't be read."""
        asked = QuestionStore(logs_root).list_all()
        timeout = Answer(value=AnswerValue.TIMEOUT)
        ended = [one for one in asked if one.ending in (Ending.ANSWERED, Ending.TIMED_OUT)]
        return cls((one.question, one.answer or timeout) for one in ended)

    async def ask(self, question: Question) -> Answer:
        for number, (asked, answer) in enumerate(self._left):
            if (asked.stage, asked.text, asked.type) == (question.stage, question.text, question.type):
                del self._left[number]
                return answer
        raise QuestionError(f"no answer was recorded for this question of stage {question.stage!r}: {question.text}")
