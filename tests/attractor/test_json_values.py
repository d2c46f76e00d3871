"""JSON as the journal, checkpoint.json and the event log have it."""

import json
import math
from typing import Any

import pytest
from attractor.outcome import StageStatus
from attractor.state.json_values import encode_json
from hypothesis import given
from hypothesis import strategies as st

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


@given(VALUES)
def test_json_is_compact_and_reads_back_as_what_it_was(value: Any) -> None:
    text = encode_json(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(text) == value


def test_tuples_and_enums_of_text_are_written_as_what_they_stand_for() -> None:
    assert encode_json((StageStatus.FAIL, {StageStatus.RETRY: 1})) == '["fail",{"retry":1}]'


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": {"b": -math.inf}}])
def test_what_json_has_no_number_for_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_json(value)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        encode_json({"a": object()})
