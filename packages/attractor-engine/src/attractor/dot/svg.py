"""A picture of a pipeline."""

from attractor.graph import Graph


async def render_svg(graph: Graph) -> bytes | None:
    """SVG of a graph; None if no renderer is installed."""
    raise NotImplementedError
