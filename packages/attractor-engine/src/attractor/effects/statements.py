"""The table of records in SQL that SQLite and PostgreSQL both understand."""

import json
from collections.abc import Sequence
from typing import Any

from attractor.effects.store import EffectRecord

TABLE = """
CREATE TABLE IF NOT EXISTS attractor_effects (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    claimed_at DOUBLE PRECISION NOT NULL,
    done BOOLEAN NOT NULL,
    result TEXT NOT NULL,
    expires_at DOUBLE PRECISION
)
"""
_COLUMNS = "key, owner, claimed_at, done, result, expires_at"
_INSERT = (
    f"INSERT INTO attractor_effects ({_COLUMNS}) VALUES (:key, :owner, :claimed_at, :done, :result, :expires_at) "
    "ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, claimed_at = excluded.claimed_at, done = excluded.done, "
    "result = excluded.result, expires_at = excluded.expires_at"
)
_UPDATE = (
    "UPDATE attractor_effects SET owner = :owner, claimed_at = :claimed_at, done = :done, result = :result, "
    "expires_at = :expires_at WHERE key = :key"
)

FIND = f"SELECT {_COLUMNS} FROM attractor_effects WHERE key = :key"
# The columns without a table's name are ambiguous in a conflict: the standing row's have it.
CLAIM = (
    f"{_INSERT} WHERE (attractor_effects.done AND attractor_effects.expires_at <= excluded.claimed_at) "
    "OR (NOT attractor_effects.done AND attractor_effects.owner = excluded.owner)"
)
TAKE_OVER = f"{_UPDATE} AND NOT done AND owner IN (:from_owner, :owner)"
COMMIT = f"{_UPDATE} AND owner = :owner"
RELEASE = "DELETE FROM attractor_effects WHERE key = :key AND owner = :owner AND NOT done"
PUT = _INSERT


def to_parameters(record: EffectRecord) -> dict[str, Any]:
    """The record as named parameters."""
    return {
        "key": record.key,
        "owner": record.owner,
        "claimed_at": record.claimed_at,
        "done": record.done,
        "result": json.dumps(record.result, allow_nan=False),
        "expires_at": record.expires_at,
    }


def read_row(row: Sequence[Any] | None) -> EffectRecord | None:
    """The record of a row of FIND."""
    if row is None:
        return None
    key, owner, claimed_at, done, result, expires_at = row
    return EffectRecord(
        key=key,
        owner=owner,
        claimed_at=claimed_at,
        done=bool(done),
        result=json.loads(result),
        expires_at=expires_at,
    )
