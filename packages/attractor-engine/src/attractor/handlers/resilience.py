"""Handlers that try work again, or give it up."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from attractor.calls import describe_error
from attractor.errors import AttractorError
from attractor.graph import Graph, Node, to_int, to_seconds
from attractor.handlers.work import Toolkit, do_work
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.suspension import Suspend

RETRIES = 2
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0


class RetryHandler:
    """Does the node's work, a `function`, `tool_command` or `prompt`; if it fails, `retry.retries` times again.

    The first pause is `retry.backoff`, each further one twice as long, up to `retry.max_backoff`. Each attempt may take
    `retry.timeout`; the node's `timeout` is for all together. What the last attempt came to is the stage's outcome. A
    failure that another attempt can't mend isn't tried again, nor is a stage that waits for something.
    """

    is_external = True

    def __init__(self, toolkit: Toolkit, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        self._toolkit = toolkit
        self._sleep = sleep

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        retries = to_int(node.attrs.get("retry.retries"))
        retries = RETRIES if retries is None else retries
        if retries < 0:
            return Outcome.fail(f"node {node.id!r}: retry.retries must not be negative, as {retries} is", terminal=True)
        delay, longest = (
            _seconds(node, "retry.backoff", FIRST_DELAY),
            _seconds(node, "retry.max_backoff", LONGEST_DELAY),
        )
        for number in range(1, retries + 1):
            try:
                outcome = await self._attempt(node, context, graph, logs_root)
                if outcome.status.is_success or outcome.terminal:
                    return outcome
                why = outcome.failure_reason
            except Suspend:
                raise
            except Exception as error:
                if not getattr(error, "retryable", not isinstance(error, AttractorError)):
                    raise
                why = describe_error(error)
            context.run.tell("progress", f"attempt {number} of {retries + 1} failed: {why}")
            await self._sleep(min(delay, longest))
            delay *= 2
        return await self._attempt(node, context, graph, logs_root)

    async def _attempt(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        limit = to_seconds(node.attrs.get("retry.timeout"))
        with anyio.move_on_after(limit) as scope:
            return await do_work(self._toolkit, node, context, graph, logs_root)
        assert scope.cancelled_caught
        return Outcome.fail(f"node {node.id!r}: an attempt took longer than {limit:g} s")


class TimeoutHandler:
    """Does the node's work, a `function`, `tool_command` or `prompt`, for no longer than its `timeout`, which it needs.

    The engine ends it then, and the stage fails: its edges can lead elsewhere. A plain function can't be stopped, and
    goes on in its thread.
    """

    is_external = True

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if node.timeout is None:
            return Outcome.fail(f"node {node.id!r} is of type timeout, and needs a timeout such as 30s", terminal=True)
        return await do_work(self._toolkit, node, context, graph, logs_root)


def _seconds(node: Node, name: str, default: float) -> float:
    given = to_seconds(node.attrs.get(name))
    return default if given is None else given
