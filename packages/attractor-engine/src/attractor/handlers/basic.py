"""The handlers that do no work of their own: start, exit and conditional (sections 4.3, 4.4 and 4.7)."""

from dataclasses import replace
from pathlib import Path

from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context


class StartHandler:
    """Where a run begins."""

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        return Outcome.success()


class ExitHandler:
    """Where a run ends. The engine looks after the goal gates."""

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        return Outcome.success()


class ConditionalHandler:
    """A diamond passes on the outcome that it was reached with, so that its edges can ask about it.

    Were its own SUCCESS what they ask about, a diamond behind a failed test would always say yes.
    """

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        reached_with = context.run.last_outcome or Outcome.success()
        return replace(reached_with, context_updates={}, notes=f"Conditional node evaluated: {node.id}")
