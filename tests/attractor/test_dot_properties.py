"""Whatever the input: no crash, no hang, nothing lost."""

import re

from attractor.dot import format_graph, format_source, parse_dot
from attractor.dot.builder import derive_class
from attractor.dot.lexer import comments
from attractor.dot.parser import parse_document
from attractor.errors import DotSyntaxError
from attractor.graph import Duration, Edge, Graph, Node, Value, split_classes
from attractor.transforms import apply_transforms
from attractor.validation import validate
from hypothesis import given, settings
from hypothesis import strategies as st

# Text that a file can hold: line ends become line feeds when it is read.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=20)
names = st.one_of(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True), texts)
durations = st.builds(
    lambda number, unit: Duration(f"{number}{unit}"), st.integers(0, 10**6), st.sampled_from(["ms", "s", "d"])
)
values: st.SearchStrategy[Value] = st.one_of(
    texts, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), durations
)
attributes = st.dictionaries(names, values, max_size=4)
classes = st.lists(st.from_regex(r"[a-z0-9-]{1,5}", fullmatch=True), max_size=3, unique=True)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = {}
    for node_id in draw(st.lists(names, max_size=6, unique=True)):
        attrs = draw(attributes) | {"class": draw(texts)}
        every = (*draw(classes), *split_classes(attrs["class"]))
        nodes[node_id] = Node(node_id, attrs, tuple(dict.fromkeys(every)))
    edges = []
    if nodes:
        ends = st.sampled_from(sorted(nodes))
        edges = draw(st.lists(st.builds(Edge, ends, ends, attributes), max_size=6))
    return Graph(draw(names), nodes, tuple(edges), draw(attributes))


@given(graphs())
def test_a_written_graph_is_read_back(graph: Graph) -> None:
    written = format_graph(graph)
    assert parse_dot(written) == graph
    assert parse_dot(format_source(written)) == graph


def read(source: str | bytes) -> Graph | None:
    """The graph, or None if the source is refused; then the error must point into it."""
    try:
        return parse_dot(source)
    except DotSyntaxError as refused:
        error = refused
    text = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    return None


PIECES = st.sampled_from(
    [
        *"{}[]=;,#\"'\\<>:\n\t -",
        *("->", "--", "//", "/*", "*/", "// note\n", "/* note */", "# note\n"),
        *("digraph", "graph", "node", "edge", "subgraph", "strict", "subgraph s {", "node [shape=box]"),
        *("a", "b", "label", '"x"', '"say \\"hi\\""', "1", "-2.5", "15m", "true", "key.sub", 'label="L"', "'\"x\"'"),
        *("a -> b", '[label="A", prompt="P"]', "[x=1]"),
        *("é", "\u2028", "\u0085", "\xa0"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.booleans())
@settings(max_examples=400)
def test_pieces_of_dot_never_crash(body: str, wrapped: bool) -> None:
    source = f"digraph {{{body}}}" if wrapped else body
    graph = read(source)
    if graph is None:
        return
    validate(apply_transforms(graph))
    formatted = format_source(source)
    assert parse_dot(formatted) == graph
    assert format_source(formatted) == formatted
    assert len(list(comments(parse_document(formatted)[1]))) == len(list(comments(parse_document(source)[1])))


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
def test_anything_is_read_or_refused(source: bytes | str) -> None:
    read(source)


SAMPLE = """// A pipeline
digraph Sample {
    graph [goal="Ship \\"it\\"", default_max_retries=2]
    node [timeout="900s"] /* all of them */
    subgraph cluster_a {
        label="Loop A"
        plan [label="Plan", prompt="First
second"]  // beside
    }
    start [shape=Mdiamond]
    plan -> start -> exit [condition="outcome=success && x!=\\"a\\"", weight=2];
}
"""


@given(st.integers(0, len(SAMPLE)), st.integers(0, 8), st.one_of(PIECES, st.text(max_size=3)))
@settings(max_examples=400)
def test_mutated_sources_never_crash(at: int, removed: int, inserted: str) -> None:
    source = SAMPLE[:at] + inserted + SAMPLE[at + removed :]
    graph = read(source)
    if graph is None:
        return
    validate(apply_transforms(graph))
    assert parse_dot(format_source(source)) == graph


@given(st.text(max_size=30))
def test_derived_classes_have_the_form_of_section_8(label: str) -> None:
    assert re.fullmatch("[a-z0-9-]*", derive_class(label))
    assert derive_class(derive_class(label)) == derive_class(label)
