"""The questions of a run, kept in its directory: asked, answered and listed by whatever process (section 6).

`questions/q1.json` is what was asked, written before anybody is asked; `questions/q1.answer.json` is what became of it.
The second file is made once and whole, so that of several who answer the first one counts, and a kill at any moment
loses nothing.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from attractor.errors import AnsweredError, QuestionError, RunDirectoryError
from attractor.interviewers.asked import AskedQuestion, Ending, decode_ending, decode_question
from attractor.interviewers.base import Answer, Question
from attractor.interviewers.matching import find_option, interpret_answer, strip_accelerator
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.run_directory import create_file
from attractor.state.step import BranchPath

QUESTIONS_NAME = "questions"
_ADVICE = "put the original back, or start a new run"


class QuestionStore:
    """The questions of one run directory. Any number of these, in any processes, may be open at once.

    Only the process that executes the run may call `ask()`.
    """

    def __init__(self, logs_root: Path, clock: Callable[[], float] = time.time) -> None:
        self.root = logs_root
        self._folder = logs_root / QUESTIONS_NAME
        self._clock = clock
        self._known: list[AskedQuestion] = []

    def ask(self, question: Question, *, place: str = "", branch: BranchPath = ()) -> tuple[AskedQuestion, bool]:
        """Store a question, durably, and tell whether it is new.

        One of the same place that is open or has ended, unless withdrawn, is taken up instead: its deadline counts
        from when it was first asked, and its answer holds.
        """
        everything = self.list_all()
        for asked in reversed(everything):
            if (asked.place, asked.branch) == (place, branch) and asked.ending is not Ending.WITHDRAWN:
                return asked, False
        now, limit = self._clock(), question.timeout_seconds
        asked = AskedQuestion(
            id=f"q{len(everything) + 1}",
            question=question,
            asked_at=round(now, 3),
            deadline=None if limit is None else round(now + limit, 3),
            place=place,
            branch=branch,
        )
        create_file(self._question_path(asked.id), to_bytes(encode_json(asked.to_stored()) + "\n"))
        return asked, True

    def answer(self, question_id: str, said: Answer | str, source: str = "") -> AskedQuestion:
        """Answer an open question: by key, label or text. Durable when this returns; `source` says who answered.

        Raises QuestionError if there is no such question, the text is no answer to it, or its time is over;
        AnsweredError if somebody answered before.
        """
        asked = self.get(question_id)
        if asked.ending is not None:
            raise _refuse(asked)
        now = self._clock()
        if asked.deadline is not None and now >= asked.deadline:
            raise _refuse(replace(asked, ending=Ending.TIMED_OUT))
        answer = said if isinstance(said, Answer) else interpret_answer(said.strip(), asked.question)
        if answer is None:
            raise QuestionError(f"{said!r} is no answer to question {question_id}; say {_describe_choices(asked)}")
        option = find_option(answer, asked.question.options)
        record = {
            "ending": Ending.ANSWERED.value,
            "value": str(answer.value),
            "text": answer.text,
            "key": option.key if option else None,
            "source": source,
            "time": round(now, 3),
        }
        if not self._end(question_id, record):
            raise _refuse(self.get(question_id))
        return self.get(question_id)

    def take(self, question_id: str, answer: Answer) -> AskedQuestion:
        """Answer a question unless it has ended; what became of it."""
        with suppress(QuestionError):
            return self.answer(question_id, answer)
        asked = self.get(question_id)
        return asked if asked.ending else self.close(question_id, Ending.TIMED_OUT)

    def close(self, question_id: str, ending: Ending) -> AskedQuestion:
        """End a question without an answer, unless it has ended; what became of it."""
        self._end(question_id, {"ending": ending.value, "time": round(self._clock(), 3)})
        return self.get(question_id)

    def withdraw(self, run_root: Path, branch: BranchPath = ()) -> list[AskedQuestion]:
        """Close the open questions of a branch of a run, or of all of the run: nobody needs their answers now.

        Returns those that nobody answered at the last moment.
        """
        within = locate(run_root, self.root)
        closed = [
            self.close(asked.id, Ending.WITHDRAWN)
            for asked in self.list_open()
            if (within == "." or asked.place.startswith(f"{within}/")) and asked.branch[: len(branch)] == branch
        ]
        return [asked for asked in closed if asked.ending is Ending.WITHDRAWN]

    def get(self, question_id: str) -> AskedQuestion:
        """One question; raises QuestionError if there is none of that id."""
        asked = next((asked for asked in self.list_all() if asked.id == question_id), None)
        if asked is None:
            known = ", ".join(asked.id for asked in self.list_open()) or "none"
            raise QuestionError(f"{self.root} has no question {question_id!r}; open are: {known}")
        return asked

    def list_open(self) -> list[AskedQuestion]:
        """Those that wait for an answer, the oldest first. One whose time is over is open until the run notices."""
        return [asked for asked in self.list_all() if asked.ending is None]

    def list_all(self) -> list[AskedQuestion]:
        """Every question that was asked, the oldest first. Raises RunDirectoryError for a damaged file."""
        self._known = [asked if asked.ending else self._read_ending(asked) for asked in self._known]
        while (asked := self._read_question(f"q{len(self._known) + 1}")) is not None:
            self._known.append(self._read_ending(asked))
        return list(self._known)

    def has_ended(self, question_id: str) -> bool:
        """Whether somebody answered, or it ended in another way. Cheap."""
        return self._answer_path(question_id).exists()

    def _read_question(self, question_id: str) -> AskedQuestion | None:
        return _read(self._question_path(question_id), decode_question)

    def _read_ending(self, asked: AskedQuestion) -> AskedQuestion:
        return _read(self._answer_path(asked.id), lambda record: decode_ending(asked, record)) or asked

    def _end(self, question_id: str, record: Mapping[str, Any]) -> bool:
        return create_file(self._answer_path(question_id), to_bytes(encode_json(dict(record)) + "\n"))

    def _question_path(self, question_id: str) -> Path:
        return self._folder / f"{question_id}.json"

    def _answer_path(self, question_id: str) -> Path:
        return self._folder / f"{question_id}.answer.json"


def locate(folder: Path, root: Path) -> str:
    """A run's folder, as the places of its questions name it."""
    return os.path.relpath(folder, root)


def is_asked_by(asked: AskedQuestion, place: str) -> bool:
    """Whether a stage of the run there asked, and not one of a run within that stage."""
    stage = f"{place}/{asked.question.stage}/"
    return asked.place.startswith(stage) and asked.place[len(stage) :].replace("/", "").isdigit()


def _refuse(asked: AskedQuestion) -> QuestionError:
    match asked.ending:
        case Ending.ANSWERED:
            return AnsweredError(f"question {asked.id} was answered already: {asked.describe_answer()}")
        case Ending.TIMED_OUT:
            return QuestionError(f"the time to answer question {asked.id} is over")
        case _:
            return QuestionError(f"question {asked.id} was withdrawn: the run doesn't need its answer any more")


def _describe_choices(asked: AskedQuestion) -> str:
    options = [f"{option.key} ({strip_accelerator(option.label)})" for option in asked.question.options]
    return "one of " + ", ".join(options) if options else "yes or no"


def _read(path: Path, decode: Callable[[Any], AskedQuestion]) -> AskedQuestion | None:
    """What a file holds; None if it isn't there."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {error.strerror}") from error
    try:
        return decode(json.loads(data))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged ({error!r}); {_ADVICE}") from error
