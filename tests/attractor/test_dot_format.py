"""The formatter and the picture."""

from attractor.dot import format_graph, format_source, parse_dot
from attractor.graph import Duration, Edge, Graph, Node

UNTIDY = """# what it is
digraph   "My flow" {   // head
graph[goal="g" ;label=x]
  node [  ];
  a->b->c[label=go,timeout=20m]; b [

     // the prompt
     prompt="first
  second", x.y=1.5, // beside
  flag=true /* last */
  ]


  /* a block
     of two lines */
  subgraph cluster_s { label="S" d; }  # no comment
}
// the end
""".replace("  # no comment", "")

TIDY = """// what it is
digraph "My flow" {  // head
    graph [goal="g", label=x]
    node []
    a -> b -> c [label=go, timeout="20m"]
    b [
        // the prompt
        prompt="first
  second",
        "x.y"=1.5,  // beside
        flag=true  /* last */
    ]

    /* a block
     of two lines */
    subgraph cluster_s {
        label="S"
        d
    }
}
// the end
"""


def test_house_form() -> None:
    assert format_source(UNTIDY) == TIDY
    assert format_source(TIDY) == TIDY


def test_long_lists_are_broken() -> None:
    source = f'digraph {{ a [label="{"x" * 60}", prompt="{"y" * 60}"] }}'
    formatted = format_source(source)
    assert formatted == f'digraph {{\n    a [\n        label="{"x" * 60}",\n        prompt="{"y" * 60}"\n    ]\n}}\n'
    assert format_source(formatted) == formatted


def test_graphviz_gets_quotes_where_it_needs_them() -> None:
    source = 'digraph { Node -> "edge" [human.timeout=5m, model=gpt-5.2, n=.5] }'
    assert format_source(source) == (
        'digraph {\n    "Node" -> "edge" ["human.timeout"="5m", model="gpt-5.2", n=.5]\n}\n'
    )


def test_comments_inside_statements_go_above_them() -> None:
    formatted = format_source("digraph { a -> /* why */ b }")
    assert formatted == "digraph {\n    /* why */\n    a -> b\n}\n"
    assert format_source(formatted) == formatted


def test_quotes_that_lacked_a_backslash_get_one() -> None:
    source = """digraph { a [c="'"x": 1"'"] }"""
    assert format_source(source) == 'digraph {\n    a [c="\'\\"x\\": 1\\"\'"]\n}\n'


def test_a_graph_made_in_python() -> None:
    graph = Graph(
        "flow",
        {
            "start": Node("start", {"shape": "Mdiamond"}),
            "a": Node("a", {"prompt": 'say "hi"\n', "timeout": Duration("5m"), "max_retries": 2}, ("loop-a",)),
            "b": Node("b", {"goal_gate": True, "class": "x"}, ("loop-a", "x")),
            "odd": Node("odd", {"label": "Odd"}, ("Not_Derived",)),
        },
        (Edge("start", "a"), Edge("a", "b", {"condition": 'x="1"', "weight": -1})),
        {"goal": "g", "rankdir": "LR"},
    )
    written = format_graph(graph)
    assert written == (
        "digraph flow {\n"
        '    goal="g"\n'
        "    rankdir=LR\n"
        "\n"
        "    start [shape=Mdiamond]\n"
        "    subgraph {\n"
        '        label="loop-a"\n'
        '        a [prompt="say \\"hi\\"\\n", timeout="5m", max_retries=2]\n'
        '        b [goal_gate=true, class="x"]\n'
        "    }\n"
        '    odd [label="Odd", class="Not_Derived"]\n'
        "\n"
        "    start -> a\n"
        '    a -> b [condition="x=\\"1\\"", weight=-1]\n'
        "}\n"
    )
    again = parse_dot(written)
    assert again.nodes["b"] == graph.nodes["b"]
    assert again.edges == graph.edges
    assert again.nodes["odd"].classes == ("Not_Derived",)
