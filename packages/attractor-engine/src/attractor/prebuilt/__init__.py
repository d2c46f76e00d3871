"""Graphs written in Python, and ready-made patterns of them, on the engine that runs pipelines."""

from attractor.prebuilt.assembly import END, START
from attractor.prebuilt.builder import Graph
from attractor.prebuilt.channels import State, add, append, last, merge, union
from attractor.prebuilt.compiled import CompiledGraph
from attractor.prebuilt.errors import (
    ChannelError,
    GraphError,
    Interrupt,
    InterruptError,
    NodeError,
    RouteError,
    StepLimitError,
)
from attractor.prebuilt.node_context import NodeContext
from attractor.prebuilt.resilience import with_retry, with_timeout
from attractor.prebuilt.run_record import Snapshot
from attractor.prebuilt.run_store import RunStore

__all__ = [
    "END",
    "START",
    "ChannelError",
    "CompiledGraph",
    "Graph",
    "GraphError",
    "Interrupt",
    "InterruptError",
    "NodeContext",
    "NodeError",
    "RouteError",
    "RunStore",
    "Snapshot",
    "State",
    "StepLimitError",
    "add",
    "append",
    "last",
    "merge",
    "union",
    "with_retry",
    "with_timeout",
]
