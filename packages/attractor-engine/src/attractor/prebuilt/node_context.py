"""What a node written in Python is called with, besides the state."""

import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.from_thread

from attractor.calls import call
from attractor.errors import ContextValueError, PipelineConfigurationError
from attractor.events import Event
from attractor.graph import Graph, Node
from attractor.handlers.child_run import ChildPipelines
from attractor.prebuilt.errors import InterruptError
from attractor.state.context import Context, RunFacts
from attractor.state.json_values import to_json_value

S = TypeVar("S", bound=Mapping[str, Any])
S_contra = TypeVar("S_contra", bound=Mapping[str, Any], contravariant=True)
Update = Mapping[str, Any] | None
"""What a node reports: some channels with values for their reducers, or nothing."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What the engine gives to the handler of a node, for nodes that do with it what a handler does."""

    node: Node
    context: Context
    graph: Graph
    logs_root: Path


@dataclass(slots=True, kw_only=True)
class NodeContext:
    """`node` is the name of the node that is executed, `attempt` counts its attempts in this visit from 1.

    `run_dir` is the run's directory, and `directory` the node's own within it, for files; it may not exist yet.
    `channels` are the names of the state's channels. `run` has what the engine knows of the run, and takes what a node
    used of a model (`run.add_usage()`). The rest is for nodes that are runs themselves: `stage` is what a handler is
    given, and `children` reads and runs pipelines.
    """

    node: str
    attempt: int
    run_id: str
    run_dir: Path
    directory: Path
    channels: Collection[str]
    run: RunFacts
    stage: Stage
    children: ChildPipelines
    _home: int = field(default_factory=threading.get_ident)
    _asked: int = 0
    _open: list[InterruptError] = field(default_factory=list)

    def interrupt(self, payload: Any = None) -> Any:
        """Wait for a value from outside, which this returns. `payload`, any JSON, tells what it is for.

        The run is suspended, and holds no process. When it is resumed with a value the node is executed again from its
        beginning, and this call returns the value; so what stands before it is done twice. Several calls in a node
        get their values in the order of the calls, which must therefore be the same each time.
        """
        number = self._asked
        self._asked += 1
        if number < len(self.run.given):
            return deepcopy(self.run.given[number])
        try:
            error = InterruptError(to_json_value(payload, "payload"))
        except ContextValueError as wrong:
            said = str(wrong).removeprefix("context key ")
            raise ContextValueError(f"what the interrupt of node {self.node!r} asks must be JSON: {said}") from None
        self._open.append(error)
        raise error

    def emit(self, event: str | type[Event], **fields: Any) -> None:
        """Tell observers of the run something: a line of text, or an event of its own kind. Any thread may."""
        if isinstance(event, str):
            self._at_home(partial(self.run.tell, "progress", event))
        else:
            self._at_home(partial(self.run.emit, event, **fields))

    @property
    def open_interrupt(self) -> InterruptError | None:
        """The interrupt that the node raised, even if it went on in spite of it."""
        return self._open[0] if self._open else None

    def again(self) -> "NodeContext":
        """For another attempt within the same visit: its interrupts get the same values once more."""
        return replace(self, _asked=0)

    def _at_home(self, tell: Callable[[], object]) -> None:
        if threading.get_ident() == self._home:
            tell()
        else:
            # A node that was abandoned, by a time limit for example, has nobody to tell.
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(tell)


NodeFunction = (
    Callable[[S_contra, NodeContext], Update | Awaitable[Update]] | Callable[[S_contra], Update | Awaitable[Update]]
)
"""A node: an async or plain function of the state, and of the NodeContext if it takes two arguments."""


NodeCall = Callable[[Any, Any], Awaitable[Any]]
"""A node as it is called: with state and context, whether it wants the latter or not."""


def adapt_node(function: Callable[..., Any]) -> NodeCall:
    """How to call a node, found out once. A plain function runs in a worker thread."""
    wants_context = takes_context(function)
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        return function if wants_context else lambda state, context: function(state)
    if wants_context:
        return lambda state, context: call(function, state, context)
    return lambda state, context: call(function, state)


async def call_node(function: Callable[..., Any], state: Any, context: Any) -> Any:
    """What the node reports."""
    return await adapt_node(function)(state, context)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function wants a second argument: one without a default, or named `ctx`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    if not placed:
        raise PipelineConfigurationError(f"{name_of(function)!r} can't be a node: it takes no state")
    return len(placed) > 1 and (placed[1].default is inspect.Parameter.empty or placed[1].name == "ctx")


def name_of(function: Callable[..., Any]) -> str:
    """The function's own name; that of the class for other callables."""
    return str(getattr(function, "__name__", type(function).__name__))
