"""What was done, for as long as the process lives."""

from collections.abc import Callable
from copy import deepcopy
from threading import Lock

from attractor.effects.store import EffectRecord


class MemoryEffectStore:
    """Keeps records in a dict: for tests, and for work that need not outlive the process."""

    def __init__(self) -> None:
        self._records: dict[str, EffectRecord] = {}
        self._lock = Lock()

    async def find(self, key: str) -> EffectRecord | None:
        return deepcopy(self._records.get(key))

    async def claim(self, claim: EffectRecord) -> EffectRecord | None:
        with self._lock:
            standing = self._records.get(claim.key)
            if standing and standing.holds(claim.claimed_at) and (standing.done or standing.owner != claim.owner):
                return deepcopy(standing)
            self._records[claim.key] = claim
            return None

    async def take_over(self, claim: EffectRecord, owner: str) -> bool:
        return self._replace(claim, lambda standing: not standing.done and standing.owner in (owner, claim.owner))

    async def commit(self, done: EffectRecord) -> bool:
        return self._replace(done, lambda standing: standing.owner == done.owner)

    async def release(self, key: str, owner: str) -> None:
        with self._lock:
            standing = self._records.get(key)
            if standing and not standing.done and standing.owner == owner:
                del self._records[key]

    async def put(self, done: EffectRecord) -> None:
        with self._lock:
            self._records[done.key] = deepcopy(done)

    async def close(self) -> None:
        pass

    def _replace(self, record: EffectRecord, may: Callable[[EffectRecord], bool]) -> bool:
        with self._lock:
            standing = self._records.get(record.key)
            if standing is None or not may(standing):
                return False
            self._records[record.key] = deepcopy(record)
            return True
