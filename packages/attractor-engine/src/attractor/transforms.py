"""Graph to graph, between parsing and validation (section 9)."""

from collections.abc import Sequence
from typing import Protocol

from attractor.graph import Graph


class Transform(Protocol):
    """Makes a new graph of a graph."""

    def apply(self, graph: Graph) -> Graph: ...


def apply_transforms(graph: Graph, extra: Sequence[Transform] = ()) -> Graph:
    """Run the built-in transforms, then `extra`, in order."""
    raise NotImplementedError
