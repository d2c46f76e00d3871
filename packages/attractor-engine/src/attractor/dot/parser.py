"""DOT source to Graph."""

from attractor.graph import Graph


def parse_dot(source: str | bytes, file_name: str = "") -> Graph:
    """Read a pipeline from DOT source; raises DotSyntaxError."""
    raise NotImplementedError
