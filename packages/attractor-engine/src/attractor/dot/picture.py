"""The SVG that Graphviz drew, made into a picture of a pipeline: who is who, in which state, in light and in dark.

The colours are in picture.css, as classes. What knows no style sheets shows those that Graphviz was told, on white.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise

from attractor.dot.drawing import edge_name, node_name
from attractor.graph import Graph, Node
from attractor.stage_states import STATE_MARKS, StageState

_SVG = "http://www.w3.org/2000/svg"
_OUTLINES = (f"{{{_SVG}}}polygon", f"{{{_SVG}}}path", f"{{{_SVG}}}ellipse", f"{{{_SVG}}}polyline")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_NOT_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BADGE_RADIUS = 8.0
_Point = tuple[float, float]

ElementTree.register_namespace("", _SVG)


def finish_picture(svg: bytes, graph: Graph, states: Mapping[str, StageState]) -> bytes:
    """The picture as a file of its own. A node's group says `data-node`, `data-type` and `data-state`, an edge's
    `data-edge`; each node has a badge for the mark of its state. A node that `states` doesn't name is pending.
    """
    root = ElementTree.fromstring(svg)
    root.set("class", "attractor-graph")
    root.set("role", "img")
    root.set("aria-label", _clean(f"The pipeline {graph.label or graph.name}".strip()))
    nodes = {node_name(number): node for number, node in enumerate(graph.nodes.values())}
    edges = {edge_name(number): edge for number, edge in enumerate(graph.edges)}
    for group in list(root.iter(f"{{{_SVG}}}g")):
        name = group.get("id", "")
        if node := nodes.get(name):
            _finish_node(group, graph, node, states.get(node.id, StageState.PENDING))
        elif edge := edges.get(name):
            group.set("data-edge", _clean(f"{edge.source}->{edge.target}"))
            _set_title(group, f"{edge.source}->{edge.target}")
        elif group.get("class") == "graph":
            _finish_ground(group, graph)
    style = ElementTree.Element(f"{{{_SVG}}}style")
    style.text = _style_sheet()
    root.insert(0, style)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


@cache
def _style_sheet() -> str:
    return files("attractor.dot").joinpath("picture.css").read_text("utf-8")


def _finish_ground(group: ElementTree.Element, graph: Graph) -> None:
    for child in list(group):
        # The background; what is drawn stands in groups.
        if child.tag == f"{{{_SVG}}}polygon":
            group.remove(child)
    _set_title(group, graph.label or graph.name or "pipeline")


def _finish_node(group: ElementTree.Element, graph: Graph, node: Node, state: StageState) -> None:
    group.set("data-node", _clean(node.id))
    group.set("data-type", _clean(graph.handler_type(node)))
    group.set("data-state", state.value)
    _set_title(group, node.id)
    outlines = [child for child in group if child.tag in _OUTLINES]
    for outline in outlines:
        outline.set("class", "outline hollow" if outline.get("fill") == "none" else "outline")
    if place := _upper_right(outlines):
        group.append(_make_badge(*place, STATE_MARKS[state]))


def _make_badge(x: float, y: float, mark: str) -> ElementTree.Element:
    badge = ElementTree.Element(f"{{{_SVG}}}g", {"class": "badge", "transform": f"translate({x:.2f} {y:.2f})"})
    if not mark:
        badge.set("display", "none")
    circle = {"r": f"{_BADGE_RADIUS:g}", "fill": "#52606d", "stroke": "#ffffff", "stroke-width": "1.5"}
    text = {"text-anchor": "middle", "dy": "3.6", "font-size": "10", "fill": "#ffffff", "aria-hidden": "true"}
    ElementTree.SubElement(badge, f"{{{_SVG}}}circle", circle)
    ElementTree.SubElement(badge, f"{{{_SVG}}}text", text).text = mark
    return badge


def _upper_right(outlines: list[ElementTree.Element]) -> tuple[float, float] | None:
    """Where the widest of the outlines meets the line from its middle to the corner of the box around it."""
    outline, points = max(((one, list(_points(one))) for one in outlines), key=_width, default=(None, []))
    if outline is None or not points:
        return None
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    top, bottom = min(y for _, y in points), max(y for _, y in points)
    middle, corner = ((left + right) / 2, (top + bottom) / 2), (right, top)
    if outline.tag != f"{{{_SVG}}}polygon":
        return right - 2, top + 2
    met = [share for one, other in pairwise(points) if (share := _meet(middle, corner, one, other)) is not None]
    share = max(met, default=1.0)
    return middle[0] + share * (corner[0] - middle[0]), middle[1] + share * (corner[1] - middle[1])


def _width(outline: tuple[ElementTree.Element, list[_Point]]) -> float:
    across = [x for x, _ in outline[1]]
    return max(across) - min(across) if across else 0.0


def _meet(start: _Point, end: _Point, one: _Point, other: _Point) -> float | None:
    """How far along the way from start to end it crosses the line between two points; None if it doesn't."""
    way, line = (end[0] - start[0], end[1] - start[1]), (other[0] - one[0], other[1] - one[1])
    slope = way[0] * line[1] - way[1] * line[0]
    if not slope:
        return None
    offset = (one[0] - start[0], one[1] - start[1])
    along = (offset[0] * line[1] - offset[1] * line[0]) / slope
    across = (offset[0] * way[1] - offset[1] * way[0]) / slope
    return along if 0 <= across <= 1 and 0 <= along <= 1 else None


def _points(outline: ElementTree.Element) -> Iterator[_Point]:
    if outline.tag == f"{{{_SVG}}}ellipse":
        x, y, width, height = (float(outline.get(name, "0")) for name in ("cx", "cy", "rx", "ry"))
        yield x + 0.7 * width, y - 0.7 * height
        return
    numbers = [float(text) for text in _NUMBER.findall(outline.get("points") or outline.get("d") or "")]
    yield from zip(numbers[::2], numbers[1::2], strict=False)


def _set_title(group: ElementTree.Element, text: str) -> None:
    title = group.find(f"{{{_SVG}}}title")
    if title is None:
        title = ElementTree.Element(f"{{{_SVG}}}title")
        group.insert(0, title)
    title.text = _clean(text)


def _clean(text: str) -> str:
    """Text without what XML has no way to say."""
    return _NOT_XML.sub("\ufffd", text)
