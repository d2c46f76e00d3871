"""The same, blocking, for scripts: `from attractor.sync import run_pipeline`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from attractor import pipeline
from attractor.graph import Graph
from attractor.pipeline import RunResult
from attractor.state.context import Context


def run_pipeline(graph: Graph | str, context: Context | Mapping[str, Any] | None = None, **options: Any) -> RunResult:
    """See `attractor.run_pipeline`. Not for use where an event loop runs already."""
    return anyio.run(partial(pipeline.run_pipeline, graph, context, **options))


def resume_pipeline(
    logs_root: str | Path, *, graph: Graph | None = None, from_node: str = "", **options: Any
) -> RunResult:
    """See `attractor.resume_pipeline`. Not for use where an event loop runs already."""
    return anyio.run(partial(pipeline.resume_pipeline, logs_root, graph=graph, from_node=from_node, **options))
