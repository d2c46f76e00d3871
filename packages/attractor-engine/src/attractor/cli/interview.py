"""Human gates at the terminal that shows the progress."""

import anyio

from attractor.cli.progress import Progress
from attractor.cli.screen import Screen
from attractor.interviewers import Answer, AnswerValue, ConsoleInterviewer, Question

_PATIENCE_SECONDS = 1.0
_NOBODY = "Nobody answers at stdin, which has ended."
_HINT = "(--detach leaves questions for later at once, --auto-approve takes first choices.)"


class TerminalInterviewer:
    """Asks on stderr and reads stdin, with everything that moves out of the way."""

    def __init__(self, screen: Screen, progress: Progress) -> None:
        self._screen = screen
        self._progress = progress
        self._console = ConsoleInterviewer()

    async def ask(self, question: Question) -> Answer:
        # Progress is told in a thread of its own. What happened before the question shall stand above it.
        with anyio.move_on_after(_PATIENCE_SECONDS):
            while not self._progress.has_begun(question.stage):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        self._screen.hold()
        try:
            answer = await self._console.ask(question)
        finally:
            self._screen.release()
        return await self._do_without(question) if answer.value is AnswerValue.SKIPPED else answer

    async def _do_without(self, question: Question) -> Answer:
        """Nobody can answer at stdin, but another terminal may, while there is time. Else the default counts (section
        6.2), and where there is none, the run waits rather than fail for the want of a person.
        """
        if question.timeout_seconds is not None:
            self._screen.notice(f"{_NOBODY} `attractor answer` can still answer until the gate's time is over. {_HINT}")
            await anyio.sleep_forever()
        if question.default is not None:
            self._screen.notice(f"{_NOBODY} The gate's default is taken. {_HINT}")
            return question.default
        self._screen.notice(f"{_NOBODY} The question is left for later. {_HINT}")
        return Answer(value=AnswerValue.DEFERRED)

    def inform(self, message: str, stage: str) -> None:
        """Show a message, as one that another process answered."""
        self._screen.line(f"  {message}")
