"""A Docker container as an execution environment (section 4.3), by the `docker` command."""

import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence

import anyio

from agent_loop.environments.remote.environment import RemoteEnvironment
from agent_loop.environments.remote.transport import CommandLineTransport, Transport, start_program
from agent_loop.environments.variables import EnvironmentPolicy
from agent_loop.errors import ExecutionEnvironmentError

# As the first process, a shell adopts and reaps what commands leave behind.
_IDLE = "trap exit TERM; while :; do sleep 3600 & wait $!; done"
# An image may have to be fetched.
_START_SECONDS = 600.0
_LABEL = "agent-loop"


class DockerExecutionEnvironment(RemoteEnvironment):
    """Files and commands of a container, relative to `working_dir` in it.

    Give an `image`, and `initialize()` starts a container, which the last `cleanup()` removes with all that is in it;
    or the name or id of a running `container`, which stays. `mount` is a directory of this machine that is to be
    `working_dir` there, so that work outlives the container. `run_arguments` go to `docker run` as they are:
    `--network=none`, `--memory=2g`, `--user=1000`. `docker` is the command, with options such as `--host` before the
    subcommand; podman will do. Variables of this machine stay here; see RemoteEnvironment for the other parameters.

    A container whose program was killed, so that `cleanup()` never ran, stays: `docker ps --filter label=agent-loop`.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        container: str | None = None,
        working_dir: str = "/workspace",
        mount: str | os.PathLike[str] | None = None,
        run_arguments: Sequence[str] = (),
        docker: Sequence[str] = ("docker",),
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
        writable_roots: Sequence[str] = (),
        allow_outside: bool = False,
    ) -> None:
        if (image is None) == (container is None):
            raise ValueError("give an image to start a container from, or a running container: one of the two")
        if container is not None and (mount is not None or run_arguments):
            raise ValueError("a container that runs already can't be given a mount or arguments")
        arguments = [f"--workdir={working_dir}", *run_arguments]
        if mount is not None:
            arguments.append(f"--mount=type=bind,source={os.path.abspath(mount)},target={working_dir}")
        host = _Container(docker, container) if image is None else _Container(docker, None, [*arguments, image])
        super().__init__(
            host,
            working_dir,
            policy=policy,
            variables=variables,
            writable_roots=writable_roots,
            allow_outside=allow_outside,
        )


class _Container:
    """Starts a container, unless there is one, and removes what it started."""

    def __init__(self, docker: Sequence[str], container: str | None, arguments: Sequence[str] = ()) -> None:
        self._docker = list(docker)
        self._container = container
        self._arguments = arguments
        self._started: str | None = None
        self.ends_processes = container is None

    async def start(self) -> Transport:
        name = self._container
        if name is None:
            # A name of our own, so that it can be removed even if the answer never comes.
            name = self._started = f"agent-loop-{uuid.uuid4().hex[:12]}"
            *options, image = self._arguments
            head = ["run", "--detach", "--rm", f"--name={name}", f"--label={_LABEL}", "--entrypoint=/bin/sh"]
            await self._run(*head, *options, image, "-c", _IDLE)
        # Without a shell in between: the guard's stdin is the connection itself.
        return CommandLineTransport(f"the container {name}", [*self._docker, "exec", "--interactive", name])

    async def stop(self) -> None:
        name, self._started = self._started, None
        if name is None:
            return
        try:
            await self._run("rm", "--force", "--volumes", name)
        except ExecutionEnvironmentError as error:
            # Where starting it had failed already.
            if "no such container" not in str(error).lower():
                raise

    async def _run(self, *arguments: str) -> None:
        with anyio.move_on_after(_START_SECONDS):
            process = await start_program([*self._docker, *arguments], stdin=subprocess.DEVNULL)
            async with process:
                assert process.stderr is not None
                message = b"".join([chunk async for chunk in process.stderr])
            if process.returncode == 0:
                return
            text = " ".join(message.decode(errors="replace").split())
            raise ExecutionEnvironmentError(f"docker {arguments[0]} failed: {text or process.returncode}")
        raise ExecutionEnvironmentError(f"docker {arguments[0]} is not done after {_START_SECONDS:g} seconds")
