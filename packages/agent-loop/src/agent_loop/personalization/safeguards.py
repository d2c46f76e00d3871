"""What an update may change. The model proposes; the pure functions of this module decide.

Every bound holds on every path, for a well-behaved model as for a hostile one: no text of a model is trusted.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_loop.personalization.metrics import compute_entropy, compute_trajectory
from agent_loop.personalization.state import (
    DECAY_RATE,
    DECAY_TARGET,
    MAX_BASINS,
    MAX_DELTA,
    MAX_DESCRIPTION,
    MAX_EMERGING,
    MAX_KEYWORD,
    MAX_KEYWORDS,
    MAX_LABEL,
    MAX_PATTERN,
    MAX_TRAJECTORY,
    MAX_WEIGHT,
    MIN_WEIGHT,
    NEW_BASIN_WEIGHT,
    SEED_WEIGHT,
    Basin,
    Meta,
    PersonalState,
    clean_text,
    fold,
    to_basin_id,
    to_float,
    unique_texts,
)
from agent_loop.personalization.update import BasinUpdate, NewBasin, Update, read_update


def apply_update(state: PersonalState, update: Update | Mapping[str, Any], *, now: str = "") -> PersonalState:
    """The state after one more conversation. Pure and total: neither argument is changed, and nothing is raised.

    Deltas are bounded to +-0.3 (several for one basin are added up first) and weights to [0.05, 1]; a delta that is no
    number counts as none. Ids that no basin has are ignored. Basins that the update doesn't name decay toward 0.3.
    Keywords are told apart without regard to case and keep the spelling seen first; beyond ten the oldest go, which
    `cap_hits` counts. Connections hold both ways, and never lead from a basin to itself. A new basin comes in if its id
    is new and there is room; else its label is kept as an emerging pattern. Only a delta above 0 counts as use.

    `now` is an ISO 8601 time; without one, times stay as they are.
    """
    state, update = restore_bounds(state), read_update(update)
    proposals = _merge(update.basin_updates)
    basins = [
        _touch(basin, proposals[basin.id], now) if basin.id in proposals else _set_weight(basin, _decayed(basin.weight))
        for basin in state.basins
    ]
    emerging = state.emerging if update.emerging_patterns is None else update.emerging_patterns
    if update.new_basin is not None:
        if len(basins) < MAX_BASINS:
            basins = _add(basins, update.new_basin, now)
        else:
            emerging = [update.new_basin.label, *emerging]
    basins = _connect(basins, [(item.source, item.target) for item in update.new_connections])
    return replace(
        state,
        basins=basins,
        phase=state.phase + update.phase_shift,
        entropy=compute_entropy(basins),
        emerging=unique_texts(emerging, MAX_PATTERN)[:MAX_EMERGING],
        last_updated=now or state.last_updated,
        update_count=state.update_count + 1,
        meta=Meta(
            total_conversations=state.meta.total_conversations + 1,
            dominant_basin=max(basins, key=lambda basin: basin.weight).id if basins else "",
            recent_trajectory=compute_trajectory(basins),
        ),
    )


def apply_consolidation(
    state: PersonalState, basin_id: str, keywords: Sequence[str], *, instead_of: Sequence[str]
) -> PersonalState:
    """The state with a basin's keywords abstracted. Pure and total.

    `keywords` take the place of `instead_of`, those that the model saw; what came in since then is kept. `cap_hits`
    starts at 0 again. No keywords, or more than there were, is no abstraction: the state stays as it is.
    """
    state = restore_bounds(state)
    shorter = unique_texts(keywords, MAX_KEYWORD)
    replaced = {fold(clean_text(keyword, MAX_KEYWORD)) for keyword in instead_of}
    if not shorter or len(shorter) > min(MAX_KEYWORDS, max(1, len(replaced))):
        return state
    return replace(
        state,
        basins=[
            replace(
                basin,
                keywords=unique_texts(
                    [*shorter, *(keyword for keyword in basin.keywords if fold(keyword) not in replaced)], MAX_KEYWORD
                )[-MAX_KEYWORDS:],
                cap_hits=0,
            )
            if basin.id == basin_id
            else basin
            for basin in state.basins
        ],
    )


def restore_bounds(state: PersonalState) -> PersonalState:
    """The state with everything that breaks a rule mended, as one from a foreign hand may need. Pure.

    The first basin of an id stays. A weight that is no number becomes 0.5.
    """
    kept: dict[str, Basin] = {}
    for basin in state.basins:
        basin_id = clean_text(basin.id, MAX_LABEL * 2)
        if basin_id:
            kept.setdefault(basin_id, replace(basin, id=basin_id))
    basins = [_bounded_basin(basin, kept) for basin in kept.values()]
    pairs = [(basin.id, other) for basin in basins for other in basin.connections]
    return replace(
        state,
        basins=_connect(basins, pairs),
        phase=max(1, state.phase),
        entropy=compute_entropy(basins) if not 0 <= state.entropy <= 1 else state.entropy,
        emerging=unique_texts(state.emerging, MAX_PATTERN)[:MAX_EMERGING],
        update_count=max(0, state.update_count),
        meta=replace(state.meta, total_conversations=max(0, state.meta.total_conversations)),
    )


def _bounded_basin(basin: Basin, known: Container[str]) -> Basin:
    return replace(
        basin,
        label=clean_text(basin.label, MAX_LABEL) or clean_text(basin.id, MAX_LABEL),
        description=clean_text(basin.description, MAX_DESCRIPTION),
        weight=_bounded(basin.weight),
        keywords=unique_texts(basin.keywords, MAX_KEYWORD)[-MAX_KEYWORDS:],
        connections=[other for other in dict.fromkeys(basin.connections) if other in known and other != basin.id],
        trajectory=[_bounded(weight) for weight in basin.trajectory[-MAX_TRAJECTORY:]],
        conversation_count=max(0, basin.conversation_count),
        cap_hits=max(0, basin.cap_hits),
    )


def _bounded(weight: float) -> float:
    number = to_float(weight)
    return SEED_WEIGHT if math.isnan(number) else min(MAX_WEIGHT, max(MIN_WEIGHT, number))


def _bounded_delta(delta: float) -> float:
    return 0.0 if math.isnan(delta) else min(MAX_DELTA, max(-MAX_DELTA, delta))


def _decayed(weight: float) -> float:
    return weight + (DECAY_TARGET - weight) * DECAY_RATE


def _merge(updates: Iterable[BasinUpdate]) -> dict[str, BasinUpdate]:
    """One update a basin, so that naming it often gives no more than naming it once."""
    merged: dict[str, list[BasinUpdate]] = {}
    for update in updates:
        merged.setdefault(update.id, []).append(update)
    return {
        basin_id: BasinUpdate(
            id=basin_id,
            # An infinite delta and its opposite would add up to NaN.
            weight_delta=sum(_bounded_delta(item.weight_delta) for item in items),
            new_keywords=[keyword for item in items for keyword in item.new_keywords],
            remove_keywords=[keyword for item in items for keyword in item.remove_keywords],
        )
        for basin_id, items in merged.items()
    }


def _touch(basin: Basin, update: BasinUpdate, now: str) -> Basin:
    delta = _bounded_delta(update.weight_delta)
    removed = {fold(keyword) for keyword in update.remove_keywords}
    keywords = unique_texts([*basin.keywords, *update.new_keywords], MAX_KEYWORD)
    keywords = [keyword for keyword in keywords if fold(keyword) not in removed]
    changed = replace(
        basin, keywords=keywords[-MAX_KEYWORDS:], cap_hits=basin.cap_hits + (len(keywords) > MAX_KEYWORDS)
    )
    if delta > 0:
        changed = replace(
            changed, last_active=now or basin.last_active, conversation_count=basin.conversation_count + 1
        )
    return _set_weight(changed, _bounded(basin.weight + delta))


def _set_weight(basin: Basin, weight: float) -> Basin:
    return replace(basin, weight=weight, trajectory=[*basin.trajectory, weight][-MAX_TRAJECTORY:])


def _add(basins: list[Basin], new: NewBasin, now: str) -> list[Basin]:
    basin_id = to_basin_id(new.label)
    if any(basin.id == basin_id for basin in basins):
        return basins
    added = Basin(
        id=basin_id,
        label=new.label,
        description=new.description,
        weight=NEW_BASIN_WEIGHT,
        keywords=list(new.keywords),
        trajectory=[NEW_BASIN_WEIGHT],
        last_active=now,
        conversation_count=1,
    )
    return [*basins, added]


def _connect(basins: list[Basin], pairs: Iterable[tuple[str, str]]) -> list[Basin]:
    """The basins with these connections too, both ways."""
    connections = {basin.id: dict.fromkeys(basin.connections) for basin in basins}
    for source, target in pairs:
        if source != target and source in connections and target in connections:
            connections[source][target] = None
            connections[target][source] = None
    return [replace(basin, connections=list(connections[basin.id])) for basin in basins]
