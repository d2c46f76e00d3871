"""A question that was asked in a run, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from attractor.interviewers.base import Answer, Option, Question, QuestionType
from attractor.state.step import BranchPath


class Ending(StrEnum):
    """What became of a question. WITHDRAWN: its answer isn't needed any more."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question of a run. Times are in seconds since the epoch; a `deadline` of None waits for ever.

    `place` tells the visits of nodes apart, `branch` has the fan-out and the number of each branch that the stage lies
    in. An `ending` of None means that it is open. `source` says who answered, such as "terminal".
    """

    id: str
    question: Question
    asked_at: float
    deadline: float | None = None
    place: str = ""
    branch: BranchPath = ()
    ending: Ending | None = None
    answer: Answer | None = None
    answered_at: float | None = None
    source: str = ""

    def describe_answer(self) -> str:
        """What was answered, for people; empty without an answer."""
        if self.answer is None:
            return ""
        return self.answer.selected_option.label if self.answer.selected_option else str(self.answer.value)

    def to_record(self) -> dict[str, Any]:
        """As JSON, for listings and pages."""
        asked = self.question
        return {
            "qid": self.id,
            "stage": asked.stage,
            "text": asked.text,
            "type": asked.type.value,
            "options": [{"key": option.key, "label": option.label} for option in asked.options],
            "asked_at": self.asked_at,
            "deadline": self.deadline,
            "branch": [list(pair) for pair in self.branch],
            "ending": self.ending.value if self.ending else None,
            "answer": self.describe_answer() or None,
            "answered_at": self.answered_at,
            "source": self.source,
        }

    def to_stored(self) -> dict[str, Any]:
        """As JSON, with all that `decode_question()` needs."""
        default = self.question.default
        return {
            **{key: value for key, value in self.to_record().items() if key not in _OF_THE_ENDING},
            "place": self.place,
            "timeout_seconds": self.question.timeout_seconds,
            "default": str(default.value) if default else None,
            "metadata": dict(self.question.metadata),
        }


_OF_THE_ENDING = ("ending", "answer", "answered_at", "source")


def decode_question(record: Mapping[str, Any]) -> AskedQuestion:
    """The reverse of `to_stored()`; raises LookupError, TypeError or ValueError for what is no question."""
    options = tuple(Option(option["key"], option["label"]) for option in record["options"])
    question = Question(
        text=record["text"],
        type=QuestionType(record["type"]),
        options=options,
        default=None if record["default"] is None else _make_answer(record["default"], "", options),
        timeout_seconds=record["timeout_seconds"],
        stage=record["stage"],
        metadata=record["metadata"],
    )
    branch = tuple((fan_out, number) for fan_out, number in record["branch"])
    return AskedQuestion(
        id=record["qid"],
        question=question,
        asked_at=record["asked_at"],
        deadline=record["deadline"],
        place=record["place"],
        branch=branch,
    )


def decode_ending(asked: AskedQuestion, record: Mapping[str, Any]) -> AskedQuestion:
    """The question with what became of it; raises the same."""
    ending, answer = Ending(record["ending"]), None
    if ending is Ending.ANSWERED:
        answer = _make_answer(record["key"] or record["value"], record["text"], asked.question.options)
    source = record.get("source", "")
    return replace(asked, ending=ending, answer=answer, answered_at=record["time"], source=source)


def _make_answer(value: str, text: str, options: tuple[Option, ...]) -> Answer:
    option = next((option for option in options if option.key == value), None)
    return Answer(value=value, selected_option=option, text=text)
