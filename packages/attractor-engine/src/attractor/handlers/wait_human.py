"""The human gate: a person chooses the way on (section 4.6)."""

import time
from pathlib import Path

import anyio

from attractor.calls import call
from attractor.events import Emit, InterviewCompleted, InterviewStarted, InterviewTimeout
from attractor.graph import Edge, Graph, Node, to_seconds
from attractor.interviewers.base import Answer, AnswerValue, Interviewer, Option, Question, QuestionType
from attractor.interviewers.matching import find_option, make_options, strip_accelerator
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context

MAX_QUESTIONS = 100


class WaitHumanHandler:
    """Presents the labels of the outgoing edges as choices, and reports the one that a person takes.

    An answer that is none of them is asked again, up to `MAX_QUESTIONS` times. When `human.timeout` (else `timeout`) of
    the node passes, `human.default_choice` (a target, key or label) is taken; without it the gate asks for a retry.
    """

    owns_timeout = True
    is_external = True

    def __init__(self, interviewer: Interviewer, emit: Emit) -> None:
        self._interviewer = interviewer
        self._emit = emit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        edges, options = find_choices(node, graph)
        if not edges:
            return Outcome.fail(f"human gate {node.id!r} has no outgoing edges to choose from", terminal=True)
        default = find_default(node, edges, options)
        timeout = to_seconds(node.attrs.get("human.timeout"))
        question = Question(
            text=node.label,
            type=QuestionType.MULTIPLE_CHOICE,
            options=options,
            default=Answer(value=default.key, selected_option=default) if default else None,
            timeout_seconds=node.timeout if timeout is None else timeout,
            stage=node.id,
        )
        answer = await self._interview(question)
        chosen = find_option(answer, options)
        if answer.value == AnswerValue.TIMEOUT:
            if default is None:
                return Outcome(status=StageStatus.RETRY, failure_reason=f"human gate {node.id!r}: timeout, no default")
            chosen = default
        elif chosen is None and answer.value == AnswerValue.SKIPPED:
            return Outcome.fail(f"human gate {node.id!r}: human skipped interaction")
        if chosen is None:
            return Outcome.fail(f"human gate {node.id!r}: no answer in {MAX_QUESTIONS} was one of its choices")
        edge = edges[options.index(chosen)]
        return Outcome.success(
            f"Selected: {strip_accelerator(chosen.label)}",
            preferred_label=chosen.label,
            suggested_next_ids=(edge.target,),
            context_updates={"human.gate.selected": chosen.key, "human.gate.label": chosen.label},
        )

    async def _interview(self, question: Question) -> Answer:
        """An answer that is one of the options, SKIPPED or TIMEOUT; the last one if there were too many others."""
        begun = time.monotonic()
        self._emit(InterviewStarted, question=question.text, stage=question.stage)
        answer = Answer(value=AnswerValue.TIMEOUT)
        with anyio.move_on_after(question.timeout_seconds):
            for _ in range(MAX_QUESTIONS):
                answer = Answer(value=AnswerValue.TIMEOUT)
                answer = await self._ask(question)
                if find_option(answer, question.options) or answer.value in (AnswerValue.SKIPPED, AnswerValue.TIMEOUT):
                    break
        duration = round(time.monotonic() - begun, 6)
        if answer.value == AnswerValue.TIMEOUT:
            self._emit(InterviewTimeout, question=question.text, stage=question.stage, duration=duration)
        else:
            option = find_option(answer, question.options)
            said = option.label if option else str(answer.value)
            self._emit(InterviewCompleted, question=question.text, answer=said, duration=duration)
        return answer

    async def _ask(self, question: Question) -> Answer:
        answer: Answer = await call(self._interviewer.ask, question)
        return answer


def find_choices(node: Node, graph: Graph) -> tuple[list[Edge], tuple[Option, ...]]:
    """The edges that a person chooses from, and an option for each."""
    edges = [edge for edge in graph.outgoing_edges(node.id) if _is_choice(edge)]
    return edges, make_options(edge.label or edge.target for edge in edges)


def _is_choice(edge: Edge) -> bool:
    """An edge with a condition is no choice of a person's, unless it asks about the choice."""
    return not edge.condition or "preferred_label" in edge.condition or "human.gate" in edge.condition


def find_default(node: Node, edges: list[Edge], options: tuple[Option, ...]) -> Option | None:
    """What `human.default_choice` names: the target of a choice, its key or its label."""
    wanted = node.text("human.default_choice")
    if not wanted:
        return None
    by_target = (option for edge, option in zip(edges, options, strict=True) if edge.target == wanted)
    return next(by_target, None) or find_option(Answer(value=wanted), options)
