"""Making the runner of a Python graph's run: the one that pipelines have, with handlers of the graph's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attractor.backends.base import CodergenBackend
from attractor.children import Children
from attractor.engine.execution import Ties
from attractor.engine.limits import Limits
from attractor.events import Event
from attractor.graph import Graph
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.handlers.child_run import ChildPlan
from attractor.interviewers.base import Interviewer
from attractor.pipeline import PipelineRunner
from attractor.prebuilt.node_handler import PREFIX, NodeHandler, OnUpdate, Program, build_handlers
from attractor.result import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """What the pipelines within a graph run with, see PipelineRunner, and the limits of the graph's own runs."""

    backend: CodergenBackend | None = None
    interviewer: Interviewer | None = None
    handlers: HandlerRegistry | Mapping[str, Handler] | None = None
    working_dir: str | Path | None = None
    limits: Limits | None = None


@dataclass(slots=True)
class Launch:
    """One run of a graph in `run_dir`, to be begun if it `is_new`, else to be gone on with.

    `errors` has what its nodes raised.
    """

    graph: Graph
    runner: PipelineRunner
    handler: NodeHandler
    run_dir: Path
    is_new: bool

    @property
    def errors(self) -> Mapping[str, Exception]:
        return self.handler.errors

    async def execute(self) -> RunResult:
        """Begin the run, or go on with it."""
        if self.is_new:
            return await self.runner.run(self.graph)
        return await self.runner.resume(self.run_dir, graph=self.graph)


def prepare_launch(
    graph: Graph,
    program: Program,
    options: RunnerOptions,
    run_dir: Path,
    *,
    is_new: bool = False,
    values: Mapping[str, Any] | None = None,
    working_dir: Path | None = None,
    ties: Ties | None = None,
    on_event: Callable[[Event], object] | None = None,
    on_update: OnUpdate | None = None,
) -> Launch:
    """`values` are what the channels begin with."""
    own = working_dir or Path(options.working_dir or ".").absolute()
    children = Children(partial(_make_child, options, own), own, ties or Ties())
    handler = NodeHandler(program, children, on_update)
    runner = PipelineRunner(
        backend=options.backend,
        interviewer=options.interviewer,
        logs_root=run_dir,
        run_id=run_dir.name if is_new else "",
        handlers=build_handlers(handler),
        context={f"{PREFIX}{name}": value for name, value in (values or {}).items()},
        working_dir=own,
        limits=replace(options.limits or Limits(), max_node_visits=program.step_limit + 1),
        ties=ties,
    )
    runner.on_event = on_event
    return Launch(graph, runner, handler, run_dir, is_new)


def _make_child(options: RunnerOptions, working_dir: Path, plan: ChildPlan, ties: Ties) -> PipelineRunner:
    """What runs a pipeline within the graph, which has the handlers of pipelines."""
    return PipelineRunner(
        backend=options.backend,
        interviewer=options.interviewer,
        logs_root=plan.logs_root,
        handlers=options.handlers,
        context=plan.context,
        working_dir=plan.working_dir or working_dir,
        ties=ties,
    )
