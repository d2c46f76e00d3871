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
