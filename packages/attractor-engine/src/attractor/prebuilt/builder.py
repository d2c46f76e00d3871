"""Writing a graph in Python: nodes are functions, edges are names."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, overload

from attractor.backends.base import CodergenBackend
from attractor.engine.limits import Limits
from attractor.engine.retry import PRESETS
from attractor.graph import Duration, Value
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.interviewers.base import Interviewer
from attractor.prebuilt.assembly import END, START, Branching, assemble
from attractor.prebuilt.channels import Schema
from attractor.prebuilt.compiled import CompiledGraph
from attractor.prebuilt.errors import GraphError
from attractor.prebuilt.launch import RunnerOptions
from attractor.prebuilt.node_context import NodeCall, NodeFunction, S, adapt_node, name_of
from attractor.prebuilt.node_handler import Program, Router
from attractor.prebuilt.run_store import RunStore

STEP_LIMIT = 1_000


class Graph(Generic[S]):
    """A graph under construction. `state` is the class of its state, a TypedDict derived from State.

        graph = Graph(MyState)
        graph.add_node(draft)
        graph.add_node("review", review, max_retries=2)
        graph.add_edge(START, "draft")
        graph.add_edge("draft", "review")
        graph.add_conditional_edges("review", decide, {"again": "draft", "done": END})
        compiled = graph.compile()

    Several edges out of a node are branches that run at once, and meet at the nearest node that all of them lead to. A
    node without an edge leads to END.
    """

    def __init__(self, state: type[S], *, name: str = "graph") -> None:
        self.name = name
        self._schema = Schema.of_state(state)
        self._nodes: dict[str, _Node] = {}
        self._edges: dict[str, list[str]] = {}
        self._branchings: dict[str, Branching] = {}

    @property
    def channels(self) -> frozenset[str]:
        """The names of the state's channels."""
        return frozenset(self._schema.channels)

    @overload
    def add_node(
        self,
        name: str,
        function: NodeFunction[S],
        *,
        max_retries: int = 0,
        timeout: float | None = None,
        retry_policy: str = "",
        max_parallel: int | None = None,
    ) -> Self: ...
    @overload
    def add_node(
        self,
        name: NodeFunction[S],
        *,
        max_retries: int = 0,
        timeout: float | None = None,
        retry_policy: str = "",
        max_parallel: int | None = None,
    ) -> Self: ...
    def add_node(
        self,
        name: str | NodeFunction[S],
        function: NodeFunction[S] | None = None,
        *,
        max_retries: int = 0,
        timeout: float | None = None,
        retry_policy: str = "",
        max_parallel: int | None = None,
    ) -> Self:
        """Add a function as a node, under its own name or the one given.

        The engine tries it up to `max_retries` times again, with the delays of `retry_policy` (a preset's name), and
        gives each attempt `timeout` seconds. Of the branches behind it, `max_parallel` run at once; by default all.
        """
        if not isinstance(name, str):
            function, name = name, name_of(name)
        if function is None or not callable(function):
            raise GraphError(f"node {name!r} has no function; call add_node(name, function)")
        if not name or name == "<lambda>":
            raise GraphError("a node needs a name: call add_node(name, function)")
        if name in self._nodes or name in (START, END):
            raise GraphError(f"there is a node {name!r} already; give this one another name")
        if max_retries < 0:
            raise ValueError(f"max_retries must not be negative, as {max_retries} is")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"the time limit must be positive, as {timeout} is not")
        if retry_policy and retry_policy not in PRESETS:
            raise ValueError(f"there is no retry_policy {retry_policy!r}; there are: {', '.join(PRESETS)}")
        attrs: dict[str, Value] = {"type": "python"}
        if max_retries:
            attrs["max_retries"] = max_retries
        if timeout is not None:
            attrs["timeout"] = Duration(f"{round(timeout * 1000)}ms")
        if retry_policy:
            attrs["retry_policy"] = retry_policy
        self._nodes[name] = _Node(adapt_node(function), attrs, max_parallel)
        return self

    def add_edge(self, source: str, target: str) -> Self:
        """Lead from a node, or START, to another, or END. A second edge out of a node begins a parallel branch."""
        if source in self._branchings:
            raise GraphError(f"node {source!r} has conditional edges; it can't have the edge to {target!r} besides")
        targets = self._edges.setdefault(source, [])
        if target in targets:
            raise GraphError(f"there is an edge from {source!r} to {target!r} already")
        targets.append(target)
        return self

    def add_conditional_edges(
        self,
        source: str,
        router: Callable[[S], Hashable | Awaitable[Hashable]],
        targets: Mapping[Any, str],
    ) -> Self:
        """Lead from a node to the target whose key `router` gives for the state behind the node."""
        if source in self._edges or source in self._branchings:
            raise GraphError(f"node {source!r} has edges already; it can't have conditional ones besides")
        self._branchings[source] = Branching(router, dict(targets))
        return self

    def compile(
        self,
        *,
        checkpointer: RunStore | str | Path | None = None,
        step_limit: int = STEP_LIMIT,
        limits: Limits | None = None,
        backend: CodergenBackend | None = None,
        interviewer: Interviewer | None = None,
        handlers: HandlerRegistry | Mapping[str, Handler] | None = None,
        working_dir: str | Path | None = None,
    ) -> CompiledGraph[S]:
        """The graph, ready to run; raises GraphError if it can't be.

        `checkpointer` is the folder (or a RunStore) that keeps a directory for each run; without one, nothing is kept
        of a run that has ended. `step_limit` bounds the executions of nodes in a run, whatever `max_node_visits` of
        `limits` says; these bound what it costs and how long it takes, graphs and pipelines within it included. The
        rest is for pipelines within the graph, see PipelineRunner.
        """
        if step_limit < 1:
            raise ValueError("step_limit must be at least 1")
        pipeline = assemble(
            self.name,
            {name: node.attrs for name, node in self._nodes.items()},
            self._edges,
            self._branchings,
            {name: node.max_parallel for name, node in self._nodes.items() if node.max_parallel},
        )
        program = Program(
            schema=self._schema,
            functions={name: node.call for name, node in self._nodes.items()},
            routers={node: Router(each.router, each.labels) for node, each in pipeline.branchings.items()},
            step_limit=step_limit,
        )
        store = RunStore(checkpointer) if isinstance(checkpointer, str | Path) else checkpointer
        options = RunnerOptions(
            backend=backend, interviewer=interviewer, handlers=handlers, working_dir=working_dir, limits=limits
        )
        return CompiledGraph(pipeline.graph, program, store, options)


@dataclass(frozen=True, slots=True)
class _Node:
    call: NodeCall
    attrs: dict[str, Value] = field(default_factory=dict)
    max_parallel: int | None = None
