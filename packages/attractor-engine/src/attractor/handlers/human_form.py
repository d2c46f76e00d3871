"""Several questions at once: a human gate with `human.questions` (section 6.1)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio

from attractor.graph import Edge, Node
from attractor.handlers.human_answers import accept_answer, judge_answer, was_skipped
from attractor.interviewers.asked import AskedQuestion, Ending
from attractor.interviewers.base import Answer, AnswerValue, Interviewer, Option, Question, QuestionType, ask_multiple
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
        """Ask, and ask again what got an answer that makes no sense. Each answer is kept as soon as it is there."""
        together = getattr(self._interviewer, "ask_multiple", None) is not None
        remaining = self._find_open()
        for _ in range(MAX_ROUNDS):
            again = []
            for batch in [remaining] if together else [[one] for one in remaining]:
                still_open = [one for one in batch if not self._store.has_ended(one.id)]
                answers = await ask_multiple(self._interviewer, [one.question for one in still_open])
                again += [one for one, answer in zip(still_open, answers, strict=True) if not self._accept(one, answer)]
            remaining = again
            if not remaining:
                return

    def _accept(self, one: AskedQuestion, answer: Answer) -> bool:
        """Keep the answer, unless it makes no sense."""
        accepted = accept_answer(answer, one.question)
        if accepted is None:
            return False
        if accepted.value == AnswerValue.DEFERRED and not accepted.text:
            self._deferred = True
        elif accepted.value != AnswerValue.TIMEOUT or accepted.text:
            self._store.take(one.id, accepted)
        return True

    async def _watch(self, poll: Callable[[], Awaitable[None]], asking: anyio.CancelScope) -> None:
        while self._find_open():
            await poll()
        asking.cancel()

    def _find_open(self) -> list[AskedQuestion]:
        return [one for one in self._asked if not self._store.has_ended(one.id)]


def judge_form(
    node: Node, asked: list[AskedQuestion], gate: Question, edges: Sequence[Edge], options: Sequence[Option]
) -> Outcome:
    """What the answers mean for the stage: they are in the context as `human.gate.answers`, in order.

    When time is over, the default of `gate` is the way on, or the answer to the questions that have none.
    """
    if any(one.answer is not None and was_skipped(one.answer) for one in asked):
        return Outcome.fail(f"human gate {node.id!r}: human skipped interaction")
    answers = [one.answer or gate.default for one in asked]
    if any(answer is None for answer in answers):
        reason = f"human gate {node.id!r}: not every question was answered in time"
        return Outcome(status=StageStatus.RETRY, failure_reason=reason)
    if gate.type is QuestionType.MULTIPLE_CHOICE and gate.default and not all(one.answer for one in asked):
        outcome = judge_answer(node, gate.default, edges, options)
        given = [str(one.answer.value) if one.answer else "" for one in asked]
        return replace(outcome, context_updates={**outcome.context_updates, ANSWERS_KEY: given})
    said = [str(answer.value) for answer in answers if answer is not None]
    return Outcome.success(f"{len(said)} answers", context_updates={ANSWERS_KEY: said})
