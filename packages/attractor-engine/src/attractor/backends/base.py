"""The contract of what a codergen stage runs on (section 4.5)."""

from typing import Protocol

from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.state.context import Context


class CodergenBackend(Protocol):
    """Answers a stage's prompt.

    Returns the answer's text, which is a success, or an Outcome, whose `notes` are then taken for the text, unless
    the backend wrote response.md into `context.run.stage_dir` itself. Raises what
    goes wrong: an exception whose `retryable` attribute is False fails the stage for good, any other uses its retries.
    What its calls used is reported with `context.run.add_usage()`, also before it raises.
    May be used for several stages at once; whoever makes a backend closes it.
    """

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome: ...
