"""What DOT source means (section 2). Tests named dod_11_1 are the items of section 11.1."""

import gc
from contextlib import suppress

import pytest
from attractor.diagnostics import Severity, Span
from attractor.dot import format_source, parse_dot
from attractor.errors import DotSyntaxError
from attractor.graph import Duration, Graph


def edges(graph: Graph) -> list[tuple[str, str]]:
    return [(edge.source, edge.target) for edge in graph.edges]


def rules(graph: Graph) -> list[str]:
    return [found.rule for found in graph.diagnostics]


def test_dod_11_1_accepts_the_supported_subset() -> None:
    graph = parse_dot(
        """
        digraph Simple {
            graph [goal="Run tests and report"]
            rankdir=LR
            node [timeout="900s"]
            edge [weight=2]
            start [shape=Mdiamond, label="Start"]
            exit  [shape=Msquare]
            start -> work -> exit;
        }
        """
    )
    assert graph.name == "Simple"
    assert list(graph.nodes) == ["start", "exit", "work"]
    assert edges(graph) == [("start", "work"), ("work", "exit")]
    assert graph.nodes["work"].timeout == 900
    assert [edge.weight for edge in graph.edges] == [2, 2]
    assert not graph.diagnostics


def test_dod_11_1_extracts_graph_attributes() -> None:
    graph = parse_dot(
        """digraph { graph [goal="Ship it", label="The label"]
                     model_stylesheet="* { llm_model: m }" tool_hooks.pre=check }"""
    )
    assert graph.goal == "Ship it"
    assert graph.label == "The label"
    assert graph.model_stylesheet == "* { llm_model: m }"
    assert graph.attrs["tool_hooks.pre"] == "check"


def test_dod_11_1_parses_attribute_blocks_over_several_lines() -> None:
    graph = parse_dot(
        'digraph {\n  a [\n    label="A",\n\n    // why\n    prompt="first\nsecond",\n    max_retries=3\n  ]\n}'
    )
    assert graph.nodes["a"].attrs == {"label": "A", "prompt": "first\nsecond", "max_retries": 3}


def test_dod_11_1_parses_edge_attributes() -> None:
    graph = parse_dot('digraph { a -> b [label="[Y] Yes", condition="outcome=success && context.x=1", weight=-3] }')
    edge = graph.edges[0]
    assert (edge.label, edge.condition, edge.weight) == ("[Y] Yes", "outcome=success && context.x=1", -3)
    assert (edge.from_node, edge.to_node) == ("a", "b")


def test_dod_11_1_expands_chains() -> None:
    graph = parse_dot('digraph { a -> b -> c [label="next"] }')
    assert edges(graph) == [("a", "b"), ("b", "c")]
    assert [edge.label for edge in graph.edges] == ["next", "next"]


def test_dod_11_1_applies_defaults_to_what_follows() -> None:
    graph = parse_dot(
        """
        digraph {
            node [class="a"] n1 [label="1"]
            node [class="b"] n2 [label="2"]
            edge [label="r"] n1 -> n2
            edge [label="b"] n2 -> n1
        }
        """
    )
    assert graph.nodes["n1"].attrs == {"class": "a", "label": "1"}
    assert graph.nodes["n2"].attrs == {"class": "b", "label": "2"}
    assert [edge.label for edge in graph.edges] == ["r", "b"]
    assert set(graph.nodes) == {"n1", "n2"}


def test_dod_11_1_flattens_subgraphs() -> None:
    graph = parse_dot('digraph { subgraph cluster_x { label="X" a -> b subgraph { c } } b -> c }')
    assert list(graph.nodes) == ["a", "b", "c"]
    assert edges(graph) == [("a", "b"), ("b", "c")]
    assert graph.attrs == {}


def test_dod_11_1_reads_quoted_and_bare_values() -> None:
    graph = parse_dot(
        """digraph { a [t="900s", u=900s, i=-42, f=-3.14, g=.5, y=true, n=false, w=summary:high, q="true",
                        m=claude-opus-4.6] }"""
    )
    attrs = graph.nodes["a"].attrs
    assert attrs == {
        "t": "900s",
        "u": "900s",
        "i": -42,
        "f": -3.14,
        "g": 0.5,
        "y": True,
        "n": False,
        "w": "summary:high",
        "q": "true",
        "m": "claude-opus-4.6",
    }
    assert isinstance(attrs["u"], Duration)
    assert attrs["u"].seconds == 900


def test_dod_11_1_strips_comments_but_not_in_strings() -> None:
    graph = parse_dot(
        """
        # first line
        digraph { // a line
            /* a
               block */
            a /* b */ [ /* c */ prompt /* d */ = /* e */ "http://x /* y */ # z" /* f */ , // g
              # h
              label=A ] -> /* i */ b
        }
        """.replace("] ->", "] a ->")
    )
    assert graph.nodes["a"].attrs == {"prompt": "http://x /* y */ # z", "label": "A"}
    assert edges(graph) == [("a", "b")]


@pytest.mark.parametrize("id_", ["Node", "EDGE", "subgraph_x", "digraph1", "nodes", "graphs", "strictly", "élan", "_"])
def test_ids_may_begin_with_a_keyword(id_: str) -> None:
    graph = parse_dot(f"digraph {{ start -> {id_} {id_} [label=x] }}")
    assert graph.nodes[id_].label == "x"


def test_keywords_and_odd_ids_in_quotes_are_ids() -> None:
    graph = parse_dot('digraph "my graph" { "node" -> "two words" -> "a.b" "node" ["human.default_choice"=yes] }')
    assert graph.name == "my graph"
    assert edges(graph) == [("node", "two words"), ("two words", "a.b")]
    assert graph.nodes["node"].attrs == {"human.default_choice": "yes"}
    assert parse_dot("digraph { node_ [human.default_choice=yes] }").nodes["node_"].attrs == {
        "human.default_choice": "yes"
    }


def test_escapes() -> None:
    graph = parse_dot(r'digraph { a [prompt="good\nworld\tend \"quoted\" back\\slash\\n"] }')
    assert graph.nodes["a"].prompt == 'good\nworld\tend "quoted" back\\slash\\n'
    assert not graph.diagnostics


def test_unknown_escapes_stay_and_are_reported() -> None:
    graph = parse_dot('digraph {\n a [tool_command="grep \\d+ \\$x \\\n y"] }')
    assert graph.nodes["a"].text("tool_command") == "grep \\d+ \\$x \\\n y"
    (found,) = graph.diagnostics
    assert (found.rule, found.severity) == ("unknown_escape", Severity.WARNING)
    assert found.span == Span(2, 24, 33, 35)
    assert "\\d, \\$" in found.message


@pytest.mark.parametrize(
    "list_",
    [
        '[x=1; y="2"]',
        '[x=1 y="2"]',
        '[x=1, y="2",]',
        '[x=1,, y="2"]',
        '[x=1][y="2"]',
        '[] [x=1] [] [y="2"]',
        '[x=1y="2"]',
    ],
)
def test_separators_of_attributes(list_: str) -> None:
    source = f"digraph {{ a {list_} }}"
    if list_ == '[x=1y="2"]':
        with pytest.raises(Exception, match="1y is neither a number nor a duration"):
            parse_dot(source)
    else:
        assert parse_dot(source).nodes["a"].attrs == {"x": 1, "y": "2"}


@pytest.mark.parametrize(
    "source",
    [
        "digraph G {\n a -> b;\n}\n",
        "digraph G { a -> b;; ; }",
        "digraph G { subgraph { a -> b; }; }",
        "digraph G {\r\n  a -> b;\r\n}\r\n",
        b"\xef\xbb\xbfdigraph G { a -> b }",
        "\ufeffdigraph G { a -> b }",
        "digraph { a -> b }",
        "DIGRAPH".lower() + " { a->b }",
    ],
)
def test_semicolons_line_ends_and_marks_make_no_nodes(source: str | bytes) -> None:
    graph = parse_dot(source)
    assert list(graph.nodes) == ["a", "b"]
    assert edges(graph) == [("a", "b")]


def test_line_ends_in_strings_are_line_feeds() -> None:
    assert parse_dot(b'digraph { a [prompt="one\r\ntwo"] }').nodes["a"].prompt == "one\ntwo"


def test_outer_defaults_reach_into_subgraphs_and_inner_ones_stay_there() -> None:
    graph = parse_dot(
        """
        digraph {
            node [max_retries=2] edge [weight=3]
            subgraph s { node [fidelity=full] edge [label=in] x y [max_retries=0] x -> y }
            z x -> z
        }
        """
    )
    assert graph.nodes["x"].attrs == {"max_retries": 2, "fidelity": "full"}
    assert graph.nodes["y"].attrs == {"max_retries": 0, "fidelity": "full"}
    assert graph.nodes["z"].attrs == {"max_retries": 2}
    assert [dict(edge.attrs) for edge in graph.edges] == [{"weight": 3, "label": "in"}, {"weight": 3}]


def test_a_node_belongs_where_it_is_declared() -> None:
    graph = parse_dot(
        """
        digraph {
            start -> plan
            subgraph cluster_loop { label="Loop A" node [thread_id="loop-a"] plan [label="Plan"] plan -> done }
            done [label="Done"]
        }
        """
    )
    assert graph.nodes["plan"].thread_id == "loop-a"
    assert graph.nodes["plan"].classes == ("loop-a",)
    assert graph.nodes["done"].classes == ()
    assert graph.nodes["done"].attrs == {"label": "Done"}


def test_classes_come_from_labels_outermost_first_then_from_the_attribute() -> None:
    graph = parse_dot(
        """
        digraph {
            subgraph { a [class="code, critical"] subgraph { graph [label="Öl & Co. 2"] b } label="Loop A" }
            subgraph { label="!!!" c }
        }
        """
    )
    assert graph.nodes["a"].classes == ("loop-a", "code", "critical")
    assert graph.nodes["b"].classes == ("loop-a", "l--co-2")
    assert graph.nodes["c"].classes == ()


def test_repeated_declarations_merge_and_conflicts_are_reported() -> None:
    graph = parse_dot("digraph {\n a [x=1, y=1]\n a [y=2, z=3]\n b [k=1, k=1]\n goal=one goal=two }")
    assert graph.nodes["a"].attrs == {"x": 1, "y": 2, "z": 3}
    assert graph.goal == "two"
    assert rules(graph) == ["duplicate_attribute", "duplicate_attribute"]
    assert any(
        "node a already has y, in line 2" in found.message and found.node_id == "a" for found in graph.diagnostics
    )


def test_attributes_of_a_subgraph_that_mean_nothing_are_reported() -> None:
    graph = parse_dot("digraph { subgraph { label=X style=dashed rank=same timeout=5s a } }")
    assert [(found.rule, found.message) for found in graph.diagnostics] == [
        ("subgraph_attribute", "timeout has no effect on a subgraph")
    ]


def test_subgraphs_as_ends_of_edges_stand_for_their_nodes() -> None:
    graph = parse_dot("digraph { a -> {b c} -> subgraph s { d } [weight=1] }")
    assert edges(graph) == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def test_numbers_are_ids_as_for_graphviz() -> None:
    source = "digraph 12 { 1 -> 2.5 -> .5; 1 [label=first] }"
    graph = parse_dot(source)
    assert (graph.name, list(graph.nodes), graph.nodes["1"].label) == ("12", ["1", "2.5", ".5"], "first")
    assert list(parse_dot(format_source(source)).nodes) == ["1", "2.5", ".5"]


def test_quotes_without_backslash_inside_shell_quotes_are_read_as_text() -> None:
    source = """digraph { a [tool_command="grep '"gate": "x"' f; echo \\"b\\"", label=A] b [p="it's '", q="'"] }"""
    graph = parse_dot(source)
    assert graph.nodes["a"].attrs == {"tool_command": """grep '"gate": "x"' f; echo "b\"""", "label": "A"}
    assert graph.nodes["b"].attrs == {"p": "it's '", "q": "'"}
    assert rules(graph) == ["unescaped_quote"]


def test_spans_point_at_what_they_are_about() -> None:
    source = 'digraph {\n  goal="g"\n  a [label="A",\n     prompt="P"]\n  a -> b [weight=1]\n}\n'
    graph = parse_dot(source, "file.dot")

    def text(span: Span | None) -> str:
        assert span is not None
        line = source.split("\n")[span.line - 1]
        assert line[span.column - 1 :].startswith(source[span.start : span.end].split("\n")[0])
        return source[span.start : span.end]

    assert text(graph.attr_spans["goal"]) == 'goal="g"'
    assert text(graph.nodes["a"].span) == 'a [label="A",\n     prompt="P"]'
    assert text(graph.nodes["a"].attr_spans["prompt"]) == 'prompt="P"'
    assert text(graph.nodes["b"].span) == "b"
    assert text(graph.edges[0].span) == "a -> b [weight=1]"
    assert text(graph.edges[0].attr_spans["weight"]) == "weight=1"
    assert dict(graph.nodes["a"].attr_spans).keys() == {"label", "prompt"}
    assert graph.source == source
    assert graph.file_name == "file.dot"


def test_spans_of_defaults_point_at_the_default() -> None:
    graph = parse_dot("digraph {\n node [timeout=5s, shape=box]\n a [shape=hexagon]\n}")
    assert graph.nodes["a"].attr_spans["timeout"].line == 2
    assert graph.nodes["a"].attr_spans["shape"].line == 3
    assert len(graph.nodes["a"].attr_spans) == 2
    with pytest.raises(KeyError):
        graph.nodes["a"].attr_spans["prompt"]


def test_start_and_exit_by_shape_type_or_name() -> None:
    by_shape = parse_dot("digraph { begin [shape=Mdiamond] start finish [shape=Msquare] end }")
    assert [node.id for node in (*by_shape.start_nodes, *by_shape.exit_nodes)] == ["begin", "finish"]
    by_type = parse_dot("digraph { a [type=start, shape=circle] b [type=exit] }")
    assert [node.id for node in (*by_type.start_nodes, *by_type.exit_nodes)] == ["a", "b"]
    by_name = parse_dot("digraph { Start -> done [label=x] done -> exit }")
    assert [node.id for node in (*by_name.start_nodes, *by_name.exit_nodes)] == ["Start", "exit"]
    assert by_name.handler_type(by_name.nodes["done"]) == "codergen"


def test_durations() -> None:
    for text, seconds in {"250ms": 0.25, "900s": 900, "15m": 900, "2h": 7200, "1d": 86400}.items():
        graph = parse_dot(f'digraph {{ a [timeout={text}] b [timeout="{text}"] }}')
        assert graph.nodes["a"].timeout == graph.nodes["b"].timeout == seconds
        assert graph.nodes["a"].attrs == graph.nodes["b"].attrs
    with pytest.raises(ValueError, match="not a duration"):
        Duration("soon")


@pytest.mark.parametrize("source", ["digraph { a -> b }", "digraph { a -> }"])
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_left_as_it_was(source: str, enabled: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with suppress(DotSyntaxError):
            parse_dot(source)
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()
