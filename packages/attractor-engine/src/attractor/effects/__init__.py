"""Work that is done once: keys for it, where it is kept, and running it."""

from attractor.effects.keys import artifact_key, effect_key
from attractor.effects.memory import MemoryEffectStore
from attractor.effects.operation import ON_INCOMPLETE, IdempotentOp, OnIncomplete
from attractor.effects.postgres import PostgresEffectStore
from attractor.effects.sqlite import SqliteEffectStore
from attractor.effects.store import EffectRecord, EffectStore

__all__ = [
    "ON_INCOMPLETE",
    "EffectRecord",
    "EffectStore",
    "IdempotentOp",
    "MemoryEffectStore",
    "OnIncomplete",
    "PostgresEffectStore",
    "SqliteEffectStore",
    "artifact_key",
    "effect_key",
]
