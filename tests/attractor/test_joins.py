"""Where the branches of a fan-out meet (section 4.8)."""

import pytest
from attractor.dot import parse_dot
from attractor.engine.joins import Joins


def find_join(body: str, fan_out: str = "fork") -> str:
    shapes = "start [shape=Mdiamond]; exit [shape=Msquare]; node [shape=component]; fork; fork2; fork3"
    joins = "node [shape=tripleoctagon]; join; join2; join3"
    return Joins(parse_dot(f"digraph g {{ {shapes}; {joins}; node [shape=box]; {body} }}")).find(fan_out)


@pytest.mark.parametrize(
    ("body", "join"),
    [
        ("fork -> a -> join; fork -> b -> join -> exit", "join"),
        ("fork -> a -> a2 -> a3 -> join; fork -> b -> join -> exit", "join"),
        ("fork -> a -> merge; fork -> b -> merge -> more -> exit", "merge"),
        ("fork -> a -> exit; fork -> b -> exit", "exit"),
        ("fork -> a -> b; fork -> b -> exit", "b"),
        ("fork -> a -> b -> join; fork -> b -> join -> exit", "join"),
        ("fork -> a -> merge; fork -> b -> merge -> c -> join -> exit", "join"),
        ("fork -> a -> x; fork -> b -> y", ""),
        ("fork -> join -> exit", "join"),
        ("fork -> worker -> check -> join -> exit", "join"),
        ('start -> plan -> fork; fork -> a -> join; fork -> b -> join; a -> plan [condition="outcome=fail"]', "join"),
        (
            'fork -> a; fork -> b; a -> abort [condition="outcome=fail"]; b -> abort [condition="outcome=fail"]; '
            "a -> x -> merge -> exit; b -> y -> merge",
            "merge",
        ),
        ('fork -> a -> join; fork -> b -> join; fork -> oops [condition="outcome=fail"]; oops -> exit', "join"),
    ],
)
def test_branches_meet_at_the_nearest_fan_in_or_else_the_nearest_common_node(body: str, join: str) -> None:
    assert find_join(body) == join


def test_nested_fan_outs_have_joins_of_their_own() -> None:
    body = "fork -> a -> fork2; fork2 -> c -> join2; fork2 -> d -> join2 -> join; fork -> b -> join -> exit"
    assert (find_join(body), find_join(body, "fork2")) == ("join", "join2")


def test_nested_fan_outs_may_share_a_join() -> None:
    body = (
        "fork -> fork2; fork2 -> c -> join; fork2 -> d -> join; fork -> fork3; fork3 -> e -> join; fork3 -> f -> join"
    )
    assert [find_join(body, fork) for fork in ("fork", "fork2", "fork3")] == ["join"] * 3


def test_the_fan_in_of_a_later_fan_out_is_not_taken_for_the_join() -> None:
    body = "fork -> a -> merge; fork -> b -> merge -> fork2; fork2 -> c -> join2; fork2 -> d -> join2 -> exit"
    assert find_join(body) == "merge"


def test_many_fan_outs_in_a_row_are_quick() -> None:
    forks = "".join(f"f{i} [shape=component]; f{i} -> a{i} -> f{i + 1}; f{i} -> b{i} -> f{i + 1};" for i in range(200))
    graph = parse_dot(f"digraph g {{ {forks} }}")
    joins = Joins(graph)
    assert [joins.find(f"f{i}") for i in range(200)] == [f"f{i + 1}" for i in range(200)]
