"""Nodes that are not executed again for what they did already."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from attractor.effects import EffectRecord, EffectStore, artifact_key
from attractor.prebuilt.node_context import NodeFunction, S, call_node, name_of
from attractor.state.json_values import to_json_value

Wrapped = Callable[[S, Any], Awaitable[Mapping[str, Any] | None]]


def skip_if_done(
    node: NodeFunction[S],
    store: EffectStore,
    key_from: Sequence[str] | Callable[[S], Any],
    *,
    namespace: str = "",
    ttl: float | None = None,
    clock: Callable[[], float] = time.time,
) -> Wrapped[S]:
    """The node, which for a key that it was executed for before reports the same update again, without being executed.

    `key_from` makes the key of the state: the names of the channels that the result depends on, or a function that
    gives any JSON. The key must hold all that the result depends on, and the node must do nothing but compute it:
    two at once may both be executed, and the last result stays. For effects use IdempotentOp.

    `namespace` tells the results of this node from others in the store, by default the function's module and name;
    change it when the function changes. `ttl` is for how many seconds a result counts. A node that raises, or waits
    for a value, leaves nothing. Raises ValueError for a key that is not JSON.
    """
    if ttl is not None and not ttl > 0:
        raise ValueError(f"ttl must be more than 0 seconds, or None for ever, not {ttl}")
    named = namespace or f"{getattr(node, '__module__', '')}.{getattr(node, '__qualname__', name_of(node))}"

    async def skipping(state: S, ctx: Any) -> Mapping[str, Any] | None:
        given = key_from(state) if callable(key_from) else {name: state.get(name) for name in key_from}
        key = artifact_key("skip_if_done", named, given)
        now = clock()
        found = await store.find(key)
        if found is not None and found.done and found.holds(now):
            kept: Mapping[str, Any] | None = found.result
            return kept
        update: Mapping[str, Any] | None = to_json_value(await call_node(node, state, ctx), f"update of {named}")
        ended = clock()
        expires_at = None if ttl is None else ended + ttl
        done = EffectRecord(key=key, owner=uuid4().hex, claimed_at=now, done=True, result=update, expires_at=expires_at)
        await store.put(done)
        return update

    skipping.__name__ = name_of(node)
    return skipping
