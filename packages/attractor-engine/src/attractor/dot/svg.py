"""A picture of a pipeline, drawn by Graphviz where it is installed."""

import shutil
from subprocess import PIPE

import anyio

from attractor.dot.formatter import format_source
from attractor.dot.writer import format_graph
from attractor.errors import DotSyntaxError
from attractor.graph import Graph

_TIMEOUT_SECONDS = 30


async def render_svg(graph: Graph) -> bytes | None:
    """SVG of a graph; None if the `dot` program is not installed, takes over 30 seconds, or can't draw the graph."""
    program = shutil.which("dot")
    if program is None:
        return None
    with anyio.move_on_after(_TIMEOUT_SECONDS):
        result = await anyio.run_process([program, "-Tsvg"], input=_drawable(graph).encode(), check=False, stderr=PIPE)
        return result.stdout if result.returncode == 0 and result.stdout else None
    return None


def _drawable(graph: Graph) -> str:
    """The source, which has clusters and layout, unless the graph is none or no longer that of its source."""
    try:
        return format_source(graph.source) if graph.source else format_graph(graph)
    except DotSyntaxError:
        return format_graph(graph)
