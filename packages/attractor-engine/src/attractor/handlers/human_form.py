"""Several questions at once: a human gate with `human.questions` (section 6.1)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from attractor.graph import Node
from attractor.handlers.human_answers import accept_answer, was_skipped
from attractor.interviewers.asked import AskedQuestion, Ending
from attractor.interviewers.base import AnswerValue, Interviewer, Question, QuestionType, ask_multiple
from attractor.interviewers.questions import QuestionStore
from attractor.outcome import Outcome, StageStatus
from attractor.suspension import Suspend

ANSWERS_KEY = "human.gate.answers"
MAX_ROUNDS = 100


def split_questions(node: Node) -> list[str]:
    """The questions of `human.questions`, a line each."""
    return [line.strip() for line in node.text("human.questions").splitlines() if line.strip()]


def make_questions(node: Node, gate: Question) -> list[Question]:
    """One for each line, of the gate's type; a multiple choice can't be one, so that those are free texts."""
    kind = QuestionType.FREEFORM if gate.type is QuestionType.MULTIPLE_CHOICE else gate.type
    return [replace(gate, text=text, type=kind, options=(), default=None) for text in split_questions(node)]


class Form:
    """The questions of one gate, asked together. `asked` is how they stand in the store."""

    def __init__(self, asked: list[AskedQuestion], store: QuestionStore, interviewer: Interviewer) -> None:
        self._asked = asked
        self._store = store
        self._interviewer = interviewer
        self._deferred = False

    async def fill(self, seconds: float | None, poll: Callable[[], Awaitable[None]]) -> list[AskedQuestion]:
        """The questions with what became of them, after at most so many seconds; None waits for ever.

        The interviewer gets those that are open, together if it can. Answers that others give meanwhile count; between
        two looks for them `poll` waits. Raises Suspend where the interviewer defers one.
        """
        failure: Exception | None = None
        if self._find_open():
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch, poll, tasks.cancel_scope)
                    try:
                        await self._interview()
                    except Exception as error:
                        # Kept from the task group, which would wrap it.
                        failure = error
                    tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        for one in self._find_open():
            if self._deferred:
                raise Suspend({"qid": one.id, "text": one.question.text}, question=one.id)
            self._store.close(one.id, Ending.TIMED_OUT)
        return [self._store.get(one.id) for one in self._asked]

    async def _interview(self) -> None:
        """Ask, and ask again what got an answer that makes no sense."""
        remaining = self._find_open()
        for _ in range(MAX_ROUNDS):
            again = []
            answers = await ask_multiple(self._interviewer, [one.question for one in remaining])
            for one, answer in zip(remaining, answers, strict=True):
                accepted = accept_answer(answer, one.question)
                if accepted is None:
                    again.append(one)
                elif accepted.value == AnswerValue.DEFERRED and not accepted.text:
                    self._deferred = True
                elif accepted.value != AnswerValue.TIMEOUT or accepted.text:
                    self._store.take(one.id, accepted)
            remaining = again
            if not remaining:
                return

    async def _watch(self, poll: Callable[[], Awaitable[None]], asking: anyio.CancelScope) -> None:
        while self._find_open():
            await poll()
        asking.cancel()

    def _find_open(self) -> list[AskedQuestion]:
        return [one for one in self._asked if not self._store.has_ended(one.id)]


def judge_form(node: Node, asked: list[AskedQuestion]) -> Outcome:
    """What the answers mean for the stage: they are in the context as `human.gate.answers`, in order."""
    if any(one.ending is not Ending.ANSWERED for one in asked):
        reason = f"human gate {node.id!r}: not every question was answered in time"
        return Outcome(status=StageStatus.RETRY, failure_reason=reason)
    if any(one.answer is not None and was_skipped(one.answer) for one in asked):
        return Outcome.fail(f"human gate {node.id!r}: human skipped interaction")
    said = [str(one.answer.value) for one in asked if one.answer is not None]
    return Outcome.success(f"{len(said)} answers", context_updates={ANSWERS_KEY: said})
