"""The whole life of a run: parse, transform, validate, initialize, execute, finalize (section 3.1)."""

import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from agent_loop.environments import end_processes
from anyio.lowlevel import EventLoopToken, current_token

from attractor.backends.base import CodergenBackend
from attractor.children import Children
from attractor.diagnostics import Diagnostic, Severity
from attractor.dot import parse_dot
from attractor.engine.execution import Execution, Ties
from attractor.engine.limits import Limits
from attractor.errors import CheckpointError, RunDirectoryError, ValidationError
from attractor.event_log import EventLog, Observer
from attractor.events import Event, PipelineCompleted, PipelineFailed, PipelineStarted, PipelineWaiting
from attractor.graph import Graph
from attractor.handlers.base import Handler, HandlerRegistry
from attractor.handlers.child_run import ChildPlan
from attractor.handlers.defaults import build_registry
from attractor.handlers.work import Functions
from attractor.interviewers.base import Interviewer
from attractor.loose_ends import open_log
from attractor.result import RunResult, to_result
from attractor.state.artifacts import ARTIFACTS_NAME
from attractor.state.checkpoint import Checkpoint, hash_graph
from attractor.state.context import Context
from attractor.state.journal import CheckpointStore
from attractor.state.run_directory import (
    STAGE_DIR_VARIABLE,
    RunDirectory,
    default_runs_root,
    lies_within,
    new_run_id,
    read_manifest,
    read_source,
)
from attractor.state.step import Entry, RunStatus, Step
from attractor.state.suspensions import find_suspensions
from attractor.transforms import Transform, apply_transforms
from attractor.validation import LintRule, validate_or_raise

__all__ = ["PipelineRunner", "RunResult", "resume_pipeline", "run_pipeline"]


class PipelineRunner:
    """Runs pipelines. One run at a time per runner.

    * `backend` answers codergen stages; None simulates (section 4.5). `interviewer` reaches a person.
    * `logs_root` is the run directory, by default a new one in `default_runs_root()`; `run_id` names the next new run.
    * `handlers` are added to the built-in ones, or replace them. `transforms` run after the built-in ones.
    * `functions` are those that nodes may name by their attribute `function`; nothing else is ever called or imported.
    * `context` holds values to start with, as a copy. `options` is any JSON that manifest.json shall keep. `limits`
      replaces what the graph's attributes say. `ties` bind a run within another to it.
    * `working_dir` is where tool commands run, by default the current directory; with `dry_run` none does. When
      resuming, both are as the run recorded them unless they are given again.
    * `on_event` is called for every event, in a thread of its own; whatever it does, the run goes on.
    """

    def __init__(
        self,
        *,
        backend: CodergenBackend | None = None,
        interviewer: Interviewer | None = None,
        logs_root: str | Path | None = None,
        run_id: str = "",
        handlers: HandlerRegistry | Mapping[str, Handler] | None = None,
        functions: Functions | None = None,
        transforms: Sequence[Transform] = (),
        lint_rules: Iterable[LintRule] = (),
        context: Context | Mapping[str, Any] | None = None,
        working_dir: str | Path | None = None,
        dry_run: bool | None = None,
        options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        ties: Ties | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.on_event: Callable[[Event], object] | None = None
        self._backend = backend
        self._interviewer = interviewer
        self._logs_root = Path(logs_root) if logs_root is not None else None
        self._run_id = run_id
        self._handlers = handlers
        self._functions = dict(functions or {})
        self._transforms = list(transforms)
        self._lint_rules = tuple(lint_rules)
        self._values = (context if isinstance(context, Context) else Context(context)).snapshot()
        self._working_dir = working_dir
        self._dry_run = dry_run
        self._options = dict(options or {})
        self._limits = limits
        self._clock = clock
        self._ties = ties or Ties()
        self._log: EventLog | None = None
        self._begun = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._execution: Execution | None = None
        self._home: tuple[int, EventLoopToken] | None = None

    def register_transform(self, transform: Transform) -> None:
        """Run `transform` after the built-in ones and those registered before."""
        self._transforms.append(transform)

    async def run(self, graph: Graph | str) -> RunResult:
        """Run a pipeline from its graph or its DOT source.

        Raises DotSyntaxError, ValidationError, PipelineConfigurationError or RunDirectoryError before anything is
        executed. What goes wrong later is in the result. Cancelling leaves a checkpoint to resume from.
        """
        parsed = parse_dot(graph) if isinstance(graph, str) else graph
        working_dir = _absolute(self._working_dir)
        prepared = self._prepare(parsed, working_dir, bool(self._dry_run))
        run_id, graph_hash = self._run_id or new_run_id(parsed.name, self._clock()), hash_graph(parsed)
        path = _absolute(self._logs_root or default_runs_root() / run_id)
        manifest = {
            "run_id": run_id,
            **_describe(parsed, graph_hash),
            "started_at": self._clock(),
            "working_dir": str(working_dir),
            "dry_run": bool(self._dry_run),
            "context": self._values,
            "options": self._options,
        }
        with RunDirectory.create(path) as directory, _disk_errors(path):
            directory.write_manifest(manifest, parsed.source)
            return await self._execute(prepared, path, self._values, lambda run: run.begin(run_id, graph_hash))

    async def resume(self, logs_root: str | Path, *, graph: Graph | None = None, from_node: str = "") -> RunResult:
        """Go on with a run where it stopped, or from a node. No completed node is executed again.

        A finished run reports its result; of a failed one the failed stage is tried again. Needs no source file:
        `graph` is only for runs whose graph did not come from one. Raises CheckpointError, RunDirectoryError.
        """
        path = _absolute(logs_root)
        with RunDirectory.open(path), _disk_errors(path):
            await _end_left_behind(path)
            manifest = read_manifest(path)
            parsed = graph or _read_graph(path, str(manifest.get("file_name", "")))
            working_dir = _absolute(self._working_dir or manifest.get("working_dir"))
            dry_run = bool(manifest.get("dry_run")) if self._dry_run is None else self._dry_run
            prepared = self._prepare(_at_home(parsed, manifest), working_dir, dry_run)
            if from_node and from_node not in prepared.graph.nodes:
                raise CheckpointError(f"the pipeline has no node {from_node!r} to go on from")
            load = partial(_load, graph_hash=hash_graph(parsed), path=path)
            values = {**manifest.get("context", {}), **self._values}
            return await self._execute(prepared, path, values, load, from_node)

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events of the current run, or else of the next one, from the first to the last."""
        await self._begun.wait()
        assert self._log is not None
        async with aclosing(self._log.stream()) as events:
            async for event in events:
                yield event

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the current run: its checkpoint stays, and `run()` returns a failed, cancelled result.

        Any thread may call it, that of `on_event` too.
        """
        scope, execution, home = self._scope, self._execution, self._home
        if scope is None or execution is None or home is None:
            return
        execution.cancel_reason = reason
        if threading.get_ident() == home[0]:
            scope.cancel()
        else:
            # A run that has ended meanwhile needs no stopping.
            with suppress(anyio.RunFinishedError):
                anyio.from_thread.run_sync(scope.cancel, token=home[1])

    def _prepare(self, parsed: Graph, working_dir: Path, dry_run: bool) -> "_Prepared":
        """Transform and validate."""
        graph = apply_transforms(parsed, self._transforms)
        make = partial(_make_child, self, working_dir=working_dir, dry_run=dry_run)
        own = build_registry(
            self._backend,
            interviewer=self._interviewer,
            emit=self._emit,
            clock=self._clock,
            working_dir=working_dir,
            dry_run=dry_run,
            children=Children(make, working_dir, self._ties),
            functions=self._functions,
        )
        registry = own.merged_with(self._handlers)
        diagnostics = validate_or_raise(graph, self._lint_rules, handler_types=registry.types)
        _refuse_unhandled(registry, graph, diagnostics)
        return _Prepared(graph, registry, own, tuple(diagnostics))

    async def _execute(
        self,
        prepared: "_Prepared",
        path: Path,
        values: Mapping[str, Any],
        start: Callable[[Execution], None],
        from_node: str = "",
    ) -> RunResult:
        """Initialize, execute, finalize."""
        begun = time.monotonic()
        graph = prepared.graph
        observer = Observer(self.on_event) if self.on_event else None
        log = open_log(path, observer, self._clock)
        execution = Execution(
            path,
            graph,
            prepared.registry,
            log.emit,
            values,
            limits=self._limits or Limits.of_graph(graph),
            ties=self._ties,
            clock=self._clock,
            on_tick=log.flush,
        )
        try:
            start(execution)
            self._log = log
            self._begun.set()
            if execution.checkpoint.status is RunStatus.COMPLETED and not from_node:
                if not log.has_end:
                    # Killed between its last step and what tells of it.
                    execution.write_files()
                    _announce_end(log, execution.checkpoint, path, 0.0)
                return to_result(execution.checkpoint, path, 0.0, prepared.diagnostics)
            self._execution, self._scope = execution, anyio.CancelScope()
            self._home = threading.get_ident(), current_token()
            log.emit(PipelineStarted, name=graph.name, id=execution.checkpoint.run_id)
            try:
                with self._scope:
                    await execution.run(partial(_record_resumption, execution.checkpoint, from_node))
            finally:
                _announce_end(log, execution.checkpoint, path, time.monotonic() - begun)
            return to_result(execution.checkpoint, path, time.monotonic() - begun, prepared.diagnostics)
        finally:
            self._scope = None
            log.close()
            with anyio.CancelScope(shield=True):
                await prepared.own.close()
                if observer:
                    await anyio.to_thread.run_sync(observer.close)

    def _emit(self, kind: type[Event], **fields: Any) -> Event:
        assert self._log is not None
        return self._log.emit(kind, **fields)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A graph that may run, and what runs it. `own` are the handlers that were made for this run alone."""

    graph: Graph
    registry: HandlerRegistry
    own: HandlerRegistry
    diagnostics: tuple[Diagnostic, ...]


def _refuse_unhandled(registry: HandlerRegistry, graph: Graph, diagnostics: Sequence[Diagnostic]) -> None:
    """Raises ValidationError, with all diagnostics, if a node has no handler."""
    refused = [
        Diagnostic(
            rule="handler_registered",
            severity=Severity.ERROR,
            message=reason,
            node_id=node.id,
            file_name=graph.file_name,
            span=node.span,
        )
        for node, reason in registry.find_unhandled(graph.nodes.values(), graph)
    ]
    if refused:
        raise ValidationError([*diagnostics, *refused])


def _make_child(
    parent: PipelineRunner, plan: ChildPlan, ties: Ties, *, working_dir: Path, dry_run: bool
) -> PipelineRunner:
    """A runner like the parent, for a run within the parent's."""
    return PipelineRunner(
        backend=parent._backend,
        interviewer=parent._interviewer,
        logs_root=plan.logs_root,
        handlers=parent._handlers,
        functions=parent._functions,
        transforms=parent._transforms,
        lint_rules=parent._lint_rules,
        context=plan.context,
        working_dir=plan.working_dir or working_dir,
        dry_run=dry_run,
        ties=ties,
        clock=parent._clock,
    )


def _describe(graph: Graph, graph_hash: str) -> dict[str, Any]:
    """What the manifest says of a pipeline."""
    return {
        "name": graph.name,
        "label": graph.label,
        "goal": graph.goal,
        "file_name": graph.file_name,
        "folder": str(_absolute(graph.file_name).parent) if graph.file_name else "",
        "graph_hash": graph_hash,
    }


def _announce_end(log: EventLog, checkpoint: Checkpoint, path: Path, duration: float) -> None:
    if checkpoint.status is RunStatus.COMPLETED:
        folder = path / ARTIFACTS_NAME
        count = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
        log.emit(PipelineCompleted, duration=round(duration, 6), artifact_count=count)
    elif checkpoint.status is RunStatus.WAITING:
        waits = list(find_suspensions(checkpoint))
        questions = [found.question for found in waits if found.question]
        others = [found.id for found in waits if not found.question]
        log.emit(PipelineWaiting, questions=questions, suspensions=others, duration=round(duration, 6))
    else:
        error = checkpoint.reason or "the run was interrupted by an internal error"
        log.emit(PipelineFailed, error=error, duration=round(duration, 6))


def _absolute(path: str | Path | None) -> Path:
    return Path(path or ".").absolute()


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """What handlers raise becomes an Outcome; an OSError that gets here is the run directory's."""
    try:
        yield
    except OSError as error:
        raise RunDirectoryError(
            f"the run directory {path} can't be written: {error.strerror or error}; mend that, then resume the run"
        ) from error


async def _end_left_behind(path: Path) -> None:
    """Commands of the run that outlived a killed engine must not work beside the stage that is tried again.

    Nobody else runs it, for the directory is locked. Commands know their stage's directory, which lies within.
    """
    await end_processes(STAGE_DIR_VARIABLE, partial(lies_within, path))


def _read_graph(path: Path, file_name: str) -> Graph:
    source = read_source(path)
    if not source:
        raise CheckpointError(
            f"{path} holds no pipeline.dot, for its graph was made in Python; give that graph to resume()"
        )
    return parse_dot(source, file_name)


def _at_home(graph: Graph, manifest: Mapping[str, Any]) -> Graph:
    """The graph under the name of the file that it came from: beside that lie the pipelines that it names."""
    folder, name = str(manifest.get("folder", "")), str(manifest.get("file_name", ""))
    return replace(graph, file_name=str(Path(folder) / Path(name).name)) if folder and name else graph


def _load(execution: Execution, *, graph_hash: str, path: Path) -> None:
    execution.load()
    if execution.checkpoint.graph_hash != graph_hash:
        raise CheckpointError(
            f"{path} belongs to another pipeline, or pipeline.dot in it was changed since the run began; put the "
            "original back, or start a new run"
        )


def _record_resumption(before: Checkpoint, from_node: str, store: CheckpointStore) -> None:
    """Open a run again that had ended, or that shall go on elsewhere."""
    if before.status in (RunStatus.RUNNING, RunStatus.WAITING) and not from_node:
        return
    edge = None if from_node else before.edge
    step = Step(node_id="", next_node=from_node or before.next_node, edge=edge)
    store.append(Entry(step, time.time(), {}))


async def run_pipeline(
    graph: Graph | str, context: Context | Mapping[str, Any] | None = None, **options: Any
) -> RunResult:
    """`PipelineRunner(context=context, **options).run(graph)`."""
    return await PipelineRunner(context=context, **options).run(graph)


async def resume_pipeline(
    logs_root: str | Path, *, graph: Graph | None = None, from_node: str = "", **options: Any
) -> RunResult:
    """`PipelineRunner(**options).resume(logs_root, graph=graph, from_node=from_node)`."""
    return await PipelineRunner(**options).resume(logs_root, graph=graph, from_node=from_node)
