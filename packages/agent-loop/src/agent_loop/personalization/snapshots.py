"""What a store keeps: the state, and a short history of its weights with the provenance of each change."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_loop.errors import DamagedMemoryError
from agent_loop.personalization.state import MAX_HISTORY, PersonalState, finite, state_from_record

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who made a state: the engine, its model, and what was done (seed, ingest or consolidate)."""

    engine: str = ""
    model: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The weights by basin after a change, and when that was (ISO 8601, or empty)."""

    timestamp: str
    weights: Mapping[str, float]
    by: Provenance | None = None

    def to_record(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"timestamp": self.timestamp, "weights": dict(self.weights), "by": asdict(self.by) if self.by else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Everything in a store. The history is a trend line of the last ten changes, not an archive; oldest first."""

    state: PersonalState | None = None
    history: Sequence[Snapshot] = field(default_factory=tuple)

    def with_state(self, state: PersonalState, by: Provenance | None) -> "Kept":
        """The same after a change."""
        snapshot = Snapshot(
            timestamp=state.last_updated, weights={basin.id: basin.weight for basin in state.basins}, by=by
        )
        return Kept(state=state, history=(*self.history, snapshot)[-MAX_HISTORY:])

    def to_record(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "version": _VERSION,
            "state": self.state.to_record() if self.state else None,
            "history": [snapshot.to_record() for snapshot in self.history],
        }


def kept_from_record(record: Any) -> Kept:
    """The reverse of `Kept.to_record()`. Raises DamagedMemoryError that names the field at fault."""
    if not isinstance(record, dict) or record.get("version") != _VERSION or not isinstance(record.get("history"), list):
        raise DamagedMemoryError(f"it is no memory of version {_VERSION}")
    state = record.get("state")
    return Kept(
        state=None if state is None else state_from_record(state),
        history=tuple(_load_snapshot(item, f"history[{number}]") for number, item in enumerate(record["history"])),
    )


def _load_snapshot(record: Any, place: str) -> Snapshot:
    match record:
        case {"timestamp": str(timestamp), "weights": dict(weights), "by": by}:
            pass
        case _:
            raise DamagedMemoryError(f"{place} is no snapshot")
    match by:
        case None:
            provenance = None
        case {"engine": str(engine), "model": str(model), "action": str(action)}:
            provenance = Provenance(engine=engine, model=model, action=action)
        case _:
            raise DamagedMemoryError(f"{place}.by is no provenance")
    return Snapshot(
        timestamp=timestamp,
        weights={str(name): finite(weight, f"{place}.weights") for name, weight in weights.items()},
        by=provenance,
    )
