"""Reducers, and how a state class names them."""

from typing import Annotated, Any, NotRequired

import pytest
from attractor.prebuilt import State, add, append, last, merge, union
from attractor.prebuilt.channels import Schema
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
ITEMS = st.lists(SCALARS, max_size=6)
DICTS = st.dictionaries(st.text(max_size=3), SCALARS, max_size=5)


@pytest.mark.parametrize(
    ("reducer", "old", "new", "value"),
    [
        (last, "a", "b", "b"),
        (append, None, "a", ["a"]),
        (append, ["a"], ["b", "c"], ["a", "b", "c"]),
        (append, ["a"], {"k": 1}, ["a", {"k": 1}]),
        (append, [], [["nested"]], [["nested"]]),
        (add, None, 3, 3),
        (add, 4, 3, 7),
        (add, "a", "b", "ab"),
        (add, None, "b", "b"),
        (add, None, [1], [1]),
        (append, ["a"], [["b"]], ["a", ["b"]]),
        (merge, None, {"a": 1}, {"a": 1}),
        (merge, {"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (union, None, ["a", "a", "b"], ["a", "b"]),
        (union, ["b"], "a", ["b", "a"]),
        (union, [{"k": 1}], [{"k": 1}, 2], [{"k": 1}, 2]),
    ],
)
def test_reducers(reducer: Any, old: Any, new: Any, value: Any) -> None:
    assert reducer(old, new) == value


@given(ITEMS, ITEMS)
def test_append_keeps_every_item_in_order_and_leaves_the_old_list_alone(old: list[Any], new: list[Any]) -> None:
    before = list(old)
    assert append(old, new) == before + new
    assert old == before


@given(ITEMS, ITEMS, ITEMS)
def test_union_has_each_item_once_and_is_associative(a: list[Any], b: list[Any], c: list[Any]) -> None:
    both = union(a, b)
    assert all(both.index(item) == place for place, item in enumerate(both) if place >= len(a))
    assert all(item in both for item in a + b)
    assert union(union(a, b), c) == union(a, [*b, *c])
    assert union(union(a, b), b) == union(a, b)


@given(DICTS, DICTS, DICTS)
def test_merge_is_associative_and_later_entries_win(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert all(merge(a, b)[key] == value for key, value in b.items())


class Everything(State):
    plain: str
    listed: Annotated[list[int], append]
    counted: Annotated[int, "a note", add]
    joined: Annotated[str, lambda old, new: f"{old}, {new}"]
    picked: Annotated[list[int], lambda old, new: [*old, new] if new > 0 else old]
    absent: NotRequired[Annotated[list[int], append]]


def test_schema_reads_channels_and_reducers() -> None:
    schema = Schema.of_state(Everything)
    assert list(schema.channels) == ["plain", "listed", "counted", "joined", "picked", "absent"]
    reducers = [schema.channels[name].reducer for name in ("plain", "listed", "counted", "absent")]
    assert reducers == [last, append, add, append]


def test_states_inherit_channels() -> None:
    class More(Everything):
        extra: int

    assert list(Schema.of_state(More).channels)[-2:] == ["absent", "extra"]


def test_custom_reducer_begins_with_an_empty_container_or_with_the_first_value() -> None:
    schema = Schema.of_state(Everything)
    assert schema.fold({}, {"picked": 3, "joined": "a"}, "test") == {"picked": [3], "joined": "a"}
    assert schema.fold({"joined": "a", "picked": [1]}, {"joined": "b", "picked": -1}, "test") == {
        "joined": "a, b",
        "picked": [1],
    }


def test_a_channel_may_hold_none() -> None:
    assert Schema.of_state(Everything).fold({"plain": "x"}, {"plain": None}, "test") == {"plain": None}


@given(st.lists(st.fixed_dictionaries({}, optional={"listed": ITEMS, "plain": SCALARS, "counted": st.integers()})))
def test_folding_updates_is_folding_each_channel(updates: list[dict[str, Any]]) -> None:
    schema = Schema.of_state(Everything)
    state: dict[str, Any] = {}
    for update in updates:
        state |= schema.fold(state, update, "test")
    listed = [item for update in updates for item in update.get("listed", ())]
    assert state.get("listed", []) == listed
    assert state.get("counted", 0) == sum(update.get("counted", 0) for update in updates)
    plain = [update["plain"] for update in updates if "plain" in update]
    assert state.get("plain") == (plain[-1] if plain else None)
