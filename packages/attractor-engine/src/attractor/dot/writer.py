"""Graph to DOT source."""

from attractor.graph import Graph


def format_graph(graph: Graph) -> str:
    """DOT for a graph."""
    raise NotImplementedError


def format_source(source: str, file_name: str = "") -> str:
    """DOT source in the house form, comments kept; raises DotSyntaxError."""
    raise NotImplementedError
