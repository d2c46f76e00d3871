"""What tests of pipelines, handlers and interviewers need."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attractor.graph import Graph, Node
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context

Reply = Outcome | Exception | str | Callable[[Node, Context], Outcome]
"""An outcome, a status word, an error to raise, or a function that gives the outcome."""


class ScriptedHandler:
    """Replies to each node from a script and notes in `calls` which nodes it was called for, in order.

    A list replies to a node's executions one after the other; one too many is an AssertionError, which fails the stage.
    A node that the script doesn't have succeeds.
    """

    def __init__(self, script: Mapping[str, Reply | Sequence[Reply]] | None = None) -> None:
        self._script = dict(script or {})
        self.calls: list[str] = []

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        self.calls.append(node.id)
        reply = self._script.get(node.id, "success")
        if isinstance(reply, Sequence) and not isinstance(reply, str):
            number = self.calls.count(node.id)
            assert number <= len(reply), f"the script has {len(reply)} replies for node {node.id!r}, not {number}"
            reply = reply[number - 1]
        match reply:
            case Outcome():
                return reply
            case Exception():
                raise reply
            case str():
                return Outcome(
                    status=StageStatus(reply), failure_reason="scripted" if reply in ("fail", "retry") else ""
                )
        assert callable(reply)
        return reply(node, context)
