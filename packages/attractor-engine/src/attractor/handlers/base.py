"""What runs a node, and which one does (sections 4.1 and 4.2)."""

from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from attractor.errors import PipelineConfigurationError
from attractor.graph import BUILT_IN_TYPES, SHAPE_TO_TYPE, Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context

_HINTS = {
    "wait.human": " (a human gate needs a runner with an interviewer)",
    "tool_loop": " (a tool loop needs a runner with a ToolLoopHandler of attractor.prebuilt, which has its tools)",
}


class Handler(Protocol):
    """Executes nodes of one type.

    `execute` may be a plain function: it then runs in a worker thread, so that it can't stop the rest, but which a
    time limit can only abandon, not end. Whatever it raises becomes a FAIL. One handler serves many nodes at once.

    Some attributes are optional. `owns_timeout = True`: the handler itself keeps to the node's `timeout`.
    `is_external = True`: it works outside of this process (a model, a command, a person), so checkpoint.json is
    brought up to date before it starts, however little time has passed. `async close()`, of a handler that the runner
    made itself, is called when the run ends.
    """

    def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Awaitable[Outcome] | Outcome:
        """Do the node's work. `logs_root` is the run directory, and `stage_path()` gives the node's own within it."""
        ...


class HandlerRegistry:
    """Handlers by type. `default_handler` serves nodes whose type and shape stand for nothing known."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None, default_handler: Handler | None = None) -> None:
        self._handlers: dict[str, Handler] = dict(handlers or {})
        self.default_handler = default_handler

    @property
    def types(self) -> frozenset[str]:
        """The types that have a handler."""
        return frozenset(self._handlers)

    def register(self, type_string: str, handler: Handler) -> None:
        """Let `handler` run nodes of this type, in the place of the one before, if any."""
        self._handlers[type_string] = handler

    def merged_with(self, other: "HandlerRegistry | Mapping[str, Handler] | None") -> "HandlerRegistry":
        """A copy in which `other`'s handlers take precedence."""
        if isinstance(other, HandlerRegistry):
            return HandlerRegistry({**self._handlers, **other._handlers}, other.default_handler or self.default_handler)
        return HandlerRegistry({**self._handlers, **(other or {})}, self.default_handler)

    def resolve(self, node: Node, graph: Graph | None = None) -> Handler:
        """The node's handler: by explicit type, else by what the node is in `graph` or by shape, else the default.

        Raises PipelineConfigurationError where a type of the specification has no handler here: such a node must not
        be taken for a question to a model.
        """
        if node.type in self._handlers:
            return self._handlers[node.type]
        plain = Node(node.id, {key: value for key, value in node.attrs.items() if key != "type"}) if node.type else node
        by_shape = graph.handler_type(plain) if graph else SHAPE_TO_TYPE.get(node.shape, "codergen")
        wanted = node.type if node.type in BUILT_IN_TYPES else by_shape
        handler = self._handlers.get(wanted) or (self.default_handler if wanted == "codergen" else None)
        if handler is None:
            raise PipelineConfigurationError(
                f"node {node.id!r}: no handler registered for type {wanted!r}; registered are: "
                f"{', '.join(sorted(self.types))}{_HINTS.get(wanted, '')}"
            )
        return handler

    async def close(self) -> None:
        """Call `close()` of the handlers that have it."""
        for handler in self._handlers.values():
            if (close := getattr(handler, "close", None)) is not None:
                await close()

    def find_unhandled(self, nodes: Iterable[Node], graph: Graph) -> list[tuple[Node, str]]:
        """Nodes that `resolve()` would refuse, each with the reason."""
        refused = []
        for node in nodes:
            try:
                self.resolve(node, graph)
            except PipelineConfigurationError as error:
                refused.append((node, str(error)))
        return refused
