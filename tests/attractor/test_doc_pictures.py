"""The pictures of docs/routing.md are those of the graphs beside them."""

import html
import re
from pathlib import Path

import pytest
from attractor.dot import parse_dot

DOCS = Path(__file__).parent.parent.parent / "docs"
SOURCES = sorted((DOCS / "images").glob("*.dot"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_shows_its_graph(source: Path) -> None:
    """By names, since versions of Graphviz place things differently. `attractor graph` draws it anew."""
    graph = parse_dot(source.read_bytes())
    picture = html.unescape(source.with_suffix(".svg").read_text(encoding="utf-8"))
    shown = re.findall(r'class="(?:node|edge)"(?: [\w-]+="[^"]*")*>\s*<title>(.*?)</title>', picture)
    edges = [f"{edge.source}->{edge.target}" for edge in graph.edges]
    assert sorted(shown) == sorted([*graph.nodes, *edges])
    words = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)).replace("\xa0", " ")
    for label in [node.label for node in graph.nodes.values()] + [edge.label for edge in graph.edges]:
        for word in label.split():
            assert word in words
    assert len(picture) < 20_000


def test_every_picture_is_shown() -> None:
    page = (DOCS / "routing.md").read_text(encoding="utf-8")
    assert SOURCES
    assert [path.name for path in SOURCES if f"(images/{path.stem}.svg)" not in page] == []
