"""Asking a person (sections 6.1 to 6.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from attractor.calls import call


class QuestionType(StrEnum):
    """Decides what an answer may be."""

    YES_NO = "yes_no"
    MULTIPLE_CHOICE = "multiple_choice"
    FREEFORM = "freeform"
    CONFIRMATION = "confirmation"


class AnswerValue(StrEnum):
    """Answers that are not an option's key. DEFERRED: nobody can answer now, so the run shall wait without one."""

    YES = "yes"
    NO = "no"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class Option:
    """One choice: `key` is what is typed, `label` what is read."""

    key: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the person said. `value` is an AnswerValue, the chosen option's key, or free text."""

    value: str = ""
    selected_option: Option | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to ask. `timeout_seconds` of None waits for ever; `stage` is the id of the node that asks."""

    text: str
    type: QuestionType = QuestionType.MULTIPLE_CHOICE
    options: tuple[Option, ...] = ()
    default: Answer | None = None
    timeout_seconds: float | None = None
    stage: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Interviewer(Protocol):
    """A way to reach a person.

    `ask` is async, or a plain function that is then run in a worker thread. Two more methods are optional:
    `ask_multiple(questions)` asks in order unless the interviewer has a better way, and `inform(message, stage)`
    tells without asking. Time limits are kept by whoever asks, which cancels `ask`.
    """

    async def ask(self, question: Question) -> Answer: ...


async def ask_multiple(interviewer: Interviewer, questions: Sequence[Question]) -> list[Answer]:
    """Ask several questions, together if the interviewer can, else one after the other."""
    together = getattr(interviewer, "ask_multiple", None)
    if together is not None:
        return list(await call(together, questions))
    return [await call(interviewer.ask, question) for question in questions]
