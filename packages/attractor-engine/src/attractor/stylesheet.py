"""The model stylesheet (section 8)."""

from attractor.graph import Graph


class Stylesheet:
    """Rules by specificity."""

    def apply(self, graph: Graph) -> Graph:
        """A graph whose nodes have the properties that they don't set themselves."""
        raise NotImplementedError


def parse_stylesheet(text: str) -> Stylesheet:
    """Read a stylesheet; raises StylesheetSyntaxError."""
    raise NotImplementedError
