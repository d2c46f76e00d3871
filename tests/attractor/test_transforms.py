"""Transforms (section 9). Tests named dod_11_11 are the items of section 11.11."""

from dataclasses import dataclass, replace

from attractor.diagnostics import Severity
from attractor.dot import parse_dot
from attractor.graph import Graph, Node
from attractor.transforms import Transform, apply_transforms
from attractor.validation import validate


@dataclass
class AddNode:
    name: str

    def apply(self, graph: Graph) -> Graph:
        return graph.with_nodes([Node(self.name, {"label": ",".join(graph.nodes)})])


def test_dod_11_11_transforms_change_the_graph_before_validation() -> None:
    class AddStart:
        def apply(self, graph: Graph) -> Graph:
            return replace(graph, nodes={**graph.nodes, "s": Node("s", {"shape": "Mdiamond"})})

    graph = parse_dot("digraph { exit [shape=Msquare] }")
    assert "start_node" in {found.rule for found in validate(graph)}
    assert "start_node" not in {found.rule for found in validate(apply_transforms(graph, [AddStart()]))}


def test_dod_11_11_interface_is_graph_to_graph() -> None:
    transform: Transform = AddNode("x")
    before = parse_dot("digraph { a }")
    after = apply_transforms(before, [transform])
    assert set(after.nodes) == {"a", "x"}
    assert set(before.nodes) == {"a"}


def test_dod_11_11_goal_is_expanded_in_prompts() -> None:
    graph = parse_dot(r'digraph { goal="win \\1 $goal" a [prompt="Do $goal, $goal. $goals ${goal}", label="$goal"] }')
    node = apply_transforms(graph).nodes["a"]
    assert node.prompt == r"Do win \1 $goal, win \1 $goal. $goals ${goal}"
    assert node.label == "$goal"


def test_goal_is_not_expanded_in_commands() -> None:
    graph = parse_dot('digraph { goal="x; rm -rf /" t [shape=parallelogram, tool_command="echo $goal"] }')
    assert apply_transforms(graph).nodes["t"].text("tool_command") == "echo $goal"


def test_dod_11_11_custom_transforms_run_in_order_after_the_built_in() -> None:
    graph = apply_transforms(parse_dot('digraph { goal=g a [llm_prompt="$goal"] }'), [AddNode("x"), AddNode("y")])
    assert graph.nodes["y"].label == "a,x"
    assert graph.nodes["a"].prompt == "g"


def test_model_settings_of_the_graph_come_last() -> None:
    graph = apply_transforms(
        parse_dot(
            """
            digraph {
                graph [llm_model=from_graph, reasoning_effort=low, model_stylesheet=".c { llm_model: from_sheet }"]
                a b [class=c] c [class=c, llm_model=own]
            }
            """
        )
    )
    assert [node.llm_model for node in graph.nodes.values()] == ["from_graph", "from_sheet", "own"]
    assert {node.reasoning_effort for node in graph.nodes.values()} == {"low"}
    assert {node.llm_provider for node in graph.nodes.values()} == {""}


def test_unset_stays_unset() -> None:
    node = apply_transforms(parse_dot("digraph { a }")).nodes["a"]
    assert node.attrs == {}
    assert node.reasoning_effort == ""


def test_names_of_other_engines() -> None:
    graph = apply_transforms(
        parse_dot(
            """
            digraph {
                a [script="make", node_type=tool]
                b [model=m, provider=p, llm_prompt="say $goal"]
                c [model=m2]
                goal=hi
            }
            """
        )
    )
    assert (graph.nodes["a"].text("tool_command"), graph.nodes["a"].type) == ("make", "tool")
    assert (graph.nodes["b"].llm_model, graph.nodes["b"].llm_provider, graph.nodes["b"].prompt) == ("m", "p", "say hi")
    assert {found.severity for found in graph.diagnostics} == {Severity.INFO}
    assert [found.message for found in graph.diagnostics][:2] == [
        "script of node a is read as tool_command",
        "model of node b, and 1 more, is read as llm_model",
    ]
    assert "unknown_attribute" not in {found.rule for found in validate(graph)}


def test_where_both_names_are_there_the_specifications_holds() -> None:
    graph = apply_transforms(parse_dot("digraph { a [model=other, llm_model=own] b [prompt=p, llm_prompt=p] }"))
    assert graph.nodes["a"].llm_model == "own"
    warnings = [found for found in graph.diagnostics if found.severity is Severity.WARNING]
    assert [found.message for found in warnings] == ["llm_model holds, and model is ignored"]


def test_a_stylesheet_that_cannot_be_read_is_left_to_lint() -> None:
    graph = apply_transforms(parse_dot('digraph { model_stylesheet="* {" a }'))
    assert "stylesheet_syntax" in {found.rule for found in validate(graph)}
