"""Lint (section 7). Tests named dod_11_2 are the items of section 11.2."""

from collections.abc import Iterable

import pytest
from attractor.attributes import EDGE_ATTRIBUTES, GRAPH_ATTRIBUTES, NODE_ATTRIBUTES
from attractor.diagnostics import Diagnostic, Severity, to_json
from attractor.dot import parse_dot
from attractor.errors import ValidationError
from attractor.graph import Edge, Graph, Node
from attractor.transforms import apply_transforms
from attractor.validation import LintRule, validate, validate_or_raise

ENDS = "start [shape=Mdiamond] exit [shape=Msquare]\n"


def lint(body: str, ends: str = ENDS, **options: Iterable[str]) -> list[Diagnostic]:
    graph = apply_transforms(parse_dot(f"digraph {{ {ends}{body} }}", "flow.dot"))
    return validate(graph, handler_types=options.get("handler_types"))  # type: ignore[arg-type]


def found(rule: str, body: str, ends: str = ENDS) -> list[Diagnostic]:
    return [diagnostic for diagnostic in lint(body, ends) if diagnostic.rule == rule]


def only(rule: str, body: str, ends: str = ENDS) -> Diagnostic:
    (diagnostic,) = found(rule, body, ends)
    return diagnostic


def test_a_clean_pipeline_has_no_findings() -> None:
    body = """
        goal="g"
        plan [prompt="Plan $goal"]
        start -> plan -> exit
        plan -> exit2 [condition="outcome=fail"]
        exit2 [shape=box, label="Tell", retry_target=plan] exit2 -> exit
    """.replace("exit2", "tell")
    assert [str(diagnostic) for diagnostic in lint(body)] == []


def test_dod_11_2_one_start() -> None:
    missing = only("start_node", "a -> exit", "exit [shape=Msquare]")
    assert (missing.severity, missing.fix) == (Severity.ERROR, "add: start [shape=Mdiamond]")
    second = only("start_node", "s2 [shape=Mdiamond] start -> exit s2 -> exit")
    assert (second.node_id, second.severity) == ("s2", Severity.ERROR)
    assert not found("start_node", "Start -> exit", "exit [shape=Msquare]")
    assert not found("start_node", "s -> exit s [type=start]", "exit [shape=Msquare]")


def test_dod_11_2_one_exit() -> None:
    assert only("terminal_node", "start -> a", "start [shape=Mdiamond]").severity is Severity.ERROR
    assert only("terminal_node", "e2 [shape=Msquare] start -> exit start -> e2").node_id == "e2"
    for name in ("exit", "Exit", "end", "done"):
        by_name = only("terminal_node", f"start -> {name}", "start [shape=Mdiamond]")
        assert (by_name.node_id, by_name.severity) == (name, Severity.INFO)


def test_dod_11_2_start_has_no_incoming_edges() -> None:
    diagnostic = only("start_no_incoming", "start -> a -> exit a -> start")
    assert (diagnostic.severity, diagnostic.edge) == (Severity.ERROR, ("a", "start"))


def test_dod_11_2_exit_has_no_outgoing_edges() -> None:
    diagnostic = only("exit_no_outgoing", "start -> exit exit -> a")
    assert (diagnostic.severity, diagnostic.edge) == (Severity.ERROR, ("exit", "a"))


def test_dod_11_2_all_nodes_are_reachable() -> None:
    diagnostic = only("reachability", "start -> exit orphan [label=x] orphan -> exit")
    assert (diagnostic.severity, diagnostic.node_id) == (Severity.ERROR, "orphan")
    assert not found("reachability", "start -> a -> exit a [retry_target=fix] fix [label=x] fix -> a")
    assert not found("reachability", "fallback_retry_target=fix start -> a -> exit fix [label=x] fix -> a")


def test_dod_11_2_edges_name_nodes() -> None:
    nodes = {"start": Node("start", {"shape": "Mdiamond"}), "exit": Node("exit", {"shape": "Msquare"})}
    graph = Graph("g", nodes, (Edge("start", "exti"), Edge("start", "exit")))
    (diagnostic,) = [item for item in validate(graph) if item.rule == "edge_target_exists"]
    assert (diagnostic.severity, diagnostic.edge) == (Severity.ERROR, ("start", "exti"))
    assert diagnostic.fix == "did you mean exit?"
    assert str(diagnostic).startswith("<graph>: error: there is no node exti [edge_target_exists]")


def test_dod_11_2_llm_nodes_have_a_prompt() -> None:
    assert only("prompt_on_llm_nodes", "start -> a -> exit").severity is Severity.WARNING
    assert not found(
        "prompt_on_llm_nodes", 'a [label="Do it"] b [prompt="p"] c [shape=diamond] start -> a -> b -> c -> exit'
    )


def test_dod_11_2_conditions_parse() -> None:
    diagnostic = only("condition_syntax", 'start -> exit [condition="outcome="]')
    assert (diagnostic.severity, diagnostic.edge) == (Severity.ERROR, ("start", "exit"))
    assert "column 9" in diagnostic.message


def test_dod_11_2_validate_or_raise() -> None:
    graph = parse_dot("digraph { a -> b }")
    with pytest.raises(ValidationError, match="no start node") as caught:
        validate_or_raise(graph)
    assert {item.severity for item in caught.value.diagnostics} > {Severity.ERROR}
    fine = parse_dot(f"digraph {{ {ENDS} a [label=x] start -> a -> exit }}")
    assert [item.rule for item in validate_or_raise(fine)] == ["failure_route"]


def test_dod_11_2_findings_say_rule_severity_place_and_message() -> None:
    diagnostic = only("start_no_incoming", "start -> a -> exit\na -> start")
    assert to_json(diagnostic) == {
        "rule": "start_no_incoming",
        "severity": "error",
        "message": "an edge leads from a back to the start",
        "file": "flow.dot",
        "line": 3,
        "column": 1,
        "node": None,
        "edge": ["a", "start"],
        "fix": "lead it to the node behind the start",
    }
    assert str(diagnostic) == (
        "flow.dot:3:1: error: an edge leads from a back to the start [start_no_incoming]\n"
        "  fix: lead it to the node behind the start"
    )


def test_rules_of_the_users_own() -> None:
    class NoToolNodes:
        name = "no_tools"

        def apply(self, graph: Graph) -> list[Diagnostic]:
            return [
                Diagnostic(rule=self.name, severity=Severity.ERROR, message="no tools here", node_id=node.id)
                for node in graph.nodes.values()
                if node.shape == "parallelogram"
            ]

    rule: LintRule = NoToolNodes()
    graph = parse_dot(f"digraph {{ {ENDS} t [shape=parallelogram, tool_command=make] start -> t -> exit }}")
    assert validate(graph, [rule])[-1].rule == "no_tools"
    with pytest.raises(ValidationError, match="no tools here"):
        validate_or_raise(graph, [rule])


def test_findings_of_the_parser_are_reported() -> None:
    assert found("unknown_escape", r'a [prompt="\d"] start -> a -> exit')


def test_dead_ends() -> None:
    assert only("dead_end", "start -> a start -> exit").node_id == "a"
    assert not found("dead_end", "start -> a -> exit a [retry_target=b] b -> a")
    assert not found("dead_end", "f [shape=component] j [shape=tripleoctagon] start -> f -> a f -> b -> j -> exit")


def test_ways_that_never_reach_the_exit() -> None:
    diagnostic = only("path_to_exit", "start -> a -> b -> a start -> exit")
    assert "from a and b to the exit" in diagnostic.message


def test_loops_that_nothing_bounds() -> None:
    body = 'start -> a -> b -> exit b -> a [condition="outcome=fail"]'
    assert "loop through a and b" in only("unbounded_loop", body).message
    assert not found("unbounded_loop", f"max_node_visits=5 {body}")
    assert not found("unbounded_loop", f"a [max_visits=5] {body}")
    assert not found("unbounded_loop", f"b [shape=hexagon] {body}")
    assert found("unbounded_loop", "start -> a -> exit a -> a")


def test_fan_outs_and_fan_ins() -> None:
    assert "never meet" in only("fan_out_join", "f [shape=component] start -> f -> a f -> b start -> exit").message
    assert not found("fan_out_join", "f [shape=component] start -> f -> a -> c f -> b -> c -> exit")
    fan = "start -> f -> a -> c f -> b -> c -> exit"
    assert "has no effect" in only("fan_out_quorum", f"f [shape=component, join_count=2] {fan}").message
    needs = only("fan_out_quorum", f"f [shape=component, join_policy=quorum, join_count=3] {fan}")
    assert needs.message == "f needs 3 successful branches, but has 2, and will fail"
    assert not found("fan_out_quorum", f"f [shape=component, join_policy=quorum, join_count=2] {fan}")
    back = only("branch_escape", f'f [shape=component] {fan} a -> f [condition="outcome=fail"]')
    assert (back.edge, "leads back to it" in back.message) == (("a", "f"), True)
    assert not found("branch_escape", f'f [shape=component] {fan} c -> f [condition="outcome=fail"]')
    assert "loop_restart" in only("branch_escape", f"f [shape=component] {fan} b -> a [loop_restart=true]").message
    assert only("fan_in_alone", "j [shape=tripleoctagon] start -> j -> exit").node_id == "j"


def test_slips_in_ids() -> None:
    diagnostic = only("undeclared_node", "implement [label=x] start -> implement -> implment -> exit")
    assert (diagnostic.node_id, diagnostic.fix) == ("implment", "did you mean implement?")


@pytest.mark.parametrize(
    ("condition", "fix"),
    [
        ("outcome=SUCCESS", "outcome=success"),
        ("outcome!=sucess", "outcome!=success"),
        ("pass", "outcome=success"),
        ("fail", "outcome=fail"),
    ],
)
def test_conditions_that_hardly_mean_what_they_say(condition: str, fix: str) -> None:
    diagnostic = only(
        "condition_words", f'start -> a -> exit [condition="{condition}"]'.replace("start -> a ->", "start -> a a ->")
    )
    assert fix in diagnostic.fix


@pytest.mark.parametrize("condition", ["outcome=needs_work", "outcome=failed", "context.pass", "verdict=fail"])
def test_conditions_that_are_fine(condition: str) -> None:
    assert not found("condition_words", f'start -> a a -> exit [condition="{condition}"]')


@pytest.mark.parametrize(
    ("edges", "target"),
    [
        ('a -> b [condition="outcome=success && outcome=fail"] a -> exit', "b"),
        (
            'a -> b [condition="outcome=success"] a -> c [condition="outcome=success && x=1"] c -> exit a -> exit',
            "c",
        ),
        ('a -> c [condition="context.x=1"] a -> b [condition="context.x = 1"] c -> exit a -> exit', "c"),
        ('a -> b [condition="outcome=success"] a -> c [condition="outcome!=success"] a -> exit c -> exit', "exit"),
        ("a [shape=parallelogram, tool_command=x] a -> b [weight=2] a -> exit", "exit"),
    ],
)
def test_edges_that_can_never_be_taken(edges: str, target: str) -> None:
    diagnostic = only("edge_never_taken", f"start -> a b -> exit {edges}")
    assert diagnostic.edge == ("a", target)


@pytest.mark.parametrize(
    "edges",
    [
        'a -> b [condition="outcome=success"] a -> exit [condition="outcome=fail"]',
        'a -> b [condition="outcome=success && context.x"] a -> exit [condition="outcome=success"]',
        'a -> b [condition="outcome=ready"] a -> exit [condition="outcome=fail"]',
        "a -> b [label=Yes] a -> exit [label=No]",
        "a [shape=hexagon] a -> b a -> exit",
    ],
)
def test_edges_that_may_be_taken(edges: str) -> None:
    assert not found("edge_never_taken", f"start -> a b -> exit {edges}")


def test_where_a_failure_ends_the_run() -> None:
    assert only("failure_route", "start -> a -> b -> exit").message.startswith("a failure of a and b ends the run")
    trap = only(
        "failure_route", 'start -> a a -> b [condition="outcome=success"] a -> exit b -> exit b [retry_target=a]'
    )
    assert (trap.severity, trap.node_id) == (Severity.WARNING, "a")
    assert "unconditional edge to exit is not followed" in trap.message
    stuck = only("failure_route", 'd [shape=diamond] start -> a -> d d -> exit [condition="outcome=success"]')
    assert (stuck.severity, stuck.node_id) == (Severity.WARNING, "d")


@pytest.mark.parametrize(
    "body",
    [
        'start -> a a -> exit [condition="outcome=success"] a -> a [condition="outcome=fail"]',
        'start -> a -> exit a -> a [condition="context.x=1"]',
        "start -> a -> exit a [retry_target=a]",
        'd [shape=diamond] start -> a -> d d -> exit [condition="outcome=success"] d -> a',
        "h [shape=hexagon] start -> h -> exit",
    ],
)
def test_failures_that_have_a_way_on(body: str) -> None:
    assert not found("failure_route", body)


def test_a_failure_that_slips_through_to_success() -> None:
    diagnostic = only("failure_reaches_exit", 'start -> a a -> exit [condition="outcome!=success"] a -> b -> exit')
    assert (diagnostic.edge, diagnostic.severity) == (("a", "exit"), Severity.WARNING)
    body = 'd [shape=diamond] start -> a -> d d -> a [condition="outcome=retry"] d -> exit'
    assert only("failure_reaches_exit", body).edge == ("d", "exit")
    assert not found("failure_reaches_exit", f"a [goal_gate=true] {body}")
    assert not found(
        "failure_reaches_exit", 'd [shape=diamond] start -> a -> d d -> a [condition="outcome!=success"] d -> exit'
    )


def test_a_success_that_no_edge_is_for() -> None:
    found_one = only("success_route", 'start -> a a -> b [condition="outcome=fail"] b -> exit')
    assert (found_one.node_id, found_one.severity) == ("a", Severity.WARNING)
    assert only("success_route", 'd [shape=diamond] start -> a -> d d -> b [condition="outcome=fail"] b -> exit')


@pytest.mark.parametrize(
    "body",
    [
        'start -> a a -> b [condition="outcome=fail"] a -> exit b -> exit',
        'start -> a a -> b [condition="outcome=fail"] a -> exit [condition="context.x=1"] b -> exit',
        'start -> a a -> b [condition="outcome=fail"] a -> exit [condition="outcome=approve"] b -> exit',
        'd [shape=diamond] start -> a a -> d [condition="outcome=fail"] a -> exit d -> exit [condition="outcome=fail"]',
        'f [shape=component] start -> f f -> a [condition="outcome=fail"] f -> a [condition="outcome=fail"] a -> exit',
        'a [label="unread"] start -> a a -> exit [condition="outcome=="]',
    ],
)
def test_a_success_that_has_a_way_on(body: str) -> None:
    assert not found("success_route", body)


def test_a_start_never_fails() -> None:
    body = 'start -> a [condition="outcome=fail"] start -> b a -> exit b -> exit'
    assert only("edge_never_taken", body).edge == ("start", "a")


def test_retry_targets_exist() -> None:
    on_node = only("retry_target_exists", "start -> build -> exit build [label=x, retry_target=biuld]")
    assert (on_node.severity, on_node.fix, on_node.node_id) == (Severity.WARNING, "did you mean build?", "build")
    assert only("retry_target_exists", "fallback_retry_target=nowhere start -> exit").node_id == ""


def test_goal_gates() -> None:
    gate = "start -> a -> exit a [label=A, goal_gate=true"
    assert only("goal_gate_has_retry", f"{gate}]").node_id == "a"
    assert not found("goal_gate_has_retry", f"{gate}, retry_target=a]")
    assert not found("goal_gate_has_retry", f"retry_target=a {gate}]")
    assert only("goal_gate_retry", f"{gate}, retry_target=b] b [label=b] b -> exit").node_id == "a"
    assert found("goal_gate_retry", f"{gate}, retry_target=b, fallback_retry_target=a] b [label=b] b -> exit")
    assert not found("goal_gate_retry", f"{gate}, retry_target=b] b [label=b] b -> a")


def test_goal_gates_that_a_path_avoids() -> None:
    assert only("goal_gate_bypass", "g [goal_gate=true] start -> a -> g -> exit a -> b -> exit").node_id == "g"
    assert not found("goal_gate_bypass", "g [goal_gate=true] start -> a -> g -> exit a -> b -> g")
    assert not found(
        "goal_gate_bypass", "g [goal_gate=true] f [shape=component] start -> f -> g -> c f -> b -> c -> exit"
    )


def test_stylesheets() -> None:
    diagnostic = only("stylesheet_syntax", 'model_stylesheet="* { llm_model }" start -> exit')
    assert diagnostic.severity is Severity.ERROR
    assert diagnostic.span
    body = 'model_stylesheet="* { llm_modle: x } .none { llm_model: y }" start -> exit'
    assert only("stylesheet_property", body).fix == "did you mean llm_model?"
    assert ".none" in only("stylesheet_unused", body).message


def test_types_and_shapes() -> None:
    diagnostic = only("type_known", "start -> a -> b -> exit a [type=wait_human, shape=hexagon] b [type=wait_human]")
    assert (diagnostic.severity, diagnostic.fix) == (Severity.WARNING, "did you mean wait.human?")
    assert "a and b will run as wait.human" in diagnostic.message
    assert "run as codergen" in only("type_known", "start -> a -> exit a [shape=tab]").message
    known = lint("start -> a -> exit a [type=mine, setting=1]", handler_types={"start", "exit", "codergen", "mine"})
    assert [item.rule for item in known] == ["failure_route"]


def test_fidelity() -> None:
    body = "default_fidelity=ful start -> a -> exit [fidelity=none] a [fidelity=summary:hi]"
    assert [item.fix for item in found("fidelity_valid", body)][:2] == [
        "did you mean full?",
        "did you mean summary:high?",
    ]
    assert len(found("fidelity_valid", body)) == 4
    assert not found("fidelity_valid", "a [fidelity=summary:low] start -> a -> exit")


@pytest.mark.parametrize(
    ("attribute", "wanted"),
    [
        ("max_retries=many", "a whole number"),
        ("max_retries=-1", "a whole number"),
        ("max_retries=1.5", "a whole number"),
        ("goal_gate=maybe", "true or false"),
        ("timeout=soon", "a duration"),
        ("timeout=-5s", "a duration"),
        ("reasoning_effort=hard", "one of none, minimal, low"),
        ("join_policy=any", "one of wait_all"),
    ],
)
def test_values_that_cannot_be_read(attribute: str, wanted: str) -> None:
    diagnostic = only("attribute_value", f"start -> a -> exit a [label=A, {attribute}]")
    assert (diagnostic.severity, diagnostic.node_id) == (Severity.WARNING, "a")
    assert wanted in diagnostic.message


def test_values_in_quotes_are_fine() -> None:
    body = (
        'a [max_retries="3", goal_gate="true", timeout="15m", reasoning_effort="low", max_visits=""] start -> a -> exit'
    )
    assert not found("attribute_value", body)


def test_durations_without_a_unit() -> None:
    diagnostic = only("duration_unit", 'a [timeout="900"] b [timeout=60] c [timeout=60s] start -> a -> b -> c -> exit')
    assert diagnostic.message == "timeout of node a, and 1 more has no unit; 900 is read as 900 seconds"
    assert diagnostic.fix == 'write timeout="900s"'


def test_unknown_attributes() -> None:
    diagnostic = only("unknown_attribute", "start -> a -> b -> exit a [promt=x] b [promt=y, style=filled, _note=z]")
    assert (diagnostic.severity, diagnostic.fix) == (Severity.WARNING, "did you mean prompt?")
    assert "node a, and 1 more" in diagnostic.message
    assert only("unknown_attribute", "start -> a [goal=x] a -> exit").fix == "it belongs to the graph"
    assert only("unknown_attribute", "start -> a -> exit a [zzz=1]").fix


def test_variables_that_nothing_replaces() -> None:
    diagnostic = only(
        "unknown_variable", 'goal=g start -> a -> b -> exit a [prompt="$goal $task_file"] b [prompt="${task_file}"]'
    )
    assert "$task_file in the prompt of a, and 1 more," in diagnostic.message
    # Also in a graph that no transform has seen.
    source = 'digraph g { goal=x; start -> a -> exit a [prompt="Do $goal, then $goal."] }'
    assert "unknown_variable" not in {each.rule for each in validate(parse_dot(source))}
    assert only("unknown_variable", 'start -> a -> exit a [prompt="${goal}"]').fix == "did you mean $goal?"
    assert not found("unknown_variable", 'start -> a -> exit a [prompt="costs $5, see $(pwd)"]')


def test_tools_without_a_command() -> None:
    assert only("tool_command", "start -> a -> exit a [shape=parallelogram]").severity is Severity.WARNING
    assert not found("tool_command", 'start -> a -> exit a [shape=parallelogram, script="make"]')


def test_the_specifications_attributes_are_known() -> None:
    assert GRAPH_ATTRIBUTES.keys() >= {"goal", "label", "model_stylesheet", "default_max_retries", "default_max_retry"}
    assert GRAPH_ATTRIBUTES.keys() >= {"retry_target", "fallback_retry_target", "default_fidelity", "tool_hooks.pre"}
    assert NODE_ATTRIBUTES.keys() >= {"auto_status", "allow_partial", "class", "human.default_choice", "join_policy"}
    assert EDGE_ATTRIBUTES.keys() == {"label", "condition", "weight", "fidelity", "thread_id", "loop_restart"}


def test_large_graphs_are_linted_in_reasonable_time() -> None:
    body = "\n".join(
        f"n{i} [label=x, shape={'component' if i % 7 == 0 else 'box'}, goal_gate={'true' if i % 5 == 0 else 'false'}]\n"
        f'n{i} -> n{i + 1} n{i} -> n{i * 7 % 5000} [condition="outcome=fail && context.x={i}"]'
        for i in range(5000)
    )
    findings = lint(f"start -> n0 n5000 -> exit {body}")
    assert not [item for item in findings if item.severity is Severity.ERROR]
