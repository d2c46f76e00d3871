"""The shell of a place that was looked at: commands and scripts, with the variables that they may see."""

import codecs
from collections.abc import Callable, Mapping, Sequence

from agent_loop.environments.base import OutputCallback
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.remote.command import MARKER, Call, End, Receive, run_call
from agent_loop.environments.remote.files import script_error
from agent_loop.environments.remote.place import Place, require_names
from agent_loop.environments.remote.program import end_processes, run_program, shell_arguments
from agent_loop.environments.variables import EnvironmentPolicy, filter_variables
from agent_loop.errors import ExecutionEnvironmentError

# A script that is not done by then is given up: a file of the size that may be read takes so long at 1 MB a second.
_SCRIPT_SECONDS = 300.0
# Linux takes no longer argument than 128 KiB.
_MAX_ARGUMENT_BYTES = 131_000


class Shell:
    """Runs things in a place. `marker` tells all that is started from what else runs there."""

    def __init__(self, place: Place, marker: str, policy: EnvironmentPolicy, variables: Mapping[str, str]) -> None:
        self.place = place
        self._marker = marker
        self._variables = variables
        inherited = filter_variables(place.variables, policy)
        self._unset = sorted(name for name in place.variables if name not in inherited)

    async def run(
        self, command: str, directory: str, variables: Mapping[str, str], receive: Receive, timeout_seconds: float
    ) -> End:
        """Run a command line of a user's. Raises what `run_call` raises."""
        variables = {**self._variables, **variables}
        require_names(variables)
        if max(len(text.encode(errors="replace")) for text in (command, *variables.values())) > _MAX_ARGUMENT_BYTES:
            raise ExecutionEnvironmentError(
                "the command or a variable is longer than the system takes; write it to a file, and run that"
            )
        call = Call(
            arguments=[self.place.shell, "-c", command],
            directory=directory,
            marker=self._marker,
            variables=variables,
            unset=self._unset,
        )
        return await run_call(self.place.transport, call, receive, timeout_seconds)

    async def script(self, script: str, *arguments: str) -> tuple[int, bytes, str]:
        """Run one of `scripts`. Returns its exit code, what it printed, and its complaints."""
        data: list[bytes] = []
        code, message = await self._script(script, arguments, data.append)
        return code, b"".join(data), message

    async def output(self, script: str, *arguments: str, receive: Callable[[bytes], object] | None = None) -> bytes:
        """What one of `scripts` prints, unless it is taken by `receive`.

        Raises what its exit code stands for; the first argument is what it is about.
        """
        data: list[bytes] = []
        code, message = await self._script(script, arguments, receive or data.append)
        if code:
            raise script_error(code, arguments[0], message)
        return b"".join(data)

    async def _script(
        self, script: str, arguments: Sequence[str], receive: Callable[[bytes], object]
    ) -> tuple[int, str]:
        noise: list[bytes] = []
        call = Call(arguments=shell_arguments(script, *arguments), directory="/", marker=self._marker, variables={})
        end = await run_call(
            self.place.transport,
            call,
            lambda stream, chunk: receive(chunk) if stream == STDOUT else noise.append(chunk),
            _SCRIPT_SECONDS,
        )
        if end.timed_out:
            raise ExecutionEnvironmentError(
                f"{self.place.transport.place} is not done with {arguments[0]} after {_SCRIPT_SECONDS:g} seconds"
            )
        return end.exit_code, " ".join(b"".join(noise).decode(errors="replace").split())

    async def send(self, script: str, *arguments: str, data: bytes) -> None:
        """Run one of `scripts` with stdin. It must end by itself when that breaks off. Raises as `output` does."""
        done = await run_program(
            self.place.transport, shell_arguments(script, *arguments), data, seconds=_SCRIPT_SECONDS
        )
        if done.exit_code:
            raise script_error(done.exit_code, arguments[0], done.message())

    async def end_all(self) -> None:
        """End whatever of it still runs. Raises ExecutionEnvironmentError if that can't be done."""
        await end_processes(self.place.transport, f"{MARKER}={self._marker}", [])


def receiver(capture: OutputCapture, on_output: OutputCallback | None) -> Receive:
    """Puts a command's output where it belongs."""
    if on_output is None:
        return capture.write
    report = on_output
    decoders = {stream: codecs.getincrementaldecoder("utf-8")(errors="replace") for stream in (STDOUT, STDERR)}

    def receive(stream: int, data: bytes) -> None:
        capture.write(stream, data)
        if text := decoders[stream].decode(data):
            report(text)

    return receive
