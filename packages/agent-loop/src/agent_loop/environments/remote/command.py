"""One command elsewhere: begun, followed, ended for certain.

The command runs in a session of its own under a small guard (`scripts.RUN`). What it writes is framed by marks, so that
its end is known although background processes may hold its output open. The guard ends it when its stdin ends, that is
when this side is gone; and from this side a second program ends it, and looks whether it is gone.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

from agent_loop.environments.output import STDERR, STDOUT
from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.program import end_processes, shell_arguments
from agent_loop.environments.remote.transport import Channel, Transport
from agent_loop.errors import ExecutionEnvironmentError, PathNotFoundError

Receive = Callable[[int, bytes], object]
"""Takes bytes of STDOUT or STDERR as they come."""

MARKER = "AGENT_LOOP_ENVIRONMENT"
# For a connection, a container that is busy, a first program to be loaded.
_START_SECONDS = 30.0
# What is still under way when a command has been ended.
_DRAIN_SECONDS = 5.0
# Ending takes up to two and a half seconds there; a cancelled call is to be over within three.
_ABANDON_SECONDS = 2.8
_SEE_OFF_SECONDS = 0.2
_KEPT_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to run: a program with its arguments, in a directory, with variables added and others taken away.

    `marker` is put into the environment of the command, and so of all that it starts.
    """

    arguments: Sequence[str]
    directory: str
    marker: str
    variables: Mapping[str, str]
    unset: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended."""

    exit_code: int
    timed_out: bool


async def run_call(transport: Transport, call: Call, receive: Receive, timeout_seconds: float) -> End:
    """Run to the exit of the command itself. The time counts from when it has begun.

    On timeout and on cancellation all that it started is gone before this returns. Raises PathNotFoundError if there is
    no such directory, ExecutionEnvironmentError if the command can't be run or ended, or the connection is lost.
    """
    run = _Run(transport.place, call, receive)
    timed_out = False
    failure: ExecutionEnvironmentError | None = None
    async with transport.open(run.arguments()) as channel:
        try:
            # Only now is it sure that whatever happens, the guard and this side know of each other.
            await channel.send(b"\n")
            async with anyio.create_task_group() as tasks:
                for stream in (STDOUT, STDERR):
                    tasks.start_soon(run.follow, channel, stream)
                timed_out = not await run.wait(timeout_seconds)
                if timed_out:
                    try:
                        await end_processes(transport, run.marker, run.groups)
                    except ExecutionEnvironmentError as error:
                        failure = error
                    with anyio.move_on_after(_DRAIN_SECONDS):
                        await run.ended.wait()
                tasks.cancel_scope.cancel()
            if timed_out:
                await _see_off(channel)
        finally:
            if not run.is_over:
                with anyio.CancelScope(shield=True):
                    await _abandon(transport, channel, run)
    if failure is not None:
        raise failure
    return run.result(timed_out)


async def _abandon(transport: Transport, channel: Channel, run: "_Run") -> None:
    """Leave nothing of it alive."""
    # The guard ends it at this sign. That it did is seen to as far as the place can still be reached.
    await channel.close_stdin()
    with suppress(ExecutionEnvironmentError):
        await end_processes(transport, run.marker, run.groups, seconds=_ABANDON_SECONDS)
    await _see_off(channel)


async def _see_off(channel: Channel) -> None:
    """Wait for the guard's own end, which comes right after the command's."""
    with anyio.move_on_after(_SEE_OFF_SECONDS):
        while await channel.receive(STDOUT):
            pass


class _Run:
    """What is known of a command while it runs."""

    def __init__(self, place: str, call: Call, receive: Receive) -> None:
        self._place = place
        self._call = call
        self._receive = receive
        self._token = secrets.token_hex(16)
        self._streams = {stream: MarkedStream(self._token) for stream in (STDOUT, STDERR)}
        self._started: set[int] = set()
        self._finished: set[int] = set()
        self._is_missing = False
        self._exit_code: int | None = None
        self._noise = b""
        self.marker = f"{MARKER}={call.marker}.{self._token}"
        self.groups: list[str] = []
        self.begun = anyio.Event()
        self.ended = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the command is known to have exited."""
        return self._is_missing or self._exit_code is not None

    def arguments(self) -> list[str]:
        """The program that runs the command under its guard."""
        call, marker = self._call, self.marker.partition("=")[2]
        variables = [f"{name}={value}" for name, value in call.variables.items()]
        head = [self._token, marker, call.directory, " ".join(call.unset), str(len(variables))]
        return shell_arguments(scripts.RUN, *head, *variables, *call.arguments)

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end. Returns whether it came in time."""
        with anyio.move_on_after(_START_SECONDS):
            await self.begun.wait()
        if self.begun.is_set():
            with anyio.move_on_after(timeout_seconds):
                await self.ended.wait()
        return self.ended.is_set()

    async def follow(self, channel: Channel, stream: int) -> None:
        """Take what is written up to the mark at the end, or to the end of the stream if there is none."""
        while stream not in self._finished and (chunk := await channel.receive(stream)):
            for part in self._streams[stream].feed(chunk):
                if isinstance(part, str):
                    self._note(stream, part.split())
                else:
                    self._take(stream, part)
        self._finished.add(stream)
        if len(self._finished) == len(self._streams):
            self.begun.set()
            self.ended.set()

    def _take(self, stream: int, data: bytes) -> None:
        if stream == STDERR:
            self._noise = (self._noise + data)[-_KEPT_BYTES:]
        # What comes before and after is a login shell's, or what carries the connection says.
        if stream in self._started and stream not in self._finished:
            self._receive(stream, data)

    def _note(self, stream: int, mark: list[str]) -> None:
        match mark:
            case ["start", *group]:
                self._started.add(stream)
                if group:
                    self.groups = group
                    self.begun.set()
            case ["missing"]:
                self._is_missing = True
            case ["exit", *code]:
                self._finished.add(stream)
                if code:
                    self._exit_code = int(code[0])
            case _:
                raise AssertionError(mark)

    def result(self, timed_out: bool) -> End:
        """How it ended. Raises what `run_call` raises."""
        if self._is_missing:
            raise PathNotFoundError(f"the directory {self._call.directory} to run in does not exist")
        if self._exit_code is not None:
            return End(self._exit_code, timed_out)
        noise = " ".join(self._noise.decode(errors="replace").split()) or "nothing was said about the reason"
        if not self.groups:
            raise ExecutionEnvironmentError(f"{self._place} can't run the command: {noise}")
        raise ExecutionEnvironmentError(f"{self._place} was lost while the command ran: {noise}")


class MarkedStream:
    """Takes the marks out of a stream: RS, the token, a colon, words, RS. Nothing else is held back."""

    def __init__(self, token: str) -> None:
        self._prefix = f"\x1e{token}:".encode()
        self._held = b""

    def feed(self, chunk: bytes) -> list[bytes | str]:
        """Returns data, as bytes, and the words of marks, as text, in the order in which they came."""
        data = self._held + chunk if self._held else chunk
        parts: list[bytes | str] = []
        while (start := data.find(self._prefix)) >= 0:
            inside = start + len(self._prefix)
            end = data.find(b"\x1e", inside)
            if end < 0:
                break
            parts += [data[:start], data[inside:end].decode()]
            data = data[end + 1 :]
        else:
            start = self._partial(data)
        self._held = data[start:]
        return [part for part in (*parts, data[:start]) if part]

    def _partial(self, data: bytes) -> int:
        """Where a mark may begin whose rest is still to come."""
        start = data.find(b"\x1e", max(len(data) - len(self._prefix), 0))
        while start >= 0 and not self._prefix.startswith(data[start:]):
            start = data.find(b"\x1e", start + 1)
        return start if start >= 0 else len(data)
