"""Human gates at the terminal that shows the progress."""

from attractor.cli.screen import Screen
from attractor.interviewers import Answer, ConsoleInterviewer, Question


class TerminalInterviewer:
    """Asks on stderr and reads stdin, with the moving line out of the way."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._console = ConsoleInterviewer()

    async def ask(self, question: Question) -> Answer:
        self._screen.busy("")
        return await self._console.ask(question)

    def inform(self, message: str, stage: str) -> None:
        """Show a message, as one that another process answered."""
        self._screen.line(f"  {message}")
