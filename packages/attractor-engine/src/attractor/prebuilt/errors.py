"""What goes wrong with a graph written in Python, and how one says that it waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attractor.errors import AttractorError
from attractor.suspension import Suspend


class GraphError(AttractorError):
    """A graph can't be compiled: an edge leads nowhere, a node can't be reached, a name is taken."""


class ChannelError(AttractorError):
    """An update doesn't fit the state: it is no dict, or names an undeclared channel. Names node and channel."""


class RouteError(AttractorError):
    """A router failed, or gave a key that its conditional edges don't have. Names the node and the key."""


class LimitError(AttractorError):
    """A run came to one of its limits of cost, tokens or time. With higher ones it can be resumed."""


class StepLimitError(LimitError):
    """A run took more steps than its graph's `step_limit`."""


class ChildError(AttractorError):
    """The graph within a node failed. Another attempt goes on with it where it stopped."""

    retryable = True


class NodeError(AttractorError):
    """A node failed, and with it the run. `node` is its name; `__cause__` is what it raised, if this process saw it.

    `run_dir` is where the run can be resumed: the failed node is tried again. None if nothing of the run is kept.
    """

    def __init__(self, node: str, reason: str, *, run_id: str = "", run_dir: Path | None = None) -> None:
        super().__init__(f"node {node!r} failed: {reason}")
        self.node = node
        self.reason = reason
        self.run_id = run_id
        self.run_dir = run_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """What one node waits for. `run_dir` is the directory of the run that the node belongs to, which may lie within
    that of another; `attractor.give_value(run_dir, id, value)` hands it over from any process."""

    id: str
    node: str
    payload: Any
    run_dir: Path


class InterruptError(Suspend):
    """A node waits for a value from outside.

    `NodeContext.interrupt()` raises it within the node, which must let it through: it is no failure, and no retry. From
    `invoke()` and `resume()` it says that the run is suspended: `interrupts` holds all that is waited for, `payload` is
    that of the first, and the run goes on with `resume(value, run_id=error.run_id)`.
    """

    def __init__(
        self,
        payload: Any = None,
        *,
        run_id: str = "",
        run_dir: Path | None = None,
        interrupts: Sequence[Interrupt] = (),
    ) -> None:
        super().__init__(payload)
        self.run_id = run_id
        self.run_dir = run_dir
        self.interrupts = tuple(interrupts)
        if run_id:
            names = ", ".join(repr(found.node) for found in interrupts)
            what = f"a value at node {names}; go on with resume(value)" if names else "the answer to a question"
            self.args = (f"run {run_id} waits for {what}",)
