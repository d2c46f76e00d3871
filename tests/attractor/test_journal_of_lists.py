"""The journal writes what a list of the context got, and not each time all that it has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attractor.errors import CheckpointError
from attractor.outcome import Outcome
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import CheckpointStore, load_checkpoint, read_steps
from attractor.state.json_values import encode_json
from attractor.state.step import Entry, Step
from hypothesis import given, settings
from hypothesis import strategies as st


def _run_lists(folder: Path, values: Sequence[Any]) -> Checkpoint:
    """Let a value of the context be these, one by one; what the journal holds then."""
    folder.mkdir()
    store = CheckpointStore(folder, Checkpoint(run_id="r", next_node="a"))
    for value in values:
        step = Step(node_id="a", outcome=Outcome.success(), next_node="a")
        store.append(Entry(step, 1.0, {"value": value, "other": 1}))
    store.close()
    (folder / "checkpoint.json").unlink()
    return load_checkpoint(folder)


def test_list_that_grows_is_not_written_again(tmp_path: Path) -> None:
    items = [{"number": number, "text": "x" * 100} for number in range(300)]
    loaded = _run_lists(tmp_path / "run", [items[:count] for count in range(301)])
    assert loaded.context_values == {"value": items, "other": 1}
    assert (tmp_path / "run" / "journal.jsonl").stat().st_size < 150_000
    # A resumed run goes on in the same way.
    store = CheckpointStore(tmp_path / "run", loaded)
    step = Step(node_id="a", outcome=Outcome.success(), next_node="a")
    store.append(Entry(step, 1.0, {"value": [*items, "last"]}))
    store.close()
    assert (tmp_path / "run" / "journal.jsonl").stat().st_size < 150_000
    (tmp_path / "run" / "checkpoint.json").unlink()
    assert load_checkpoint(tmp_path / "run").context_values["value"] == [*items, "last"]
    assert [len(state.context_values["value"]) for _, state in read_steps(tmp_path / "run")] == [*range(302)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "0", "1", "end"]), st.sampled_from("ab"), st.integers(0, 3), st.booleans()),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=200)
def test_lists_of_branches_come_back_however_they_grow(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int, bool]]
) -> None:
    """Of branches that are gone through again, and whose lists begin as those of the run."""
    folder = tmp_path_factory.mktemp("run") / "run"
    folder.mkdir()
    checkpoint = Checkpoint(run_id="r", next_node="fork")
    store = CheckpointStore(folder, checkpoint)
    for where, key, item, fresh in steps:
        if where == "end":
            store.append(Entry(Step(node_id="join", outcome=Outcome.success(), next_node="fork"), 1.0, {}))
            continue
        branch = (("fork", where),) if where else ()
        place = checkpoint.branches.get(where) if checkpoint.fan_out == "fork" else None
        own = (place.context_values if place else {}) if where else checkpoint.context_values
        before = own.get(key, checkpoint.context_values.get(key, []))
        value = [item] if fresh else [*before, item]
        node = f"in{where}" if where else "fork"
        store.append(
            Entry(Step(node_id=node, outcome=Outcome.success(), next_node=node), 1.0, {key: value}, (), branch)
        )
    store.close()
    (folder / "checkpoint.json").unlink()
    loaded = load_checkpoint(folder)
    assert loaded.context_values == checkpoint.context_values
    assert {number: branch.context_values for number, branch in loaded.branches.items()} == {
        number: branch.context_values for number, branch in checkpoint.branches.items()
    }


def test_list_that_grows_in_a_branch_is_not_written_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fork"))
    items = ["x" * 100] * 300
    for count in range(301):
        for number in "01":
            step = Step(node_id="in", outcome=Outcome.success(), next_node="in")
            store.append(Entry(step, 1.0, {"value": items[:count]}, (), (("fork", number),)))
    store.close()
    (tmp_path / "checkpoint.json").unlink()
    assert load_checkpoint(tmp_path).branches["1"].context_values == {"value": items}
    assert (tmp_path / "journal.jsonl").stat().st_size < 200_000


def test_an_inner_fan_out_that_is_come_to_again_begins_with_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, Checkpoint(run_id="r", next_node="fork"))
    outer = (("fork", "0"),)
    inner = (*outer, ("inner", "0"))
    for node, branch, value in (("work", inner, [1]), ("meet", outer, [1]), ("work", inner, [1, 2])):
        step = Step(node_id=node, outcome=Outcome.success(), next_node="inner")
        store.append(Entry(step, 1.0, {"value": value}, (), branch))
    store.close()
    (tmp_path / "checkpoint.json").unlink()
    within = load_checkpoint(tmp_path).branches["0"]
    assert (within.context_values, within.branches["0"].context_values) == ({"value": [1]}, {"value": [1, 2]})


def test_journal_without_what_its_items_were_appended_to_is_damaged(tmp_path: Path) -> None:
    _run_lists(tmp_path / "run", [[1], [1, 2]])
    journal = tmp_path / "run" / "journal.jsonl"
    assert '"appended":{"value":[2]}' in journal.read_text()
    journal.write_text(journal.read_text().replace('"context":{"value":[1],"other":1}', '"context":{}'))
    with pytest.raises(CheckpointError, match="line 3 is damaged"):
        load_checkpoint(tmp_path / "run")


_ITEM = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.just(1.0) | st.sampled_from(["", "]", ",", '"', "[", "é"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(_ITEM | st.lists(_ITEM, max_size=5), max_size=6), st.lists(_ITEM, max_size=4))
@settings(deadline=None, max_examples=150)
def test_values_come_back_however_they_change(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], more: list[Any]
) -> None:
    grown = [value for each in values for value in ([each, [*each, *more]] if isinstance(each, list) else [each])]
    loaded = _run_lists(tmp_path_factory.mktemp("run") / "run", grown)
    # As text, since numbers and booleans may be equal without being the same.
    assert encode_json(loaded.context_values.get("value")) == encode_json(grown[-1] if grown else None)
