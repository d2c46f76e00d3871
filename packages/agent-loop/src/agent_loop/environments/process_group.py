"""Process groups: who is alive in them, and how they are ended (section 5.4). POSIX only."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread

GRACE_SECONDS = 2.0
# How long the kernel may take over a SIGKILL.
_KILL_SECONDS = 0.5
_POLL_SECONDS = 0.02
_PROC = Path("/proc")


async def terminate_groups(groups: Iterable[int], *, leader: "subprocess.Popen[bytes] | None" = None) -> None:
    """End process groups: SIGTERM, up to two seconds of grace, SIGKILL.

    `leader` is waited for, so that it leaves no zombie. Run it in a shielded scope if it must not be cut short.
    """
    reached = {group for group in groups if signal_group(group, signal.SIGTERM)}
    for group in await _wait_for_end(reached, GRACE_SECONDS, leader):
        signal_group(group, signal.SIGKILL)
    await _wait_for_end(reached, _KILL_SECONDS, leader)
    if leader is not None:
        await anyio.to_thread.run_sync(leader.wait, abandon_on_cancel=True)


async def _wait_for_end(groups: set[int], seconds: float, leader: "subprocess.Popen[bytes] | None") -> set[int]:
    """Returns the groups that are still alive after that time."""
    deadline = anyio.current_time() + seconds
    while (alive := _living(groups)) and anyio.current_time() < deadline:
        await anyio.sleep(_POLL_SECONDS)
        if leader is not None:
            leader.poll()
    return alive


def _living(groups: set[int]) -> set[int]:
    """Those groups that have a living process.

    A signal reaches zombies as well, and in a container whose first process adopts but never reaps, they stay. So where
    there is a /proc, it has the last word.
    """
    reached = {group for group in groups if signal_group(group, 0)}
    if not reached or not _PROC.is_dir():
        return reached
    return {group for state, group in _states() if state != "Z"} & reached


def groups_of_marked(marker: str) -> set[int]:
    """Groups of living processes that were started with `marker` ("NAME=value") in their environment.

    It finds those that left their group (`setsid`). Only where there is a /proc.
    """
    found = set()
    for process in _processes():
        try:
            if marker.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.add(os.getpgid(int(process.name)))
        except OSError:
            continue
    return found


async def end_processes(variable: str, is_meant: Callable[[str], bool]) -> None:
    """End the groups of processes that were started with an environment variable whose value is meant.

    Not the caller's own group. For what a killed program left running; only where there is a /proc.
    """
    prefix = f"{variable}=".encode()
    groups = set()
    for process in _processes():
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            values = [os.fsdecode(entry.removeprefix(prefix)) for entry in environment if entry.startswith(prefix)]
            if any(is_meant(value) for value in values):
                groups.add(os.getpgid(int(process.name)))
        except OSError:
            continue
    await terminate_groups(groups - {os.getpgrp()})


def signal_group(group: int, number: int) -> bool:
    """Send a signal, or none with 0. Returns whether there was anyone to signal, a zombie perhaps."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _states() -> Iterator[tuple[str, int]]:
    """State and group of every process."""
    for process in _processes():
        try:
            # The name, in parentheses, may hold anything; state, parent and group follow it.
            state, _, group = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        yield state, int(group)


def _processes() -> list[Path]:
    return [entry for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []
