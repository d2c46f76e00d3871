"""A short program elsewhere, run to its end."""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from agent_loop.environments.output import STDERR, STDOUT
from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.transport import Transport
from agent_loop.errors import ExecutionEnvironmentError

# Whoever doesn't answer for so long, answers no more.
_SECONDS = 60.0
_END_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What a script did. `stdout` is what came after `scripts.BEGIN`."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    def message(self) -> str:
        """What it had to say, in one line."""
        return " ".join(self.stderr.decode(errors="replace").split()) or f"exit code {self.exit_code}"


def shell_arguments(script: str, *arguments: str) -> list[str]:
    """The program that runs a script with these as `$1` and so on."""
    return ["/bin/sh", "-c", script, "sh", *arguments]


async def run_program(
    transport: Transport, arguments: Sequence[str], stdin: bytes = b"", *, seconds: float = _SECONDS
) -> Finished:
    """Run a program that ends by itself, also when its stdin ends early. Raises ExecutionEnvironmentError."""
    outputs: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}

    async def read(stream: int) -> None:
        while chunk := await channel.receive(stream):
            outputs[stream].append(chunk)

    async def write() -> None:
        await channel.send(stdin)
        await channel.close_stdin()

    with anyio.move_on_after(seconds):
        async with transport.open(arguments) as channel:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, STDOUT)
                tasks.start_soon(read, STDERR)
                tasks.start_soon(write)
            code = await channel.wait()
        printed = b"".join(outputs[STDOUT])
        return Finished(code, printed.partition(scripts.BEGIN)[2], b"".join(outputs[STDERR]))
    told = " ".join(b"".join(outputs[STDERR]).decode(errors="replace").split())
    raise ExecutionEnvironmentError(
        f"{transport.place} does not answer for {seconds:g} seconds" + (f"; so far it says: {told}" if told else "")
    )


async def end_processes(
    transport: Transport, marker: str, groups: Sequence[str], *, seconds: float = _END_SECONDS
) -> None:
    """End these groups and all with the marker ("NAME=value") in their environment: SIGTERM, two seconds, SIGKILL.

    Raises ExecutionEnvironmentError if any is alive after that, or nobody can tell.
    """
    arguments = shell_arguments(scripts.END, marker, *groups)
    done = await run_program(transport, arguments, seconds=seconds)
    left = " ".join(done.stdout.decode(errors="replace").split())
    if done.exit_code != 0:
        raise ExecutionEnvironmentError(f"{transport.place}: processes could not be ended: {done.message()}")
    if left:
        raise ExecutionEnvironmentError(f"{transport.place}: these process groups could not be ended: {left}")
