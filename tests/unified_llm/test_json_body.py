"""JSON out and in, through the fast encoder and decoder, and through the slow ones where those give up."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.json_body import encode_json, parse_json, read_json
from unified_llm.spec.errors import ConfigurationError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(st.dictionaries(st.text(), values))
def test_what_is_written_is_read_as_it_was(body):
    content = encode_json(body)
    assert json.loads(content) == body
    assert parse_json(content) == body


@given(values, st.booleans())
def test_reading_agrees_with_the_standard_library(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(text) == json.loads(text)


@given(st.text('[]{}",:0123456789.eE+-\\ \n\ttrufalsn'))
def test_reading_refuses_what_the_standard_library_refuses(text):
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            read_json(text)
    else:
        assert read_json(text) == expected


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    assert json.loads(encode_json({"a": "x\ud83dy", "b": "\ud83d\ude42"})) == {"a": "x\ufffdy", "b": "🙂"}
    assert read_json('{"a": "x\\ud83dy", "b": "\\ud83d\\ude42"}') == {"a": "x\ufffdy", "b": "🙂"}


def test_levels_by_the_hundred_are_written_and_read():
    text = '{"a":' * 300 + "1" + "}" * 300
    assert encode_json(read_json(text)).decode() == text
    assert parse_json(b"[" * 100_000) is None


def test_dates_and_sets_are_written():
    body = {"at": datetime(2026, 1, 2, tzinfo=UTC), "tags": {"one"}, 1: ("x",)}
    assert json.loads(encode_json(body)) == {"at": "2026-01-02T00:00:00Z", "tags": ["one"], "1": ["x"]}


def test_a_word_that_looks_like_a_number_is_a_word():
    assert json.loads(encode_json({"a": "NaN", "b": "Infinity"})) == {"a": "NaN", "b": "Infinity"}


def circle() -> list:
    value: list = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [b"\xff", float("nan"), float("inf"), -float("inf"), object(), circle()])
def test_what_json_cannot_carry_is_a_configuration_error(value):
    with pytest.raises(ConfigurationError, match="JSON"):
        encode_json({"value": value})
