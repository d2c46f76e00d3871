"""The human gate: a person chooses the way on (section 4.6)."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from attractor.calls import call
from attractor.events import Emit, InterviewCompleted, InterviewStarted, InterviewTimeout, InterviewWithdrawn
from attractor.graph import Edge, Graph, Node
from attractor.handlers.human_answers import accept_answer, build_question, judge_answer, question_type, was_skipped
from attractor.handlers.human_form import Form, judge_form, make_questions
from attractor.interviewers.asked import AskedQuestion, Ending
from attractor.interviewers.base import Answer, AnswerValue, Interviewer, Option, Question, QuestionType
from attractor.interviewers.matching import make_options
from attractor.interviewers.questions import QuestionStore, locate
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context
from attractor.suspension import Suspend

MAX_QUESTIONS = 100
POLL_SECONDS = 0.1
"""How often a waiting gate looks whether another process has answered."""


class WaitHumanHandler:
    """Presents the labels of the outgoing edges as choices, and reports the one that a person takes.

    `human.type` asks for something else: yes_no and confirmation lead along the edges that are called so, else the
    first and the second; the text that freeform asks for goes to the context as `human.gate.answer`. `human.questions`
    asks several questions at once, whose answers are `human.gate.answers`.

    The question is stored in the run directory before the interviewer is asked, and so is the answer before the run
    goes on. Whoever answers first counts: the interviewer, or anybody who answers the stored question; then the
    interviewer's `ask` is cancelled. One that answers DEFERRED suspends the run.

    An answer that makes no sense is asked again, up to `MAX_QUESTIONS` times. When `human.timeout` (else
    `timeout`) of the node has passed since it was first asked, `human.default_choice` (a target, key or label) is
    taken; without it the gate asks for a retry.
    """

    owns_timeout = True
    is_external = True

    def __init__(
        self,
        interviewer: Interviewer,
        emit: Emit,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._interviewer = interviewer
        self._emit = emit
        self._clock = clock
        self._sleep = sleep

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        edges, options = find_choices(node, graph)
        if not edges and not (question_type(node) is QuestionType.FREEFORM and graph.outgoing_edges(node.id)):
            return Outcome.fail(f"human gate {node.id!r} has no outgoing edges to choose from", terminal=True)
        question = build_question(node, edges, options)
        root = context.run.questions_root or logs_root
        store = QuestionStore(root, self._clock)
        place = f"{locate(logs_root, root)}/{node.id}/{context.run.attempt_number(node.id)}"
        if form := make_questions(node, question):
            all_asked = [self._store(one, store, f"{place}/{at}", context) for at, one in enumerate(form)]
            return judge_form(node, await self._fill(all_asked, store), question, edges, options)
        asked = self._store(question, store, place, context)
        asked = await self._interview(asked, store)
        self._tell(asked)
        if asked.ending is Ending.TIMED_OUT and question.default is None:
            return Outcome(status=StageStatus.RETRY, failure_reason=f"human gate {node.id!r}: timeout, no default")
        if asked.ending is Ending.WITHDRAWN:
            return Outcome.fail(f"human gate {node.id!r}: no answer in {MAX_QUESTIONS} was one of its choices")
        answer = asked.answer or question.default
        assert answer is not None, "a question that was not answered has a default"
        if was_skipped(answer):
            return Outcome.fail(f"human gate {node.id!r}: human skipped interaction")
        return judge_answer(node, answer, edges, options)

    def _store(self, question: Question, store: QuestionStore, place: str, context: Context) -> AskedQuestion:
        asked, is_new = store.ask(question, place=place, branch=context.run.branch)
        if is_new:
            self._emit(InterviewStarted, question=question.text, stage=question.stage, qid=asked.id)
        return asked

    async def _fill(self, asked: list[AskedQuestion], store: QuestionStore) -> list[AskedQuestion]:
        """Several questions with what became of them; they have one time limit."""
        deadline = asked[0].deadline
        seconds = None if deadline is None else max(deadline - self._clock(), 0)
        form = Form(asked, store, self._interviewer)
        try:
            ended = await form.fill(seconds, lambda: self._sleep(POLL_SECONDS))
        except Suspend:
            raise
        except Exception:
            for one in asked:
                self._tell(store.close(one.id, Ending.WITHDRAWN))
            raise
        for one in ended:
            self._tell(one)
        return ended

    async def _interview(self, asked: AskedQuestion, store: QuestionStore) -> AskedQuestion:
        """The question with what became of it."""
        if asked.ending is not None:
            return asked
        remaining = None if asked.deadline is None else max(asked.deadline - self._clock(), 0)
        heard: Answer | None = Answer(value=AnswerValue.TIMEOUT)
        if remaining != 0:
            heard = await self._listen(asked, store, remaining)
        if store.has_ended(asked.id):
            ended = store.get(asked.id)
            if ended.source:
                await self._inform(f"Answered by {ended.source}: {ended.describe_answer()}", asked.question.stage)
            return ended
        if heard is None:
            return store.close(asked.id, Ending.WITHDRAWN)
        if heard.value == AnswerValue.DEFERRED and not heard.text:
            raise Suspend({"qid": asked.id, "text": asked.question.text}, question=asked.id)
        if heard.value == AnswerValue.TIMEOUT and not heard.text:
            return store.close(asked.id, Ending.TIMED_OUT)
        return store.take(asked.id, heard)

    async def _listen(self, asked: AskedQuestion, store: QuestionStore, seconds: float | None) -> Answer | None:
        """What the interviewer said; TIMEOUT if it said nothing in time, or somebody else answered before."""
        heard: list[Answer | None] = []
        failure: Exception | None = None
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, asked.id, store, tasks.cancel_scope)
                try:
                    heard.append(await self._ask(asked.question))
                except Exception as error:
                    # Kept from the task group, which would wrap it.
                    failure = error
                tasks.cancel_scope.cancel()
        if failure is not None:
            self._tell(store.close(asked.id, Ending.WITHDRAWN))
            raise failure
        return heard[0] if heard else Answer(value=AnswerValue.TIMEOUT)

    async def _watch(self, question_id: str, store: QuestionStore, asking: anyio.CancelScope) -> None:
        while not store.has_ended(question_id):
            await self._sleep(POLL_SECONDS)
        asking.cancel()

    async def _ask(self, question: Question) -> Answer | None:
        """An answer that is one of the options, or SKIPPED, TIMEOUT or DEFERRED; None if too many were none of them."""
        for _ in range(MAX_QUESTIONS):
            answer: Answer = await call(self._interviewer.ask, question)
            if accepted := accept_answer(answer, question):
                return accepted
        return None

    async def _inform(self, message: str, stage: str) -> None:
        if (inform := getattr(self._interviewer, "inform", None)) is not None:
            await call(inform, message, stage)

    def _tell(self, asked: AskedQuestion) -> None:
        question, duration = asked.question, round(max(self._clock() - asked.asked_at, 0), 6)
        if asked.ending is Ending.TIMED_OUT:
            self._emit(InterviewTimeout, question=question.text, stage=question.stage, duration=duration, qid=asked.id)
        elif asked.answer is not None:
            said = asked.describe_answer()
            self._emit(InterviewCompleted, question=question.text, answer=said, duration=duration, qid=asked.id)
        elif asked.ending is Ending.WITHDRAWN:
            self._emit(InterviewWithdrawn, question=question.text, stage=question.stage, qid=asked.id)


def find_choices(node: Node, graph: Graph) -> tuple[list[Edge], tuple[Option, ...]]:
    """The edges that a person chooses from, and an option for each."""
    edges = [edge for edge in graph.outgoing_edges(node.id) if _is_choice(edge)]
    return edges, make_options(edge.label or edge.target for edge in edges)


def _is_choice(edge: Edge) -> bool:
    """An edge with a condition is no choice of a person's, unless it asks about the choice."""
    return not edge.condition or "preferred_label" in edge.condition or "human.gate" in edge.condition
