"""Where it is kept what was begun and what was done."""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """What is known of one piece of work. `owner` is unique to the attempt that claimed it.

    With `done` its `result`, any JSON, counts until `expires_at`; None is for ever. Times are seconds since the epoch.
    Without `done` its attempt is under way, or ended before it could say how.
    """

    key: str
    owner: str
    claimed_at: float
    done: bool = False
    result: Any = None
    expires_at: float | None = None

    def holds(self, now: float) -> bool:
        """Whether it stands in the way of a claim. One that isn't done never expires: nobody knows what it did."""
        return not self.done or self.expires_at is None or now < self.expires_at


class EffectStore(Protocol):
    """Keeps records by key. Each method is atomic among all tasks, threads and processes that use the store.

    Asking twice for the same thing with the same owner does no harm. Whoever makes a store closes it.
    """

    async def find(self, key: str) -> EffectRecord | None:
        """The record, expired or not."""
        ...

    async def claim(self, claim: EffectRecord) -> EffectRecord | None:
        """Put `claim` there, unless a record stands that holds at `claim.claimed_at`: then that one is returned."""
        ...

    async def take_over(self, claim: EffectRecord, owner: str) -> bool:
        """Put `claim` in the place of the unfinished record of `owner`; False if that stands there no more."""
        ...

    async def commit(self, done: EffectRecord) -> bool:
        """Record the end of the claim with this key and owner; False if it stands there no more."""
        ...

    async def release(self, key: str, owner: str) -> None:
        """Remove an unfinished claim of `owner`."""
        ...

    async def put(self, done: EffectRecord) -> None:
        """Record a result that needed no claim, whatever stands there."""
        ...

    async def close(self) -> None: ...
