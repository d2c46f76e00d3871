"""The handlers that a run has unless it is given others."""

import time
from collections.abc import Callable
from pathlib import Path

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.events import Emit
from attractor.handlers.base import HandlerRegistry
from attractor.handlers.basic import ConditionalHandler, ExitHandler, StartHandler
from attractor.handlers.child_run import ChildPipelines
from attractor.handlers.codergen import CodergenHandler
from attractor.handlers.converge import ConvergeHandler
from attractor.handlers.fan_in import FanInHandler
from attractor.handlers.interrupt import InterruptHandler
from attractor.handlers.manager_loop import ManagerLoopHandler
from attractor.handlers.once import IdempotentHandler, Ledger, SkipIfDoneHandler
from attractor.handlers.parallel import ParallelHandler
from attractor.handlers.quality_gate import QualityGateHandler
from attractor.handlers.resilience import RetryHandler, TimeoutHandler
from attractor.handlers.sub_pipeline import SubPipelineHandler
from attractor.handlers.tool import ToolHandler
from attractor.handlers.wait_human import WaitHumanHandler
from attractor.handlers.work import FunctionHandler, Functions, Toolkit
from attractor.interviewers.base import Interviewer


def build_registry(
    backend: CodergenBackend | None = None,
    *,
    interviewer: Interviewer | None = None,
    emit: Emit | None = None,
    clock: Callable[[], float] = time.time,
    working_dir: str | Path | None = None,
    dry_run: bool = False,
    children: ChildPipelines | None = None,
    functions: Functions | None = None,
) -> HandlerRegistry:
    """One handler for each type that this package executes; for human gates only with an interviewer and
    `emit`, for runs within the run only with `children` and `emit`. `functions` are those that nodes may name."""
    codergen, commands = CodergenHandler(backend), ToolHandler(working_dir, dry_run=dry_run)
    toolkit = Toolkit(backend or SimulatedBackend(), commands, functions or {}, dry_run)
    ledger = Ledger(Path(working_dir or "."), clock=clock)
    registry = HandlerRegistry(
        {
            "start": StartHandler(),
            "exit": ExitHandler(),
            "conditional": ConditionalHandler(),
            "tool": commands,
            "codergen": codergen,
            "parallel": ParallelHandler(emit),
            "parallel.fan_in": FanInHandler(backend),
            "function": FunctionHandler(toolkit),
            "converge": ConvergeHandler(toolkit),
            "quality_gate": QualityGateHandler(toolkit),
            "skip_if_done": SkipIfDoneHandler(toolkit, ledger),
            "idempotent": IdempotentHandler(toolkit, ledger),
            "interrupt": InterruptHandler(),
            "retry": RetryHandler(toolkit),
            "timeout": TimeoutHandler(toolkit),
        },
        default_handler=codergen,
    )
    if interviewer is not None and emit is not None:
        registry.register("wait.human", WaitHumanHandler(interviewer, emit, clock=clock))
    if children is not None and emit is not None:
        registry.register("pipeline", SubPipelineHandler(children, emit))
        registry.register("stack.manager_loop", ManagerLoopHandler(children, emit))
    return registry
