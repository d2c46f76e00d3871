"""One command as a process group of its own (section 5.4). POSIX only."""

import codecs
import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from agent_loop.environments.base import OutputCallback
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.process_group import terminate_groups

if sys.platform != "win32":
    import fcntl
    import termios

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended. `group` is the id of its process group, where background processes may still live."""

    exit_code: int
    timed_out: bool
    group: int


async def run_command(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout_seconds: float,
    capture: OutputCapture,
    on_output: OutputCallback | None = None,
) -> Exit:
    """Run to the exit of the process itself, not of background children that hold its output open.

    On timeout and on cancellation the whole group is gone before this returns. Raises OSError if the program can't be
    started.
    """
    readers, writers = _open_pipes()
    try:
        try:
            # Starting takes a millisecond; asyncio's own way to do it takes three.
            process = subprocess.Popen(  # noqa: ASYNC220
                argv,
                stdin=subprocess.DEVNULL,
                stdout=writers[STDOUT],
                stderr=writers[STDERR],
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        finally:
            for writer in writers:
                os.close(writer)
        pumps = [_Pump(readers[stream], stream, capture, on_output) for stream in (STDOUT, STDERR)]
        timed_out = await _supervise(process, pumps, timeout_seconds)
        for pump in pumps:
            pump.drain()
        return Exit(_exit_code(process.returncode), timed_out, process.pid)
    finally:
        for reader in readers:
            os.close(reader)


def _open_pipes() -> tuple[list[int], list[int]]:
    pairs: list[tuple[int, int]] = []
    try:
        for _ in (STDOUT, STDERR):
            pairs.append(os.pipe())
            os.set_blocking(pairs[-1][0], False)
    except OSError:
        for reader, writer in pairs:
            os.close(reader)
            os.close(writer)
        raise
    return [reader for reader, _ in pairs], [writer for _, writer in pairs]


async def _supervise(process: "subprocess.Popen[bytes]", pumps: Sequence["_Pump"], timeout_seconds: float) -> bool:
    """Wait for the process while its output is taken in. Returns whether it ran out of time."""
    exited = False
    try:
        async with anyio.create_task_group() as tasks:
            for pump in pumps:
                tasks.start_soon(pump.run)
            with anyio.move_on_after(timeout_seconds):
                await _wait_for_exit(process)
                exited = True
            if not exited:
                await terminate_groups([process.pid], leader=process)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            if process.poll() is None:
                await terminate_groups([process.pid], leader=process)
    return not exited


async def _wait_for_exit(process: "subprocess.Popen[bytes]") -> None:
    """Wait and reap. A descriptor of the process (Linux) makes that far cheaper than a thread, or asyncio's own way."""
    descriptor = _open_process_descriptor(process.pid)
    if descriptor is None:
        await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)
    process.wait()


def _open_process_descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        # Another system than Linux, one that is too old, or a sandbox that forbids it.
        return None


class _Pump:
    """Moves what a command writes from a pipe into the capture."""

    def __init__(self, reader: int, stream: int, capture: OutputCapture, on_output: OutputCallback | None) -> None:
        self._reader = reader
        self._stream = stream
        self._capture = capture
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    async def run(self) -> None:
        """Until the last writer closes the pipe, or until cancelled."""
        while True:
            await anyio.wait_readable(self._reader)
            if self._read(_CHUNK) == 0:
                return

    def drain(self) -> None:
        """Take what was written before the process exited, and none of what background children go on to write."""
        remaining = _readable_bytes(self._reader)
        while remaining > 0:
            count = self._read(min(remaining, _CHUNK))
            if not count:
                break
            remaining -= count
        self._report(b"", final=True)

    def _read(self, size: int) -> int | None:
        try:
            chunk = os.read(self._reader, size)
        except BlockingIOError:
            return None
        if chunk:
            self._capture.write(self._stream, chunk)
            self._report(chunk)
        return len(chunk)

    def _report(self, chunk: bytes, *, final: bool = False) -> None:
        if self._on_output is not None:
            text = self._decoder.decode(chunk, final)
            if text:
                self._on_output(text)


def _readable_bytes(descriptor: int) -> int:
    count: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0)))[0]
    return count


def _exit_code(returncode: int | None) -> int:
    assert returncode is not None
    return 128 - returncode if returncode < 0 else returncode
