"""Human gates at the terminal that shows the progress."""

import anyio

from attractor.cli.progress import Progress
from attractor.cli.screen import Screen
from attractor.interviewers import Answer, AnswerValue, ConsoleInterviewer, Question

_PATIENCE_SECONDS = 1.0


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
        if answer.value is AnswerValue.SKIPPED:
            self._screen.notice(
                "Nobody answers at stdin, which has ended: --detach leaves questions for later, --auto-approve takes "
                "first choices."
            )
        return answer

    def inform(self, message: str, stage: str) -> None:
        """Show a message, as one that another process answered."""
        self._screen.line(f"  {message}")
