"""Changes of files one after the other, for each is worked out from what the file holds, and then written."""

import anyio
from anyio.lowlevel import RunVar

_LOCK: RunVar[anyio.Lock] = RunVar("agent_loop_edit_lock")


def edit_lock() -> anyio.Lock:
    """To be held from reading a file to writing it. One for all sessions of an event loop.

    Names don't tell whether two changes meet: a symlink is another name, and subagents work on the same files.
    Changes take milliseconds, so that one lock does.
    """
    try:
        return _LOCK.get()
    except LookupError:
        lock = anyio.Lock(fast_acquire=True)
        _LOCK.set(lock)
        return lock
