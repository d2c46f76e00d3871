"""Doing something in the world at most once: claim, run, commit."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio

from attractor.calls import call
from attractor.effects.keys import effect_key
from attractor.effects.store import EffectRecord, EffectStore
from attractor.errors import IncompleteEffectError
from attractor.state.json_values import to_json_value

OnIncomplete = Literal["error", "skip", "rerun"]
ON_INCOMPLETE: tuple[OnIncomplete, ...] = ("error", "skip", "rerun")


class IdempotentOp:
    """Runs effects of one kind, each at most once, however often and from wherever it is asked to.

    * `namespace` tells this kind from others in `store`.
    * `ttl`, in seconds from the commit, is for how long an effect counts as done; None is for ever. A claim that was
      never committed doesn't expire.
    * `clock` gives seconds since the epoch, and should agree between the machines that share the store.
    """

    def __init__(
        self, store: EffectStore, namespace: str, ttl: float | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        if ttl is not None and not ttl > 0:
            raise ValueError(f"ttl must be more than 0 seconds, or None for ever, not {ttl}")
        self._store = store
        self._namespace = namespace
        self._ttl = ttl
        self._clock = clock
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def run(
        self,
        key: Any,
        fn: Callable[[], Awaitable[Any] | Any],
        on_incomplete: OnIncomplete = "error",
        *,
        harmless: tuple[type[Exception], ...] = (),
    ) -> Any:
        """The result of `fn`, called now or, if the effect was done before, then.

        `key` is what tells this effect from others of its kind, any JSON. `fn` may be a plain function, and runs then
        in a worker thread; its result must be JSON, and is returned as JSON has it the first time too.

        An effect that was claimed and not committed is incomplete: its process died in between, `fn` raised, or another
        process is at it just now. Nobody can tell whether it happened, so the caller decides: "error" raises
        IncompleteEffectError, "skip" returns None and leaves it, "rerun" calls `fn` once more, which must bear that.
        Of several that rerun the same claim one wins; the others find its claim, an error.

        What `fn` raises leaves the effect incomplete, except the types in `harmless`: those mean that nothing
        happened, and free the key. Callers in this process with the same key take turns. Raises ValueError for
        another policy, or a key that is not JSON.
        """
        if on_incomplete not in ON_INCOMPLETE:
            raise ValueError(f"on_incomplete is one of {', '.join(ON_INCOMPLETE)}, not {on_incomplete!r}")
        name = effect_key(self._namespace, key)
        turn = self._turns.setdefault(name, anyio.Lock())
        async with turn:
            claim = EffectRecord(key=name, owner=uuid4().hex, claimed_at=self._clock())
            standing = await self._store.claim(claim)
            if standing is not None:
                if standing.done:
                    return standing.result
                if on_incomplete == "skip":
                    return None
                if on_incomplete == "error" or not await self._store.take_over(claim, standing.owner):
                    raise self._refuse(key, standing)
            return await self._perform(key, claim, fn, harmless)

    async def _perform(
        self, key: Any, claim: EffectRecord, fn: Callable[[], Any], harmless: tuple[type[Exception], ...]
    ) -> Any:
        try:
            result = await call(fn)
        except harmless:
            with anyio.CancelScope(shield=True):
                await self._store.release(claim.key, claim.owner)
            raise
        result = to_json_value(result, f"result of {self._namespace}")
        expires_at = None if self._ttl is None else self._clock() + self._ttl
        with anyio.CancelScope(shield=True):
            kept = await self._store.commit(replace(claim, done=True, result=result, expires_at=expires_at))
        if not kept:
            raise IncompleteEffectError(
                f"effect {key!r} of {self._namespace!r} was done, but while it was, another process took it for "
                "interrupted and did it again; give such effects a policy other than rerun, or let one process do them",
                key=key,
                namespace=self._namespace,
            )
        return result

    def _refuse(self, key: Any, standing: EffectRecord) -> IncompleteEffectError:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(standing.claimed_at))
        return IncompleteEffectError(
            f"effect {key!r} of {self._namespace!r} was begun at {since} UTC and never reported its end: it may have "
            'happened or not; look, then run it with on_incomplete="skip" or "rerun"',
            key=key,
            namespace=self._namespace,
        )
