"""Keys of choices, and which choice an answer means (sections 4.6 and 6.2)."""

import re
from collections.abc import Iterable, Sequence

from attractor.interviewers.base import Answer, AnswerValue, Option, Question, QuestionType

_ACCELERATOR = re.compile(r"\s*(?:\[(\w+)\]|(\w+)\)(?=\s)|(\w)\s+-(?=\s))\s*")


def parse_accelerator_key(label: str) -> str:
    """`Y` of `[Y] Yes`, `Y) Yes` and `Y - Yes`; else the first letter or digit, as a capital; empty without any."""
    if match := _ACCELERATOR.match(label):
        return match[1] or match[2] or match[3]
    return next((char.upper() for char in label if char.isalnum()), "")


def make_options(labels: Iterable[str]) -> tuple[Option, ...]:
    """An option for each label, each with a key that no other has, whatever its case."""
    labels = list(labels)
    taken: set[str] = set()
    keys: dict[int, str] = {}
    # Those that are written down go first, so that no guess takes their key.
    for index in sorted(range(len(labels)), key=lambda index: _ACCELERATOR.match(labels[index]) is None):
        wanted = (parse_accelerator_key(labels[index]), *(char.upper() for char in labels[index] if char.isalnum()))
        numbers = (str(number) for number in range(1, len(labels) + 1))
        keys[index] = next(key for key in (*wanted, *numbers) if key and key.lower() not in taken)
        taken.add(keys[index].lower())
    return tuple(Option(keys[index], label) for index, label in enumerate(labels))


def strip_accelerator(label: str) -> str:
    """The label without its accelerator, trimmed; an accelerator alone stays."""
    return _ACCELERATOR.sub("", label, count=1).strip() or label.strip()


def find_option(answer: Answer, options: Sequence[Option]) -> Option | None:
    """The option that is meant: by what the answer selected, by key, or by label, whatever the case; else None."""
    if answer.selected_option is not None:
        said = [answer.selected_option.key, answer.selected_option.label]
    else:
        said = [str(answer.value), answer.text]
    for text in (text.strip().lower() for text in said):
        for option in options:
            if text and text == option.key.lower():
                return option
        for option in options:
            if text and text in (option.label.strip().lower(), strip_accelerator(option.label).lower()):
                return option
    return None


_YES_NO = {"y": AnswerValue.YES, "yes": AnswerValue.YES, "n": AnswerValue.NO, "no": AnswerValue.NO}


def interpret_answer(line: str, question: Question) -> Answer | None:
    """What a person who said `line` means; None if that is no answer to the question."""
    match question.type:
        case QuestionType.FREEFORM:
            return Answer(value=line, text=line)
        case QuestionType.MULTIPLE_CHOICE:
            option = find_option(Answer(value=line), question.options)
            return Answer(value=option.key, selected_option=option, text=line) if option else None
        case _:
            value = _YES_NO.get(line.lower())
            return Answer(value=value, text=line) if value else None
