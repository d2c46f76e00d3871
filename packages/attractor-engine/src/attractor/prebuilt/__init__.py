"""Graphs written in Python, and ready-made patterns of them, on the engine that runs pipelines."""

from attractor.effects import (
    IdempotentOp,
    MemoryEffectStore,
    PostgresEffectStore,
    SqliteEffectStore,
    artifact_key,
    effect_key,
)
from attractor.engine.limits import Limits
from attractor.handlers.convergence import Candidate
from attractor.handlers.gates import GateResult
from attractor.prebuilt.assembly import END, START
from attractor.prebuilt.builder import Graph
from attractor.prebuilt.channels import State, add, append, last, merge, union
from attractor.prebuilt.compiled import CompiledGraph
from attractor.prebuilt.composition import PipelineNode
from attractor.prebuilt.converge import ConvergeState, iterate_until_converged
from attractor.prebuilt.errors import (
    ChannelError,
    ChildError,
    GraphError,
    Interrupt,
    InterruptError,
    LimitError,
    NodeError,
    RouteError,
    StepLimitError,
)
from attractor.prebuilt.gate import GateState, add_quality_gate, judge_by_model
from attractor.prebuilt.idempotency import skip_if_done
from attractor.prebuilt.node_context import NodeContext
from attractor.prebuilt.resilience import with_retry, with_timeout
from attractor.prebuilt.run_record import Snapshot, find_interrupts
from attractor.prebuilt.run_store import RunStore
from attractor.prebuilt.stream import RunStream, StateUpdate
from attractor.prebuilt.tool_loop import ToolLoopState, ToolLoopStatus, tool_loop
from attractor.prebuilt.tool_loop_handler import ToolLoopHandler
from attractor.prebuilt.tools import Tool, ToolCallContext, ToolSpec

__all__ = [
    "END",
    "START",
    "Candidate",
    "ChannelError",
    "ChildError",
    "CompiledGraph",
    "ConvergeState",
    "GateResult",
    "GateState",
    "Graph",
    "GraphError",
    "IdempotentOp",
    "Interrupt",
    "InterruptError",
    "LimitError",
    "Limits",
    "MemoryEffectStore",
    "NodeContext",
    "NodeError",
    "PipelineNode",
    "PostgresEffectStore",
    "RouteError",
    "RunStore",
    "RunStream",
    "Snapshot",
    "SqliteEffectStore",
    "State",
    "StateUpdate",
    "StepLimitError",
    "Tool",
    "ToolCallContext",
    "ToolLoopHandler",
    "ToolLoopState",
    "ToolLoopStatus",
    "ToolSpec",
    "add",
    "add_quality_gate",
    "append",
    "artifact_key",
    "effect_key",
    "find_interrupts",
    "iterate_until_converged",
    "judge_by_model",
    "last",
    "merge",
    "skip_if_done",
    "tool_loop",
    "union",
    "with_retry",
    "with_timeout",
]
