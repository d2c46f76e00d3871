"""Graphs within graphs: a pipeline as a node of a Python graph, and a Python graph as a node of either.

Each is a run of its own within the directory of the node's stage, as sub-pipelines are: it has its own journal, is
resumed where it stopped, and what it uses of models counts for the run around it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from attractor.children import deepen
from attractor.dot import parse_dot
from attractor.engine.execution import Ties
from attractor.graph import Graph, Node
from attractor.handlers.child_run import DOTFILE, WORKDIR, ChildPlan, ChildResult, ChildRun, ChildRunner
from attractor.outcome import Outcome
from attractor.prebuilt.errors import ChildError
from attractor.prebuilt.node_context import NodeContext, Stage
from attractor.prebuilt.node_handler import PREFIX, Program
from attractor.prebuilt.run_record import extract_state
from attractor.state.context import Context
from attractor.suspension import Suspend

Mapper = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Makes values for one side of a border out of those of the other side."""


class Runnable(Protocol):
    """A compiled graph, as far as it is needed to run it within something else."""

    @property
    def graph(self) -> Graph: ...

    @property
    def program(self) -> Program: ...

    def open_child(self, plan: ChildPlan, ties: Ties) -> ChildRunner:
        """What runs it there."""
        ...


class PipelineNode:
    """A pipeline written in DOT as a node: `graph.add_node("review", PipelineNode("review.dot"))`.

    `pipeline` is a Graph, a file's path, which is looked for in the working directory, or DOT source. It begins with
    the state's channels as context values of the same names, or with what `input` makes of the state. When it succeeds,
    the context values that are named like channels are the node's update, or what `output` makes of all values. If it
    fails, so does the node. `working_dir` is where it works, by default where the graph does.
    """

    def __init__(
        self,
        pipeline: Graph | str | Path,
        *,
        input: Mapper | None = None,
        output: Mapper | None = None,
        working_dir: str | Path = "",
    ) -> None:
        is_source = isinstance(pipeline, str) and "{" in pipeline
        self._graph = parse_dot(str(pipeline)) if is_source else pipeline if isinstance(pipeline, Graph) else None
        self._attrs = {DOTFILE: "" if self._graph else str(pipeline), WORKDIR: str(working_dir)}
        self._input = input or dict
        self._output = output
        self.__name__ = self._graph.name if self._graph else Path(str(pipeline)).stem

    async def __call__(self, state: Mapping[str, Any], ctx: NodeContext) -> Mapping[str, Any]:
        stage, values = ctx.stage, dict(self._input(state))
        node = stage.node.with_attrs(self._attrs)
        child = ChildRun(
            ctx.children, node, stage.context, stage.graph, stage.logs_root, child=self._graph, values=values
        )
        result = _succeed(await child.run(), stage.node)
        if self._output is not None:
            return self._output(result.context)
        changed = {name: value for name, value in result.context.items() if name in ctx.channels}
        return {name: value for name, value in changed.items() if name not in state or state[name] != value}


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A compiled graph as a node of another one; `CompiledGraph.as_node()` makes it."""

    graph: Runnable
    input: Mapper | None
    output: Mapper | None
    __name__: str = "graph"

    async def __call__(self, state: Mapping[str, Any], ctx: NodeContext) -> Mapping[str, Any]:
        values = self.input(state) if self.input else _pick(state, self.graph.program)
        result = _succeed(await run_graph(self.graph, ctx.stage, values), ctx.stage.node)
        final = extract_state(result.context)
        if self.output is not None:
            return self.output(final)
        return {name: value for name, value in final.items() if name in ctx.channels and state.get(name) != value}


@dataclass(frozen=True, slots=True)
class GraphHandler:
    """A compiled graph as a handler of pipelines written in DOT; `CompiledGraph.as_handler()` makes it."""

    graph: Runnable
    input: Mapper | None
    output: Mapper | None
    label: Callable[[Mapping[str, Any]], str] | None
    is_external: bool = True

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        shared = context.snapshot()
        values = self.input(shared) if self.input else _pick(shared, self.graph.program)
        result = await run_graph(self.graph, Stage(node, context, graph, logs_root), values)
        if result.waiting:
            raise Suspend(nested=True)
        final = extract_state(result.context)
        if not result.status.is_success:
            return Outcome.fail(f"the graph {self.graph.graph.name} of {node.id!r} failed: {result.failure_reason}")
        updates = self.output(final) if self.output else {f"{node.id}.{name}": value for name, value in final.items()}
        label = self.label(final) if self.label else ""
        count = len(result.completed_nodes)
        return Outcome.success(
            f"Graph completed: {self.graph.graph.name}, {count} nodes", preferred_label=label, context_updates=updates
        )


async def run_graph(graph: Runnable, stage: Stage, values: Mapping[str, Any]) -> ChildResult:
    """How the run of a compiled graph within a stage ended, or that it waits."""
    checked = graph.program.schema.check(values, f"the input of node {stage.node.id!r}")
    child = ChildRun(
        _Opener(graph, stage.context),
        stage.node,
        stage.context,
        stage.graph,
        stage.logs_root,
        child=graph.graph,
        values={f"{PREFIX}{name}": value for name, value in checked.items()},
    )
    return await child.run()


def bind_to(context: Context, plan: ChildPlan) -> Ties:
    """What binds a run within a stage to the run around it; raises PipelineConfigurationError if it lies too deep."""
    return Ties(
        depth=deepen(context.run.depth),
        refuse_usage=plan.refuse_usage,
        working_dir=plan.working_dir or context.run.working_dir,
        questions_root=plan.questions_root,
    )


class _Opener:
    """Lets a ChildRun run a compiled graph."""

    def __init__(self, graph: Runnable, context: Context) -> None:
        self._graph = graph
        self._context = context

    def read(self, path: Path) -> Graph:
        return self._graph.graph

    def restore(self, run_dir: Path) -> Graph:
        return self._graph.graph

    def find(self, path: str, graph: Graph) -> Path:
        return Path(path)

    def resolve(self, path: str) -> Path:
        return Path(path)

    def working_dir(self, path: str) -> Path | None:
        return Path(path).absolute() if path else None

    def open(self, plan: ChildPlan) -> ChildRunner:
        return self._graph.open_child(plan, bind_to(self._context, plan))


def _pick(values: Mapping[str, Any], program: Program) -> dict[str, Any]:
    return {name: values[name] for name in program.schema.channels if name in values}


def _succeed(result: ChildResult, node: Node) -> ChildResult:
    if result.waiting:
        raise Suspend(nested=True)
    if not result.status.is_success:
        raise ChildError(f"the graph within node {node.id!r} failed: {result.failure_reason}")
    return result
