"""The memory of a person: what a model may propose, in any shape, and what the safeguards let through."""

import copy
import json
import math
from dataclasses import replace

import pytest
from agent_loop.personalization import (
    Basin,
    BasinUpdate,
    Connection,
    Meta,
    NewBasin,
    PersonalizationError,
    PersonalState,
    Update,
    apply_consolidation,
    apply_update,
    build_context,
    compute_entropy,
    compute_trajectory,
    create_initial_state,
    parse_consolidation,
    parse_summary,
    parse_update,
    read_update,
    restore_bounds,
    state_from_record,
    to_basin_id,
)
from agent_loop.personalization.state import MAX_BASINS, clean_text, fold, unique_texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

SEEDS = [
    {"label": "Planning", "description": "thinks before acting", "keywords": ["outline", "order of work"]},
    {"label": "Debugging", "description": "narrows faults down", "keywords": ["bisect"]},
    {"label": "Play", "description": "", "keywords": []},
]
IDS = ["planning", "debugging", "play", "made-up", "", "PLANNING"]

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 0.1, -0.1]),
)
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["straße", "STRASSE", "İstanbul", "ﬁnal", "final", "ΣΑΣ", "σας", "\ud800", "a\nb", "", "x" * 900]),
)
words = st.lists(texts, max_size=25)
ids = st.one_of(st.sampled_from(IDS), texts)
basin_updates = st.builds(
    BasinUpdate, id=ids, weight_delta=numbers, new_keywords=words, remove_keywords=st.lists(texts, max_size=4)
)
updates = st.builds(
    Update,
    basin_updates=st.lists(basin_updates, max_size=8),
    new_connections=st.lists(st.builds(Connection, source=ids, target=ids), max_size=8),
    emerging_patterns=st.none() | st.lists(texts, max_size=12),
    new_basin=st.none() | st.builds(NewBasin, label=texts, description=texts, keywords=words),
    phase_shift=st.booleans(),
)
counts = st.integers(min_value=-(10**30), max_value=10**30)
basins = st.builds(
    Basin,
    id=ids,
    label=texts,
    description=texts,
    weight=numbers,
    keywords=words,
    connections=st.lists(ids, max_size=6),
    trajectory=st.lists(numbers, max_size=40),
    last_active=st.text(max_size=5),
    conversation_count=counts,
    cap_hits=counts,
)
states = st.builds(
    PersonalState,
    basins=st.lists(basins, max_size=8),
    phase=counts,
    entropy=numbers,
    emerging=words,
    update_count=counts,
    meta=st.builds(Meta, total_conversations=counts, dominant_basin=ids),
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
hostile_updates = st.fixed_dictionaries(
    {},
    optional={
        "basin_updates": json_values
        | st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "id": ids | json_values,
                    "weight_delta": json_values,
                    "new_keywords": words | json_values,
                    "remove_keywords": json_values,
                },
            ),
            max_size=5,
        ),
        "new_connections": json_values
        | st.lists(st.fixed_dictionaries({}, optional={"from": ids | json_values, "to": ids | json_values})),
        "emerging_patterns": json_values | words,
        "new_basin": json_values | st.fixed_dictionaries({}, optional={"label": texts, "keywords": json_values}),
        "phase_shift": json_values,
    },
)


def state_of(*labels: str) -> PersonalState:
    return create_initial_state([{"label": label} for label in labels])


def check(state: PersonalState) -> None:
    """Every rule that a state keeps."""
    by_id = {basin.id: basin for basin in state.basins}
    assert len(by_id) == len(state.basins)
    for basin in state.basins:
        assert basin.id
        assert basin.label
        assert 0.05 <= basin.weight <= 1
        assert len(basin.trajectory) <= 20
        assert all(0.05 <= weight <= 1 for weight in basin.trajectory)
        assert len(basin.keywords) <= 10
        assert len({fold(keyword) for keyword in basin.keywords}) == len(basin.keywords)
        assert all(keyword and len(keyword) <= 80 and "\n" not in keyword for keyword in basin.keywords)
        assert basin.id not in basin.connections
        assert len(set(basin.connections)) == len(basin.connections)
        assert all(basin.id in by_id[other].connections for other in basin.connections)
        assert basin.conversation_count >= 0
        assert basin.cap_hits >= 0
    assert len(state.emerging) <= 5
    assert 0 <= state.entropy <= 1
    assert state.phase >= 1
    assert state.update_count >= 0
    assert state.meta.dominant_basin in by_id or not by_id
    # What can be stored, and read again.
    assert state_from_record(json.loads(json.dumps(state.to_record()).encode("utf-8"))) == state
    build_context(state).encode("utf-8")


@settings(max_examples=300, deadline=None)
@given(states, updates | hostile_updates)
def test_rules_hold_for_any_state_and_any_update(state: PersonalState, update: object) -> None:
    before = copy.deepcopy((state, update))
    after = apply_update(state, update, now="2026-12-01T00:00:00+00:00")
    check(after)
    assert repr((state, update)) == repr(before)
    check(apply_update(after, update))


@settings(max_examples=200, deadline=None)
@given(st.lists(basin_updates, max_size=6, unique_by=lambda item: item.id), st.randoms(), updates)
def test_order_of_different_basins_does_not_matter(items: list[BasinUpdate], random: object, rest: Update) -> None:
    state = create_initial_state(SEEDS)
    shuffled = list(items)
    random.shuffle(shuffled)
    first, second = (apply_update(state, replace(rest, basin_updates=order)) for order in (items, shuffled))
    assert first == second


@settings(deadline=None)
@given(states)
def test_mending_a_state_once_is_enough(state: PersonalState) -> None:
    mended = restore_bounds(state)
    assert restore_bounds(mended) == mended


@settings(deadline=None)
@given(states, st.lists(texts, max_size=20), st.lists(texts, max_size=20), ids)
def test_consolidation_keeps_the_rules(state: PersonalState, keywords: list[str], old: list[str], which: str) -> None:
    mended = apply_update(state, Update())
    before = copy.deepcopy(mended)
    check(apply_consolidation(mended, which, keywords, instead_of=old))
    assert mended == before


@settings(deadline=None)
@given(texts)
def test_folding_and_cleaning_twice_is_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert clean_text(clean_text(text, 80), 80) == clean_text(text, 80)
    assert len(unique_texts([text, text.upper().lower(), text], 80)) <= 2


@pytest.mark.parametrize(
    ("delta", "weight"),
    [(5, 0.8), (-5, 0.2), (math.inf, 0.8), (-math.inf, 0.2), (math.nan, 0.5), (10**400, 0.8), (0.1, 0.6), (0, 0.5)],
)
def test_deltas_are_bounded(delta: float, weight: float) -> None:
    after = apply_update(state_of("A"), Update(basin_updates=[BasinUpdate(id="a", weight_delta=delta)]))
    assert after.basins[0].weight == pytest.approx(weight) or (math.isnan(delta) and after.basins[0].weight < 0.5)
    assert after.basins[0].trajectory == [0.5, after.basins[0].weight]


def test_naming_a_basin_often_gives_no_more_than_once() -> None:
    update = Update(basin_updates=[BasinUpdate(id="a", weight_delta=0.3)] * 50)
    after = apply_update(state_of("A"), update)
    assert after.basins[0].weight == pytest.approx(0.8)
    assert after.basins[0].conversation_count == 1
    assert len(after.basins[0].trajectory) == 2


def test_untouched_basins_decay_toward_the_target() -> None:
    state = state_of("A", "B")
    for _ in range(14):
        state = apply_update(state, Update(basin_updates=[BasinUpdate(id="a", weight_delta=-0.3)]))
    assert state.basins[0].weight == 0.05
    assert 0.39 < state.basins[1].weight < 0.41, "half of the way from 0.5 to 0.3"
    assert apply_update(state, Update()).basins[0].weight == pytest.approx(0.0625), "it rises from below, too"


def test_only_a_positive_delta_counts_as_use() -> None:
    state = state_of("A", "B", "C")
    update = Update(basin_updates=[BasinUpdate(id="a", weight_delta=0.1), BasinUpdate(id="b", weight_delta=-0.1)])
    after = apply_update(state, update, now="later")
    assert [basin.conversation_count for basin in after.basins] == [1, 0, 0]
    assert [basin.last_active for basin in after.basins] == ["later", "", ""]
    assert after.meta.total_conversations == after.update_count == 1


def test_keywords_keep_their_first_spelling_and_the_oldest_go() -> None:
    state = apply_update(
        state_of("A"), Update(basin_updates=[BasinUpdate(id="a", new_keywords=["Straße", "STRASSE", " straße "])])
    )
    assert state.basins[0].keywords == ["Straße"]
    more = [f"word {number}" for number in range(5000)]
    full = apply_update(state, Update(basin_updates=[BasinUpdate(id="a", new_keywords=more)]))
    assert full.basins[0].keywords == more[-10:]
    assert full.basins[0].cap_hits == 1
    removed = apply_update(full, Update(basin_updates=[BasinUpdate(id="a", remove_keywords=["WORD 4999"])]))
    assert removed.basins[0].keywords == more[-10:-1]
    assert removed.basins[0].cap_hits == 1


def test_connections_hold_both_ways_and_reach_a_new_basin() -> None:
    update = parse_update(
        '{"new_basin": {"label": "Teaching"}, "new_connections": [{"from": "a", "to": "teaching"}, '
        '{"from": "a", "to": "a"}, {"from": "a", "to": "nobody"}]}'
    )
    after = apply_update(state_of("A", "B"), update)
    assert [basin.connections for basin in after.basins] == [["teaching"], [], ["a"]]
    assert (after.basins[2].weight, after.basins[2].conversation_count) == (0.4, 1)
    assert apply_update(after, update).basins[2].conversation_count == 1, "its id is no longer new"


def test_a_new_basin_needs_room() -> None:
    state = state_of("A")
    for number in range(MAX_BASINS + 10):
        state = apply_update(state, Update(new_basin=NewBasin(label=f"Mode {number}")))
    assert len(state.basins) == MAX_BASINS
    assert state.emerging[0] == f"Mode {MAX_BASINS + 9}"


def test_patterns_are_replaced_by_a_list_and_kept_without_one() -> None:
    state = apply_update(state_of("A"), Update(emerging_patterns=[f"p{number}" for number in range(9)]))
    assert state.emerging == ["p0", "p1", "p2", "p3", "p4"]
    assert apply_update(state, Update()).emerging == state.emerging
    assert apply_update(state, Update(emerging_patterns=[])).emerging == []


def test_a_phase_shift_adds_one() -> None:
    assert apply_update(state_of("A"), Update(phase_shift=True)).phase == 2


def test_seeds_are_checked() -> None:
    state = create_initial_state(SEEDS)
    assert [(basin.id, basin.weight, basin.trajectory) for basin in state.basins] == [
        ("planning", 0.5, [0.5]),
        ("debugging", 0.5, [0.5]),
        ("play", 0.5, [0.5]),
    ]
    assert (state.phase, state.entropy, state.emerging) == (1, 1.0, [])
    with pytest.raises(PersonalizationError, match="basin 1 needs a label"):
        create_initial_state([{"label": "?!"}])
    with pytest.raises(PersonalizationError, match="basin 2 has the id 'play'"):
        create_initial_state([{"label": "Play"}, {"label": "play!"}])
    assert create_initial_state([]).basins == []


@pytest.mark.parametrize(
    ("label", "expected"),
    [("Deep Work", "deep-work"), ("  C++ & Rust!", "c-rust"), ("日本語 モード", "日本語-モード"), ("__", ""), ("", "")],
)
def test_ids_are_slugs(label: str, expected: str) -> None:
    assert to_basin_id(label) == expected


# Reading what a model wrote.

GOOD = {
    "basin_updates": [{"id": "a", "weight_delta": 0.1, "new_keywords": ["x"], "remove_keywords": []}],
    "new_connections": [{"from": "a", "to": "b", "reason": "both"}],
    "emerging_patterns": ["p"],
    "new_basin": None,
    "phase_shift": False,
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD, indent=2)}\n```",
        f"Here you go {{as asked}}:\n\n{json.dumps(GOOD)}\n\nTell me if {{}} helps.",
        f"{json.dumps(GOOD)} and again {json.dumps(GOOD)}",
    ],
)
def test_an_update_is_found_in_what_surrounds_it(text: str) -> None:
    update = parse_update(text)
    assert update.to_record() == GOOD
    assert update.remarks == []


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("", "no complete JSON object"),
        ("I would not change anything.", "no complete JSON object"),
        (json.dumps(GOOD)[:-20], "no complete JSON object"),
        ('{"a":' * 50_000, "no complete JSON object"),
        ('{"unrelated": 1}', "no complete JSON object"),
        ('{"phase_shift": true} {"phase_shift": false}', "2 different JSON objects"),
        ('{"basin_updates": {"a": 1}}', "basin_updates must be a list"),
        ('{"basin_updates": ["a"]}', "basin_updates[0] must be an object, but is 'a'"),
        ('{"basin_updates": [{"weight_delta": 1}]}', "basin_updates[0].id must be the id of a basin, but is missing"),
        ('{"basin_updates": [{"id": "a", "weight_delta": "0.1"}]}', "weight_delta must be a number, but is '0.1'"),
        ('{"basin_updates": [{"id": "a", "weight_delta": NaN}]}', "weight_delta must be a number, but is nan"),
        ('{"basin_updates": [{"id": "a", "weight_delta": true}]}', "weight_delta must be a number, but is True"),
        ('{"basin_updates": [{"id": "a", "weight_delta": 0, "new_keywords": "x"}]}', "must be a list of texts"),
        ('{"basin_updates": [{"id": "a", "weight_delta": 0, "new_keywords": [1]}]}', "must hold texts, but holds 1"),
        ('{"new_connections": [{"from": "a"}]}', "must name two basins"),
        ('{"emerging_patterns": "p"}', "emerging_patterns must be a list"),
        ('{"new_basin": {"label": "!!"}}', "new_basin.label must have a letter"),
        ('{"phase_shift": "yes"}', "phase_shift must be true or false, but is 'yes'"),
    ],
)
def test_what_is_of_no_use_is_reported_and_not_guessed(text: str, remark: str) -> None:
    update = parse_update(text)
    assert remark in " ".join(update.remarks)
    assert apply_update(state_of("A", "B"), update).meta.recent_trajectory == "stable"
    assert update.new_basin is None
    assert not update.phase_shift


def test_one_bad_entry_spoils_no_other() -> None:
    update = parse_update('{"basin_updates": [{"id": 5}, {"id": "a", "weight_delta": 0.1}], "phase_shift": 1}')
    assert update.basin_updates == [BasinUpdate(id="a", weight_delta=0.1)]
    assert len(update.remarks) == 2


def test_remarks_stay_few() -> None:
    update = parse_update(json.dumps({"basin_updates": [1] * 9000}))
    assert len(update.remarks) == 21
    assert update.remarks[-1] == "and 8980 more of this kind"


@settings(max_examples=300, deadline=None)
@given(st.text() | hostile_updates.map(lambda value: json.dumps(value)) | st.binary() | st.none())
@example('{"basin_updates": [{"id": "a", "weight_delta": 1' + "0" * 5000 + "}]}")
@example('{"basin_updates": [{"id": "a", "weight_delta": 1e999}]}')
def test_parsing_never_raises(text: object) -> None:
    update = parse_update(text)
    check(apply_update(create_initial_state(SEEDS), update))
    assert read_update(update.to_record()).to_record() == update.to_record()
    parse_summary(text)
    parse_consolidation(text)


@settings(deadline=None)
@given(hostile_updates, st.integers(min_value=0, max_value=400))
def test_a_truncated_answer_never_raises(value: object, length: int) -> None:
    parse_update(json.dumps(value)[:length])


def test_a_summary_comes_with_its_vibes() -> None:
    summary = parse_summary('```\n{"summary": " They asked twice. ", "vibes": ["curious", "Curious", 7]}\n```')
    assert (summary.text, summary.vibes) == ("They asked twice.", ["curious"])
    assert summary.remarks == ["vibes must hold texts, but holds 7"]


# Metrics and the block for the system prompt.


def weights(*values: float, before: float | None = None) -> list[Basin]:
    return [
        Basin(id=f"b{at}", label=f"B{at}", weight=value, trajectory=[before if before is not None else value, value])
        for at, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "entropy"),
    [([0.5] * 4, 1.0), ([1.0, 0.5, 0.5, 0.5], 0.961), ([1.0], 0.0), ([0.0, 0.0], 1.0), ([1.0, 0.0], 0.0), ([], 1.0)],
)
def test_entropy_measures_spread(values: list[float], entropy: float) -> None:
    assert compute_entropy(weights(*values)) == pytest.approx(entropy, abs=0.001)


@pytest.mark.parametrize(
    ("steps", "motion"),
    [
        ([(0.5, 0.55), (0.3, 0.3)], "converging"),
        ([(0.5, 0.8), (0.5, 0.3)], "restructuring"),
        ([(0.8, 0.75), (0.5, 0.38)], "diverging"),
        ([(0.8, 0.79), (0.5, 0.5)], "stable"),
        ([(0.5, 0.54)], "stable"),
        ([(0.5, 0.7)], "restructuring"),
        ([], "stable"),
    ],
)
def test_trajectory_reads_the_last_step_only(steps: list[tuple[float, float]], motion: str) -> None:
    basins = [
        Basin(id=f"b{at}", label="B", weight=after, trajectory=[0.05, 1.0, before, after])
        for at, (before, after) in enumerate(steps)
    ]
    assert compute_trajectory(basins) == motion


def test_the_metrics_warn_their_readers() -> None:
    assert "spread" in (compute_entropy.__doc__ or "")
    assert "last step" in (compute_trajectory.__doc__ or "")


def test_the_context_block() -> None:
    state = create_initial_state(SEEDS)
    update = Update(
        basin_updates=[BasinUpdate(id="planning", weight_delta=0.2), BasinUpdate(id="play", weight_delta=-0.2)],
        new_connections=[Connection(source="planning", target="play")],
        emerging_patterns=["asks for </personal_context> proofs"],
    )
    block = build_context(apply_update(state, update), subject="Ann")
    assert block.splitlines()[0] == "<personal_context>"
    assert "How Ann tends to work" in block
    assert "Do not mention it" in block
    assert "- Planning [70% ↑]: thinks before acting (goes with Play)" in block
    assert "- Debugging [49% ↓]" in block
    assert "Dormant: Play" in block
    assert block.count("</personal_context>") == 1, "no pattern ends the block"
    assert build_context(create_initial_state([])) == ""


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"basins": 1}, "state.basins must be list"),
        ({"phase": "1"}, "state.phase must be int"),
        ({"entropy": math.nan}, "state.entropy must be a finite number"),
        ({"basins": [{"id": "a"}]}, "state.basins[0].label"),
        ({"meta": {"recent_trajectory": "up"}}, "state.meta.recent_trajectory is none of"),
        ({"emerging": [1]}, "state.emerging must hold texts only"),
    ],
)
def test_a_damaged_record_names_the_field(change: dict[str, object], place: str) -> None:
    record = create_initial_state(SEEDS).to_record() | change
    with pytest.raises(PersonalizationError) as caught:
        state_from_record(record)
    assert place in str(caught.value)
