"""What a human gate asks, by its `human.type`, and what an answer means for the way on (sections 4.6, 6.2 and 6.3)."""

from collections.abc import Sequence
from typing import Any

from attractor.graph import Edge, Node, to_seconds
from attractor.interviewers.base import Answer, AnswerValue, Option, Question, QuestionType
from attractor.interviewers.matching import find_option, interpret_answer, strip_accelerator
from attractor.outcome import Outcome

_NO_ANSWERS = (AnswerValue.SKIPPED, AnswerValue.TIMEOUT, AnswerValue.DEFERRED)
_NOTES_CHARACTERS = 500


def question_type(node: Node) -> QuestionType:
    """What `human.type` says; MULTIPLE_CHOICE where it says nothing that is known."""
    word = node.text("human.type").strip().lower().replace("-", "_")
    return QuestionType(word) if word in tuple(QuestionType) else QuestionType.MULTIPLE_CHOICE


def build_question(node: Node, edges: Sequence[Edge], options: tuple[Option, ...]) -> Question:
    """The gate's question. Only a multiple choice offers the labels of the edges; yes and no lead along two of them."""
    kind, timeout = question_type(node), to_seconds(node.attrs.get("human.timeout"))
    return Question(
        text=node.label,
        type=kind,
        options=options if kind is QuestionType.MULTIPLE_CHOICE else (),
        default=find_default_answer(node, edges, options),
        timeout_seconds=node.timeout if timeout is None else timeout,
        stage=node.id,
    )


def find_default_answer(node: Node, edges: Sequence[Edge], options: Sequence[Option]) -> Answer | None:
    """What `human.default_choice` stands for: a choice by target, key or label; yes or no; or a text."""
    wanted = node.text("human.default_choice").strip()
    kind = question_type(node)
    if not wanted:
        return None
    if kind is QuestionType.FREEFORM:
        return Answer(value=wanted, text=wanted)
    by_target = (option for edge, option in zip(edges, options, strict=True) if edge.target == wanted)
    option = next(by_target, None) or find_option(Answer(value=wanted), options)
    if kind is QuestionType.MULTIPLE_CHOICE:
        return Answer(value=option.key, selected_option=option) if option else None
    for value in (AnswerValue.YES, AnswerValue.NO):
        if option is not None and find_way(value, options) is option:
            return Answer(value=value)
    return interpret_answer(wanted, Question(text="", type=kind))


def accept_answer(answer: Answer, question: Question) -> Answer | None:
    """The answer, if it is one to the question, as it is stored; None if it makes no sense.

    Raises TypeError if an interviewer returned something else.
    """
    if not isinstance(answer, Answer):
        raise TypeError(f"the interviewer returned {type(answer).__name__} instead of an Answer")
    if answer.value in _NO_ANSWERS and not answer.text:
        return answer
    if question.type is QuestionType.MULTIPLE_CHOICE:
        option = find_option(answer, question.options)
        return Answer(value=option.key, selected_option=option, text=answer.text) if option else None
    if question.type is QuestionType.FREEFORM:
        text = answer.text or str(answer.value)
        return Answer(value=text, text=text)
    return interpret_answer(str(answer.value), question) or interpret_answer(answer.text, question)


def was_skipped(answer: Answer) -> bool:
    """Whether the person passed; who types the word "skipped" into a free text didn't."""
    return answer.value == AnswerValue.SKIPPED and not answer.text


def find_way(value: str, options: Sequence[Option]) -> Option | None:
    """The choice that yes or no stands for: the one that is called so, else the first that is called nothing else."""
    named = {word: _find_named(word, options) for word in (AnswerValue.YES, AnswerValue.NO)}
    yes = named[AnswerValue.YES] or next((option for option in options if option is not named[AnswerValue.NO]), None)
    if value == AnswerValue.YES:
        return yes
    return named[AnswerValue.NO] or next((option for option in options if option is not yes), None)


def _find_named(word: AnswerValue, options: Sequence[Option]) -> Option | None:
    names = (word.value, word.value[0])
    by_label = (option for option in options if strip_accelerator(option.label).lower() in names)
    by_key = (option for option in options if option.key.lower() in names)
    return next(by_label, None) or next(by_key, None)


def judge_answer(node: Node, answer: Answer, edges: Sequence[Edge], options: Sequence[Option]) -> Outcome:
    """Where an answer leads. A no that no edge stands for is a FAIL; a free text takes whatever edge comes next."""
    kind = question_type(node)
    updates: dict[str, Any] = {}
    chosen = answer.selected_option
    if kind is not QuestionType.MULTIPLE_CHOICE:
        updates["human.gate.answer"] = answer.text if kind is QuestionType.FREEFORM else str(answer.value)
        if kind is QuestionType.FREEFORM:
            return Outcome.success(f"Answered: {answer.text}"[:_NOTES_CHARACTERS], context_updates=updates)
        chosen = find_way(answer.value, options)
    if chosen is None:
        return Outcome.fail(f"human gate {node.id!r}: the answer was no", context_updates=updates, terminal=True)
    updates |= {"human.gate.selected": chosen.key, "human.gate.label": chosen.label}
    return Outcome.success(
        f"Selected: {strip_accelerator(chosen.label)}",
        preferred_label=chosen.label,
        suggested_next_ids=(edges[options.index(chosen)].target,),
        context_updates=updates,
    )
