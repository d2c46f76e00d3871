"""Edge selection and failure routing (sections 3.3, 3.4 and 3.7), as pure functions."""

import pytest
from attractor.dot import parse_dot
from attractor.engine.routing import (
    Route,
    check_goal_gates,
    find_route,
    get_retry_target,
    normalize_label,
    select_edge,
)
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome, StageStatus
from hypothesis import given
from hypothesis import strategies as st

OK = Outcome.success()
FAILED = Outcome.fail("it broke")


def route(body: str, outcome: Outcome = OK, node: str = "a", **values: object) -> Route:
    graph = parse_dot(f"digraph g {{ {body} }}")
    return find_route(graph.nodes[node], outcome, values, graph)


def test_edge_selection_condition_match_wins_over_weight() -> None:
    assert route('a -> heavy [weight=9]; a -> right [condition="outcome=success"]').target == "right"


def test_edge_selection_preferred_label_comes_after_conditions() -> None:
    body = 'a -> one [label="[O] One"]; a -> two [label="Two", weight=5]; a -> three [condition="context.x=1"]'
    outcome = Outcome.success(preferred_label="one", suggested_next_ids=("two",))
    assert route(body, outcome).target == "one"
    assert route(body, outcome, **{"context.x": "1"}).target == "three"


def test_edge_selection_suggested_ids_in_the_order_suggested() -> None:
    outcome = Outcome.success(preferred_label="none of them", suggested_next_ids=("nowhere", "c", "b"))
    assert route("a -> b [weight=3]; a -> c", outcome).target == "c"


def test_edge_selection_weight_breaks_ties_for_unconditional_edges() -> None:
    assert route("a -> b; a -> c [weight=2]; a -> d [weight=1]").target == "c"


def test_edge_selection_lexical_tiebreak_as_final_fallback() -> None:
    assert route("a -> zeta; a -> beta; a -> gamma").target == "beta"
    assert route('a -> z [condition="outcome=success"]; a -> y [condition="outcome!=fail"]').target == "y"


def test_several_conditions_hold_then_the_heaviest_wins() -> None:
    body = 'a -> b [condition="outcome=success"]; a -> c [condition="outcome=success", weight=1]'
    assert route(body).target == "c"


def test_labels_and_suggestions_never_take_a_conditional_edge() -> None:
    body = 'a -> b [label="Go", condition="outcome=fail"]; a -> c'
    assert route(body, Outcome.success(preferred_label="go", suggested_next_ids=("b",))).target == "c"


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("[Y] Yes, deploy", "yes, deploy"),
        ("Y) Yes, deploy", "yes, deploy"),
        ("Y - Yes, deploy", "yes, deploy"),
        ("  Yes, Deploy ", "yes, deploy"),
        ("[Y]", "[y]"),
        ("a-b", "a-b"),
        ("well-done - mostly", "well-done - mostly"),
    ],
)
def test_normalize_label(label: str, plain: str) -> None:
    assert normalize_label(label) == plain


def test_fail_follows_its_edge_before_anything_else() -> None:
    body = 'a [retry_target=t]; t; a -> fix [condition="outcome=fail"]; a -> on [condition="outcome=success"]'
    assert route(body, FAILED).target == "fix"


def test_fail_without_matching_edge_goes_to_the_retry_target() -> None:
    body = 'a [retry_target=fix]; fix; a -> done [condition="outcome=success"]'
    assert route(body, FAILED) == Route("fix")


def test_fail_goes_to_the_retry_target_before_the_fallback() -> None:
    assert route("a [retry_target=fix, fallback_retry_target=back]; fix; back; a -> b", FAILED) == Route("fix")


def test_fail_skips_a_missing_retry_target_for_the_fallback() -> None:
    assert route("a [retry_target=gone, fallback_retry_target=back]; back; a -> b", FAILED) == Route("back")


def test_fail_never_slips_along_an_unconditional_edge() -> None:
    assert route("a -> done", FAILED) == Route(failure_reason="it broke")


def test_fail_enters_a_diamond_and_leaves_it_by_its_else_branch() -> None:
    body = 'd [shape=diamond]; a -> d; a -> b [weight=9]; d -> yes [condition="outcome=success"]; d -> no'
    assert route(body, FAILED).target == "d"
    assert route(body, FAILED, node="d").target == "no"
    assert route(body, OK, node="d").target == "yes"


def test_fail_ignores_preferred_label_and_suggestions() -> None:
    outcome = Outcome.fail("x", preferred_label="go", suggested_next_ids=("b",))
    assert route('a -> b [label="go"]', outcome).failure_reason == "x"


def test_a_word_of_its_own_is_tried_before_every_other_edge() -> None:
    body = """a -> no [condition="outcome=fail", weight=9]; a -> again [condition="outcome=needs_work"];
              a -> yes [condition="outcome=success", weight=9]"""
    fail = Outcome.fail("x", word="needs_work", terminal=True)
    assert route(body, fail).target == "again"
    assert route(body, Outcome.success(word="needs_work")).target == "again"
    assert route(body, Outcome.fail("x", word="other")).target == "no"


def test_partial_success_counts_as_success_unless_the_edges_tell_them_apart() -> None:
    partial = Outcome(status=StageStatus.PARTIAL_SUCCESS)
    plain = 'a -> yes [condition="outcome=success"]; a -> no [condition="outcome!=success"]'
    assert route(plain, partial).target == "yes"
    assert route(plain + '; a -> part [condition="outcome=partial_success", weight=1]', partial).target == "part"


def test_success_that_matches_no_condition_fails_with_a_reason() -> None:
    found = route('a -> b [condition="outcome=fail"]')
    assert not found.target
    assert "'a'" in found.failure_reason
    assert "success" in found.failure_reason


def test_no_outgoing_edge_ends_the_run_well() -> None:
    assert route("a") == Route()


def test_goal_gate_that_did_not_succeed_is_found() -> None:
    graph = parse_dot("digraph g { a [goal_gate=true]; b [goal_gate=true]; c }")
    partial = Outcome(status=StageStatus.PARTIAL_SUCCESS)
    assert check_goal_gates(graph, {"a": OK, "b": partial, "c": FAILED}) is None
    assert check_goal_gates(graph, {"a": OK, "b": FAILED}) is graph.nodes["b"]
    assert check_goal_gates(graph, {"a": OK}) is None, "a gate that was not visited doesn't count"


def test_goal_gate_retry_target_order() -> None:
    text = "digraph g { retry_target=c; fallback_retry_target=d; a [%s]; b; c; d; e }"
    assert [
        get_retry_target((graph := parse_dot(text % attrs)).nodes["a"], graph)
        for attrs in ("retry_target=b, fallback_retry_target=e", "retry_target=nowhere, fallback_retry_target=e", "x=1")
    ] == ["b", "e", "c"]


names = st.sampled_from(["a", "b", "c", "d", "e"])
conditions = st.sampled_from(
    ["", "", "outcome=success", "outcome=fail", "outcome!=success", "context.x=1", "outcome=odd"]
)
edges = st.lists(
    st.builds(
        lambda target, weight, label, condition: Edge(
            "n", target, {"weight": weight, "label": label, "condition": condition}
        ),
        names,
        st.integers(-2, 2),
        st.sampled_from(["", "Yes", "[N] No"]),
        conditions,
    ),
    max_size=6,
)
outcomes = st.builds(
    lambda status, label, ids, word: Outcome(
        status=status, preferred_label=label, suggested_next_ids=tuple(ids), word=word
    ),
    st.sampled_from(StageStatus),
    st.sampled_from(["", "yes", "no"]),
    st.lists(names, max_size=2),
    st.sampled_from(["", "odd"]),
)


@given(edges, outcomes, st.sampled_from([{}, {"x": "1"}]), st.randoms())
def test_selection_is_deterministic_and_keeps_its_promises(
    edges: list[Edge], outcome: Outcome, context: dict[str, str], random: object
) -> None:
    nodes = {id: Node(id, {"shape": "diamond"} if id == "e" else {}) for id in ("n", "a", "b", "c", "d", "e")}
    graph = Graph("g", nodes, tuple(edges))
    chosen = select_edge(nodes["n"], outcome, context, graph)
    assert chosen == select_edge(nodes["n"], outcome, context, graph)
    if chosen is None:
        assert outcome.status is StageStatus.FAIL or all(edge.condition for edge in edges)
        return
    assert chosen in edges
    if not chosen.condition:
        shuffled = list(edges)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        again = select_edge(nodes["n"], outcome, context, Graph("g", nodes, tuple(shuffled)))
        assert again is not None
        assert not again.condition
        if outcome.status is StageStatus.FAIL:
            assert chosen.target == "e"
        if not outcome.preferred_label and not outcome.suggested_next_ids and outcome.status is not StageStatus.FAIL:
            open_edges = [edge for edge in edges if not edge.condition]
            assert (-chosen.weight, chosen.target) == min((-edge.weight, edge.target) for edge in open_edges)
            assert again.target == chosen.target


def test_one_suggested_id_may_stand_alone() -> None:
    outcome = Outcome(status=StageStatus.SUCCESS, suggested_next_ids="exit")  # type: ignore[arg-type]
    assert outcome.suggested_next_ids == ("exit",)
