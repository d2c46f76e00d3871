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
# How often to look: for a process that is between two programs, and for those that were missed.
_EXEC_POLLS = 4
_ROUNDS = 3
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


async def terminate_marked(marker: str, groups: Iterable[int] = ()) -> None:
    """End these groups, and those of processes that were started with `marker` ("NAME=value") in their environment.

    The marker finds those that left their group (`setsid`), only where there is a /proc. One that leaves while this
    works is found when it looks again.
    """
    entry = marker.encode()
    remaining = {*groups}
    for _ in range(_ROUNDS):
        remaining |= await _find_groups(lambda environment: entry in environment)
        if not remaining:
            return
        await terminate_groups(remaining)
        remaining = set()


async def end_processes(variable: str, is_meant: Callable[[str], bool]) -> None:
    """End the groups of processes that were started with an environment variable whose value is meant.

    Not the caller's own group. For what a killed program left running; only where there is a /proc.
    """
    prefix = f"{variable}=".encode()

    def is_marked(environment: list[bytes]) -> bool:
        values = [os.fsdecode(entry.removeprefix(prefix)) for entry in environment if entry.startswith(prefix)]
        return any(is_meant(value) for value in values)

    await terminate_groups(await _find_groups(is_marked) - {os.getpgrp()})


async def _find_groups(is_marked: Callable[[list[bytes]], bool]) -> set[int]:
    """Groups of the processes with such an environment. One that is just about to start a program shows none yet."""
    found: set[int] = set()
    unclear = _processes()
    for attempt in range(_EXEC_POLLS):
        if attempt:
            await anyio.sleep(_POLL_SECONDS / 4)
        starting = []
        for process in unclear:
            try:
                environment = (process / "environ").read_bytes()
                if is_marked(environment.split(b"\0")):
                    found.add(os.getpgid(int(process.name)))
                elif not environment and os.readlink(process / "exe"):
                    starting.append(process)
            except OSError:
                # It has ended, is someone else's, or is the kernel's own, which has no program.
                continue
        unclear = starting
        if not unclear:
            break
    return found


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
