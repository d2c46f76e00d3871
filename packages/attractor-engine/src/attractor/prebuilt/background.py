"""A task that belongs to no scope: for a stream that is iterated without `async with`, and so has none to live in.

The one place that knows which event loop runs, because anyio has no task outside of a task group.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import anyio
from anyio.lowlevel import current_token


class BackgroundTask:
    """Runs `function` from now on, on the event loop that runs, whose end cancels it.

    `function` must keep for its owner whatever it raises; nobody else is told. `is_ending` holds once it was cancelled.
    """

    def __init__(self, function: Callable[[], Awaitable[object]]) -> None:
        self.is_ending = False
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._loop: Any = current_token().native_token
        self._task = self._start(function)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def cancel(self) -> None:
        """Any thread may call this, at any time, a finalizer too."""
        self.is_ending = True
        schedule = self._loop.call_soon_threadsafe if self._is_asyncio else self._loop.run_sync_soon
        # With the loop its tasks have ended.
        with suppress(RuntimeError):
            schedule(self._scope.cancel)

    async def wait(self) -> None:
        """Until the task has ended; one of another event loop has ended with that."""
        if self._loop is current_token().native_token:
            await self._ended.wait()

    @property
    def _is_asyncio(self) -> bool:
        return hasattr(self._loop, "call_soon_threadsafe")

    def _start(self, function: Callable[[], Awaitable[object]]) -> Any:
        scope, ended = self._scope, self._ended

        async def run() -> None:
            try:
                with scope:
                    await function()
            finally:
                ended.set()

        if self._is_asyncio:
            return self._loop.create_task(run())
        # Only where trio runs, and so is imported already.
        import trio.lowlevel

        return trio.lowlevel.spawn_system_task(run, context=copy_context())
