"""Asking at the terminal (section 6.4)."""

import os
import stat
import sys
from contextlib import suppress
from typing import TextIO

import anyio
import anyio.to_thread

from attractor.interviewers.base import Answer, AnswerValue, Question, QuestionType
from attractor.interviewers.matching import interpret_answer, strip_accelerator
from attractor.printable import printable


class ConsoleInterviewer:
    """Asks on `output` and reads lines from `input`; by default stderr and stdin, so that stdout is left to results.

    An empty line takes the question's default, if it has one. The end of input skips. Questions that are asked at once
    are put one after the other. Cancelling `ask` stops reading, and loses nothing of what was typed.
    """

    def __init__(self, input: TextIO | None = None, output: TextIO | None = None) -> None:
        # Either is None in a process that was started without it.
        self._input: TextIO | None = input if input is not None else sys.stdin
        self._output: TextIO | None = output if output is not None else sys.stderr
        self._buffer = b""
        self._turn = anyio.Lock()

    async def ask(self, question: Question) -> Answer:
        async with self._turn:
            self._write(f"[?] {question.text}\n")
            for option in question.options:
                self._write(f"  [{option.key}] {strip_accelerator(option.label)}\n")
            while True:
                self._write(_PROMPTS[question.type])
                try:
                    line = await self._read_line()
                except anyio.get_cancelled_exc_class():
                    # The prompt is withdrawn: what follows begins on its own line.
                    self._write("\n")
                    raise
                if line is None:
                    self._write("\n")
                    return Answer(value=AnswerValue.SKIPPED)
                if not line.strip() and question.default is not None:
                    return question.default
                if (answer := interpret_answer(line.strip(), question)) is not None:
                    return answer
                self._write(f"{line.strip()!r} is no answer here; it takes {_name_answers(question)}.\n")

    async def inform(self, message: str, stage: str) -> None:
        """Show a message."""
        self._write(f"[{stage}] {message}\n" if stage else f"{message}\n")

    def _write(self, text: str) -> None:
        # Where nobody reads (a closed stderr, a terminal that is gone), answers may still come.
        with suppress(OSError):
            if self._output is not None:
                self._output.write(printable(text))
                self._output.flush()

    async def _read_line(self) -> str | None:
        """The next line without its end; None at the end of input."""
        if self._input is None:
            return None
        try:
            descriptor = self._input.fileno()
        except (OSError, AttributeError):
            line = await anyio.to_thread.run_sync(self._input.readline, abandon_on_cancel=True)
            return line.rstrip("\n") if line else None
        while b"\n" not in self._buffer:
            # A file is always readable, as /dev/null is, and event loops refuse to watch either.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                with suppress(PermissionError):
                    await anyio.wait_readable(descriptor)
            data = os.read(descriptor, 4096)
            if not data:
                rest, self._buffer = self._buffer, b""
                return rest.decode("utf-8", "replace") if rest else None
            self._buffer += data
        line_bytes, _, self._buffer = self._buffer.partition(b"\n")
        return line_bytes.decode("utf-8", "replace").rstrip("\r")


_PROMPTS = {
    QuestionType.MULTIPLE_CHOICE: "Select: ",
    QuestionType.YES_NO: "[Y/N]: ",
    QuestionType.CONFIRMATION: "[Y/N]: ",
    QuestionType.FREEFORM: "> ",
}


def _name_answers(question: Question) -> str:
    if question.type is not QuestionType.MULTIPLE_CHOICE:
        return "Y or N"
    *others, last = [option.key for option in question.options]
    return f"{', '.join(others)} or {last}" if others else last
