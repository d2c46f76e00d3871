"""Calling what users wrote, which may be a plain function or an async one, and telling what it raised."""

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


def describe_error(error: BaseException) -> str:
    """The kind of error, and what it says, if it says anything and can."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception as worse:
        return f"{kind}, whose message can't be read, for that raises {type(worse).__name__}"
    return f"{kind}: {said}" if said else kind
