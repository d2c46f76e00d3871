"""Calling what users wrote, which may be a plain function or an async one."""

from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio.to_thread


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result. A plain one runs in a worker thread, which cancellation abandons but can't end.

    Whatever awaitable a plain one returns, a lambda around an async function for example, is awaited here.
    """
    if iscoroutinefunction(function):
        return await function(*arguments)
    # In a tuple, because trio refuses to let a thread return a coroutine.
    (result,) = await anyio.to_thread.run_sync(lambda: (function(*arguments),), abandon_on_cancel=True)
    return await result if isawaitable(result) else result
