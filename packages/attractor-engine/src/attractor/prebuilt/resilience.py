"""Wrapping a node so that it is tried again, or given up, without the engine's help."""

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from attractor.prebuilt.node_context import NodeContext, NodeFunction, S, adapt_node, name_of
from attractor.suspension import Suspend

Wrapped = Callable[[S, Any], Awaitable[Mapping[str, Any] | None]]
"""A node made of another one: an async function of state and context."""


def with_retry(
    node: NodeFunction[S],
    *,
    retries: int = 2,
    backoff: float = 0.1,
    backoff_factor: float = 2.0,
    max_backoff: float = 30.0,
    on: tuple[type[BaseException], ...] = (Exception,),
    jitter: float = 0.0,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    uniform: Callable[[float, float], float] = random.uniform,
) -> Wrapped[S]:
    """The node, tried up to `retries` times more if it raises one of `on`; what it raised last is raised unchanged.

    The first retry waits `backoff` seconds, each further one `backoff_factor` times as long, up to `max_backoff`;
    `jitter` adds up to that many seconds at random. An interrupt is no failure, and is never retried, and neither is
    cancellation. ValueError for negative `retries`.
    """
    attempt = _prepare(node)
    if retries < 0:
        raise ValueError(f"retries must not be negative, as {retries} is")

    async def retrying(state: S, ctx: Any) -> Mapping[str, Any] | None:
        delay = backoff
        for _ in range(retries):
            try:
                return await attempt(state, ctx)
            except (Suspend, anyio.get_cancelled_exc_class()):
                raise
            except on:
                pause = delay + (uniform(0, jitter) if jitter else 0.0)
            if pause > 0:
                await sleep(pause)
            delay = min(delay * backoff_factor, max_backoff)
        return await attempt(state, ctx)

    return _named(retrying, node)


def with_timeout(node: NodeFunction[S], seconds: float) -> Wrapped[S]:
    """The node, which raises TimeoutError when it takes longer than `seconds`. ValueError unless these are positive.

    A plain function can't be stopped: what it does after that time is lost, but it is done. An interrupt within the
    time passes through.
    """
    if seconds <= 0:
        raise ValueError(f"the time limit must be positive, as {seconds} is not")

    attempt = _prepare(node)

    async def limited(state: S, ctx: Any) -> Mapping[str, Any] | None:
        with anyio.move_on_after(seconds) as scope:
            return await attempt(state, ctx)
        assert scope.cancelled_caught
        raise TimeoutError(f"node {name_of(node)!r} took longer than {seconds:g} s")

    return _named(limited, node)


def _prepare(node: NodeFunction[S]) -> Wrapped[S]:
    """One attempt at the node, which counts its interrupts from the first one on, as each of them does."""
    function = adapt_node(node)

    async def attempt(state: S, ctx: Any) -> Mapping[str, Any] | None:
        reported: Mapping[str, Any] | None = await function(state, ctx.again() if isinstance(ctx, NodeContext) else ctx)
        return reported

    return attempt


def _named(wrapped: Wrapped[S], node: NodeFunction[S]) -> Wrapped[S]:
    """Under the name of the node that it wraps, by which `add_node(function)` adds it."""
    wrapped.__name__ = name_of(node)
    return wrapped
