"""The runs of a server: started, found again after a restart, resumed, cancelled.

What is true about a run lies in its directory. Only of a run that this server executes there is an object, and when the
run ends, nothing of it stays in memory.
"""

import logging
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from attractor.dot import parse_dot
from attractor.errors import AttractorError, RunDirectoryError
from attractor.event_log import END_TYPES, EVENTS_NAME
from attractor.graph import Graph
from attractor.interviewers import Answer, AnswerValue, AutoApproveInterviewer, Question, QuestionStore
from attractor.pipeline import PipelineRunner, RunResult
from attractor.server.cancellation import record_cancellation
from attractor.server.event_tail import find_end
from attractor.server.launch import Launcher, Wishes
from attractor.server.problem import ProblemError
from attractor.state.run_directory import is_in_use, new_run_id, read_manifest, read_source
from attractor.state.suspensions import list_suspensions

STOPPED = "the server was stopped"
"""The reason of a run that ended with its server."""
CANCEL_SECONDS = 3.0
MAX_RUNS = 500
"""That are executed at once, those that wait at a gate included."""
_CANCELLED = "cancelled over HTTP"
_GRACE_SECONDS = 1.0
_ID = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9_.~-]{0,199}")
_logger = logging.getLogger("attractor.server")


class Runs:
    """The runs in the directory `root`. Enter `opened()` before starting any.

    Runs are executed in a thread with an event loop of its own, so that neither they nor requests wait for each other.
    """

    def __init__(self, root: Path, launcher: Launcher, max_runs: int = MAX_RUNS) -> None:
        self.root = root
        self._launcher = launcher
        self._max_runs = max_runs
        self._live: dict[str, _LiveRun] = {}
        self._portal: BlockingPortal | None = None
        self._stopping = anyio.Event()
        self._threads = anyio.CapacityLimiter(40)
        self.started = 0
        """How many runs this server has started or resumed."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Until it is left, runs can go on; then they are stopped, to be resumed some other time."""
        self.root.mkdir(parents=True, exist_ok=True)
        with start_blocking_portal("asyncio", name="attractor-engine") as portal:
            self._portal = portal
            try:
                yield
            finally:
                self._portal = None
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(portal.call, self._stop)

    def find(self, run_id: str) -> Path:
        """The directory of a run; raises ProblemError 404."""
        path = self.root / run_id
        if not _ID.fullmatch(run_id) or path.is_symlink() or not (path / "manifest.json").is_file():
            raise ProblemError(404, f"there is no pipeline {run_id!r}")
        return path

    def list_ids(self) -> list[str]:
        """Those of all runs, in no order."""
        folders = (manifest.parent for manifest in self.root.glob("*/manifest.json"))
        return [folder.name for folder in folders if _ID.fullmatch(folder.name) and not folder.is_symlink()]

    def count_live(self) -> int:
        """How many runs this server executes."""
        return len(self._live)

    def is_live(self, run_id: str) -> bool:
        """Whether this server executes it."""
        return run_id in self._live

    async def start(self, source: str, wishes: Wishes) -> str:
        """Start a pipeline; its id. Raises AttractorError if it can't even begin, ProblemError 503 if too many do."""
        graph = await anyio.to_thread.run_sync(parse_dot, source)
        self.refuse_too_many()
        run_id = _make_id(graph.name)
        options = self._launcher.make_options(wishes)
        await self._begin(_LiveRun(run_id, self.root / run_id, options, wishes.context), graph, PipelineRunner.run)
        return run_id

    async def resume(self, run_id: str, from_node: str = "") -> None:
        """Go on with a run that nobody executes. Raises ProblemError 409 if somebody does, AttractorError."""
        path = self.find(run_id)
        await self._let_go(run_id, path)
        self.refuse_executed(run_id)
        manifest = read_manifest(path)
        graph = await anyio.to_thread.run_sync(parse_dot, read_source(path), str(manifest.get("file_name", "")))
        if run_id in self._live:
            raise ProblemError(409, f"pipeline {run_id} is being executed already")
        live = _LiveRun(run_id, path, manifest.get("options", {}), {})
        await self._begin(live, graph, partial(_go_on, path, from_node))

    async def _let_go(self, run_id: str, path: Path) -> None:
        """Who saw the last event of a run may ask for more before the run has put everything away."""
        live = self._live.get(run_id)
        if live is not None and find_end(path / EVENTS_NAME).name in END_TYPES:
            await anyio.to_thread.run_sync(live.ended.wait, CANCEL_SECONDS, limiter=self._threads)

    def refuse_executed(self, run_id: str) -> None:
        """Raises ProblemError 409 if the run is being executed, here or by another process."""
        if run_id in self._live or is_in_use(self.root / run_id):
            raise ProblemError(409, f"pipeline {run_id} is being executed already")

    def refuse_too_many(self) -> None:
        """Raises ProblemError 503 if no further run may be started. Answers make theirs go on all the same."""
        if len(self._live) >= self._max_runs:
            raise ProblemError(
                503,
                f"the server executes {len(self._live)} pipelines already; try again when one has ended",
                headers={"retry-after": "5"},
            )

    async def cancel(self, run_id: str) -> None:
        """Stop a run, its commands included; back when it has ended, or after 3 s.

        Raises ProblemError 409 if another process executes it.
        """
        live, portal = self._live.get(run_id), self._portal
        if live is None or portal is None:
            self.refuse_executed(run_id)
            await record_cancellation(self.find(run_id), _CANCELLED)
            return

        def stop() -> None:
            live.begun.wait(CANCEL_SECONDS)
            if live.runner is not None:
                portal.start_task_soon(live.runner.cancel, _CANCELLED)
            live.ended.wait(CANCEL_SECONDS)

        await anyio.to_thread.run_sync(stop, limiter=self._threads)

    async def _begin(self, live: "_LiveRun", graph: Graph, work: "_Work") -> None:
        """Back when the run has begun; raises what keeps it from that."""
        if self._portal is None:
            raise ProblemError(503, "the server is being stopped")
        portal, self._live[live.id] = self._portal, live

        def begin() -> None:
            portal.start_task_soon(self._execute, live, graph, work)
            live.begun.wait()

        await anyio.to_thread.run_sync(begin, limiter=self._threads)
        if isinstance(live.error, RunDirectoryError):
            self.refuse_executed(live.id)
        if live.error is not None:
            raise live.error
        self.started += 1

    async def _execute(self, live: "_LiveRun", graph: Graph, work: "_Work") -> None:
        """Execute a run, and again as long as it gets what it waits for before it has come to wait."""
        try:
            while _was_given_more(await self._execute_once(live, graph, work)) and not self._stopping.is_set():
                work = partial(_go_on, live.path, "")
        except Exception as error:
            if live.begun.is_set():
                _logger.error("pipeline %s ended with an error: %s", live.id, error, exc_info=_unless_ours(error))
            live.error = error
        finally:
            self._live.pop(live.id, None)
            live.begun.set()
            live.ended.set()

    async def _execute_once(self, live: "_LiveRun", graph: Graph, work: "_Work") -> RunResult:
        async with self._launcher.open(graph, live.options) as launch:
            live.runner = PipelineRunner(
                backend=launch.backend,
                handlers=launch.handlers,
                interviewer=AutoApproveInterviewer() if launch.auto_approve else _Patience(self._stopping),
                logs_root=live.path,
                run_id=live.id,
                context={**launch.context, **live.context},
                working_dir=launch.working_dir,
                dry_run=launch.dry_run,
                options=live.options,
            )
            return await _run_and_tell(live, partial(work, live.runner, launch.graph))

    async def _stop(self) -> None:
        """Let runs that wait for people be suspended, and cancel the others."""
        self._stopping.set()
        await self._wait_for_all(_GRACE_SECONDS)
        for live in list(self._live.values()):
            if live.runner is not None:
                live.runner.cancel(STOPPED)
        await self._wait_for_all(CANCEL_SECONDS)

    async def _wait_for_all(self, seconds: float) -> None:
        until = anyio.current_time() + seconds
        while self._live and anyio.current_time() < until:  # noqa: ASYNC110
            await anyio.sleep(0.02)


_Work = Callable[[PipelineRunner, Graph], Awaitable[RunResult]]


class _LiveRun:
    """A run that this server executes."""

    def __init__(self, run_id: str, path: Path, options: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self.id = run_id
        self.path = path
        self.options = options
        self.context = context
        self.runner: PipelineRunner | None = None
        self.error: Exception | None = None
        self.begun = threading.Event()
        self.ended = threading.Event()


class _Patience:
    """Lets a gate wait for the answer that somebody gives through the run's questions; defers when the server stops."""

    def __init__(self, stopping: anyio.Event) -> None:
        self._stopping = stopping

    async def ask(self, question: Question) -> Answer:
        await self._stopping.wait()
        return Answer(value=AnswerValue.DEFERRED)


async def _go_on(path: Path, from_node: str, runner: PipelineRunner, graph: Graph) -> RunResult:
    return await runner.resume(path, graph=graph, from_node=from_node)


def _was_given_more(result: RunResult) -> bool:
    """Whether a run that waits was answered, or given a value, while it came to wait: nobody else would resume it."""
    if not result.waiting:
        return False
    missing = {found.id for found in list_suspensions(result.logs_root)}
    store = QuestionStore(result.logs_root)
    return any(
        store.has_ended(found.question) if found.question else found.id not in missing for found in result.suspensions
    )


async def _run_and_tell(live: _LiveRun, work: Callable[[], Awaitable[RunResult]]) -> RunResult:
    """Execute a run, and tell when its first event is there."""
    outcome: list[RunResult | Exception] = []

    async def tell() -> None:
        assert live.runner is not None
        async for _ in live.runner.events():
            live.begun.set()
            return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        try:
            outcome.append(await work())
        except Exception as error:
            # Kept from the task group, which would wrap it.
            outcome.append(error)
        tasks.cancel_scope.cancel()
    result = outcome[0]
    if isinstance(result, Exception):
        raise result
    return result


def _make_id(name: str) -> str:
    """An id that sorts by time and can't be guessed."""
    return f"{new_run_id(name, time.time())}{secrets.token_hex(16)}"


def _unless_ours(error: Exception) -> Exception | None:
    """What deserves a traceback."""
    return None if isinstance(error, AttractorError) else error
