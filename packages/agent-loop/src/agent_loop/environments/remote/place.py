"""Where an environment lies, and what is known of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.program import run_program, shell_arguments
from agent_loop.environments.remote.transport import Transport
from agent_loop.errors import ExecutionEnvironmentError, PathNotFoundError

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Host(Protocol):
    """What makes a place reachable, and lets go of it. `ends_processes`: nothing there outlives `stop()`."""

    ends_processes: bool

    async def start(self) -> Transport:
        """Raises ExecutionEnvironmentError."""
        ...

    async def stop(self) -> None:
        """Also after a start that failed half-way. Called again, it does nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A place that was looked at."""

    transport: Transport
    shell: str
    has_ripgrep: bool
    home: str
    system: str
    variables: Mapping[str, str]


async def look_at(transport: Transport, working_directory: str) -> Place:
    """Find out what is there. Raises PathNotFoundError without the working directory, ExecutionEnvironmentError."""
    done = await run_program(transport, shell_arguments(scripts.PROBE, working_directory))
    parts = done.stdout.decode(errors="surrogateescape").split("\0")
    if len(parts) < 7:
        raise ExecutionEnvironmentError(f"{transport.place} can't be used: {done.message()}")
    missing, shell, ripgrep, home, system, directory, *variables = parts
    if missing:
        raise ExecutionEnvironmentError(
            f"{transport.place} can't be used: it lacks {missing.strip()}, which GNU's and busybox's tools include"
        )
    if not directory:
        raise PathNotFoundError(f"the working directory {working_directory} does not exist in {transport.place}")
    pairs = (entry.partition("=") for entry in variables if entry)
    # What is no name of a shell's can't be unset by one either.
    names = {name: value for name, _, value in pairs if _NAME.fullmatch(name)}
    return Place(transport, shell, bool(ripgrep.strip()), home, system.strip(), names)


def require_names(variables: Mapping[str, str]) -> None:
    """Raises ExecutionEnvironmentError for a variable that a shell could not set."""
    for name, value in variables.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise ExecutionEnvironmentError(f"{name!r} can't be set: not a name, or a value with NUL, for a shell")
