"""Ctrl-C: once stops the run cleanly, twice kills it."""

import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn, TypeVar

import anyio

from attractor.cli.failure import INTERRUPTED
from attractor.cli.screen import Screen

T = TypeVar("T")
_PATIENCE_SECONDS = 0.5
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _kill_commands() -> None:
    """End the process groups of this process's children, which don't get the terminal's Ctrl-C themselves."""
    own_group = os.getpgrp()
    for child in _children():
        with suppress(ProcessLookupError, PermissionError):
            group = os.getpgid(child)
            os.kill(child, signal.SIGKILL) if group == own_group else os.killpg(group, signal.SIGKILL)


def _children() -> list[int]:
    try:
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    pairs = (line.split() for line in listing.splitlines())
    return [int(pid) for pid, parent in pairs if int(parent) == os.getpid()]


async def run_with_interrupts(
    work: Callable[[], Awaitable[T]], stop: Callable[[], None], screen: Screen, on_kill: str = ""
) -> T:
    """The result of `work`, which the first signal asks to end by calling `stop`. The second ends the process at once.

    `screen` says so, at the end with `on_kill`. Must run in the main thread, which is where signals arrive.
    """

    async def watch() -> None:
        stopping = False
        # What nohup, or a shell for its background, had ignored stays ignored.
        heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        with anyio.open_signal_receiver(*heeded) as signals:
            ready.set()
            async for _ in signals:
                if stopping:
                    _kill(screen, on_kill)
                stopping = True
                screen.notice("Stopping. Ctrl-C once more kills at once.")
                stop()

    ready = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await ready.wait()
        result = await work()
        group.cancel_scope.cancel()
    return result


def _kill(screen: Screen, last_words: str) -> NoReturn:
    """End everything now. A terminal that takes no more text (Ctrl-S) must not hold that up."""

    def say_goodbye() -> None:
        screen.close()
        screen.notice(f"Killed. {last_words}".rstrip())

    _kill_commands()
    last = threading.Thread(target=say_goodbye, daemon=True)
    last.start()
    last.join(_PATIENCE_SECONDS)
    os._exit(INTERRUPTED)
