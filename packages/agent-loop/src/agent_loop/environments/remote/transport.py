"""How programs are started elsewhere, and how bytes get there and back."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol

import anyio
import anyio.abc

from agent_loop.environments.output import STDERR, STDOUT
from agent_loop.errors import ExecutionEnvironmentError

_CHUNK = 65_536


class Channel(Protocol):
    """A program that runs elsewhere."""

    async def send(self, data: bytes) -> None:
        """Write all of it to the program's stdin. What the program doesn't want any more is dropped."""
        ...

    async def close_stdin(self) -> None:
        """Let the program find the end of its stdin."""
        ...

    async def receive(self, stream: int) -> bytes:
        """The next bytes of STDOUT or STDERR, none at the end."""
        ...

    async def wait(self) -> int:
        """Exit code of the program, or of what carried it, once its output has ended."""
        ...


class Transport(Protocol):
    """A place where programs can be started. `place` names it in messages, such as "the container web"."""

    place: str

    def open(self, arguments: Sequence[str]) -> AbstractAsyncContextManager[Channel]:
        """Start a program with its arguments, as they are. Leaving the context closes the connection to it.

        That ends the program's stdin, and may well leave it running. Raises ExecutionEnvironmentError.
        """
        ...


class CommandLineTransport:
    """Programs started through a program of this machine, such as `docker exec -i NAME`.

    `prefix` is that program with the arguments that come before those of the program to start.
    """

    def __init__(self, place: str, prefix: Sequence[str]) -> None:
        self.place = place
        self._prefix = list(prefix)

    @asynccontextmanager
    async def open(self, arguments: Sequence[str]) -> AsyncIterator[Channel]:
        """See Transport."""
        process = await start_program([*self._prefix, *arguments], stdin=subprocess.PIPE)
        try:
            yield _ProcessChannel(process)
        finally:
            # Not by `kill()`, which may reap the process before the event loop does, whose own to do it is.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await process.aclose()


async def start_program(command: Sequence[str], *, stdin: int) -> anyio.abc.Process:
    """Start a program of this machine, in a session of its own. Raises ExecutionEnvironmentError."""
    try:
        # Cancelled half-way, the event loop would end the program, and not what the program has started by then.
        with anyio.CancelScope(shield=True):
            # Ctrl-C is the caller's to handle, so that the program may not see it.
            process = await anyio.open_process(command, stdin=stdin, start_new_session=True)
    except OSError as error:
        raise ExecutionEnvironmentError(f"can't run {command[0]}: {error.strerror or error}") from None
    return process


class _ProcessChannel:
    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        self._streams = {STDOUT: process.stdout, STDERR: process.stderr}

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            for start in range(0, len(data), _CHUNK):
                await self._process.stdin.send(data[start : start + _CHUNK])

    async def close_stdin(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()

    async def receive(self, stream: int) -> bytes:
        try:
            return await self._streams[stream].receive(_CHUNK)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""

    async def wait(self) -> int:
        code = await self._process.wait()
        return code if code >= 0 else 128 - code
