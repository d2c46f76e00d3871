"""The manager loop: a stage that supervises a child pipeline (section 4.11)."""

import time
from collections.abc import Callable
from pathlib import Path

import anyio

from attractor.conditions import Condition, parse_condition
from attractor.errors import ConditionSyntaxError, PipelineConfigurationError
from attractor.events import ChildProgressed, ChildSteered, Emit
from attractor.graph import Graph, Node, to_bool, to_count, to_seconds
from attractor.handlers.child_run import ChildPipelines, ChildResult, ChildRun, get_setting, tell_of_child
from attractor.handlers.child_telemetry import PREFIX, ChildWatch, Telemetry
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.state.run_directory import restart_path, stage_path
from attractor.state.steering import write_steering

RUN_DIR = "stack.child_run_dir"
ACTIONS = ("observe", "steer", "wait")
POLL_SECONDS = 45.0
MAX_CYCLES = 1_000
STEER_COOLDOWN_SECONDS = 300.0
_BRIEF_SECONDS = 0.05


class ManagerLoopHandler:
    """Runs the pipeline in `stack.child_dotfile`, and looks after it in cycles, `manager.poll_interval` apart.

    With `stack.child_autostart=false` it watches the run that another process has in `stack.child_run_dir`.
    Each cycle does what `manager.actions` lists. `observe` brings the child's state into the context, as
    `stack.child.status`, `.active_stage` and so on. `steer` writes the node's prompt to the child's active stage, where
    `manager.steer_condition` holds, at most once in `manager.steer_cooldown`. `wait` pauses until the next cycle.

    The stage ends with the child: as the child does. It succeeds before that when `manager.stop_condition` holds, and
    fails after `manager.max_cycles`; either ends a child that it runs itself.
    """

    is_external = True

    def __init__(self, pipelines: ChildPipelines, emit: Emit, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipelines = pipelines
        self._emit = emit
        self._clock = clock

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if to_bool(node.attrs.get("stack.child_autostart")) is False:
            run_dir = self._external_dir(node, graph)
            return await _Supervision(self, node, context, graph, run_dir).until_end()
        child = ChildRun(self._pipelines, node, context, graph, logs_root)
        if not child.run_dir.exists():
            child.read()
        with tell_of_child(self._emit, node.id, child.run_dir, self._clock) as tell_end:
            outcome = await self._run(child, _Supervision(self, node, context, graph, child.run_dir))
            tell_end(outcome)
        return outcome

    async def _run(self, child: ChildRun, supervision: "_Supervision") -> Outcome:
        """Run the child and supervise it, each until the other ends."""
        results: list[ChildResult] = []
        failures: list[Exception] = []
        verdict: Outcome | None = None
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                try:
                    results.append(await child.run())
                except Exception as error:
                    # Kept from the task group, which would wrap it.
                    failures.append(error)
                supervision.wake()

            tasks.start_soon(run)
            try:
                verdict = await supervision.until_end(lambda: bool(results or failures))
            except Exception as error:
                failures.append(error)
            tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]
        outcome = child.judge(results[0]) if results else verdict
        assert outcome is not None, "a task group that ends without a result was cancelled, and raises"
        supervision.observe()
        return outcome

    def _external_dir(self, node: Node, graph: Graph) -> Path:
        path = get_setting(RUN_DIR, node, graph)
        if not path:
            raise PipelineConfigurationError(
                f"manager loop {node.id!r} starts no child (stack.child_autostart=false), so it needs {RUN_DIR}, the "
                "run directory to watch"
            )
        return self._pipelines.resolve(path)


class _Supervision:
    """The cycles of one visit."""

    def __init__(self, handler: ManagerLoopHandler, node: Node, context: Context, graph: Graph, run_dir: Path) -> None:
        self._emit, self._clock = handler._emit, handler._clock
        self._node = node
        self._context = context
        self._run_dir = run_dir
        self._watch = ChildWatch(run_dir)
        self._seen = Telemetry()
        self._woken = anyio.Event()
        self._steered_at: float | None = None
        self._text = (node.prompt or node.label).replace("$goal", graph.goal)
        self._actions = {word.strip() for word in (node.text("manager.actions") or "observe,wait").split(",")}
        self._stop = _read_condition(node, "manager.stop_condition")
        self._steer_when = _read_condition(node, "manager.steer_condition")

    async def until_end(self, has_ended: Callable[[], bool] | None = None) -> Outcome:
        """Cycle until the child has ended, the stop condition holds or there were too many cycles.

        `has_ended` tells of a child that this process runs; without it, its directory does.
        """
        most = to_count(self._node.attrs.get("manager.max_cycles")) or MAX_CYCLES
        for cycle in range(1, most + 1):
            self._context.set(f"{PREFIX}cycle", cycle)
            seen = self._watch.look()
            self._note(seen, cycle)
            if has_ended() if has_ended else seen.has_ended:
                return self._judge(seen)
            if "steer" in self._actions:
                self._steer(seen)
            if self._stop is not None and self._holds(self._stop):
                return Outcome.success("Stop condition satisfied", context_updates={"last_stage": self._node.id})
            await self._pause()
        return Outcome.fail(
            f"manager loop {self._node.id!r}: max cycles exceeded: the child has not ended after {most} "
            f"look{'s' * (most > 1)} (manager.max_cycles); it was {seen.status}, in stage "
            f"{', '.join(seen.active) or 'none'}"
        )

    def wake(self) -> None:
        """End the pause: the child has ended."""
        self._woken.set()

    def observe(self) -> None:
        """Bring the child's last state into the context."""
        if "observe" in self._actions:
            self._context.apply_updates(self._watch.look().to_context(self._run_dir))

    def _note(self, seen: Telemetry, cycle: int) -> None:
        if "observe" not in self._actions:
            return
        self._context.apply_updates(seen.to_context(self._run_dir))
        if seen != self._seen:
            self._seen = seen
            self._emit(
                ChildProgressed,
                name=self._node.id,
                cycle=cycle,
                status=seen.status,
                active_stage=seen.active[-1] if seen.active else "",
                completed=seen.completed,
            )

    def _judge(self, seen: Telemetry) -> Outcome:
        updates = {"last_stage": self._node.id}
        if seen.status == "completed":
            return Outcome.success("Child completed", context_updates=updates)
        return Outcome.fail(f"the child run in {self._run_dir} failed: {seen.failure_reason}", context_updates=updates)

    def _steer(self, seen: Telemetry) -> None:
        if not seen.active or (self._steer_when is not None and not self._holds(self._steer_when)):
            return
        cooldown = to_seconds(self._node.attrs.get("manager.steer_cooldown"))
        wait = STEER_COOLDOWN_SECONDS if cooldown is None else cooldown
        now = self._clock()
        if self._steered_at is not None and now - self._steered_at < wait:
            return
        self._steered_at = now
        stage = seen.active[-1]
        write_steering(stage_path(_latest_folder(self._run_dir), stage), self._text)
        self._emit(ChildSteered, name=self._node.id, stage=stage, text=self._text)

    async def _pause(self) -> None:
        interval = to_seconds(self._node.attrs.get("manager.poll_interval"))
        seconds = POLL_SECONDS if interval is None else interval
        with anyio.move_on_after(max(seconds, _BRIEF_SECONDS) if "wait" in self._actions else _BRIEF_SECONDS):
            await self._woken.wait()

    def _holds(self, condition: Condition) -> bool:
        return condition.evaluate(self._context.run.last_outcome or Outcome.success(), self._context)


def _read_condition(node: Node, name: str) -> Condition | None:
    text = node.text(name).strip()
    try:
        return parse_condition(text) if text else None
    except ConditionSyntaxError as error:
        raise PipelineConfigurationError(f"{name} of {node.id!r} can't be read: {error}") from error


def _latest_folder(run_dir: Path) -> Path:
    """Where the stages of a run lie after its restarts."""
    number = 0
    while restart_path(run_dir, number + 1).is_dir():
        number += 1
    return restart_path(run_dir, number)
