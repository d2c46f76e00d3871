"""Another machine as an execution environment (section 4.3), over SSH by asyncssh (the extra `ssh`)."""

import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from agent_loop.environments.output import STDERR, STDOUT
from agent_loop.environments.remote.environment import RemoteEnvironment
from agent_loop.environments.remote.transport import Channel, Transport
from agent_loop.environments.variables import EnvironmentPolicy
from agent_loop.errors import ExecutionEnvironmentError

if TYPE_CHECKING:
    import asyncssh

_CHUNK = 65_536
# OpenSSH's server takes ten sessions a connection unless it is told otherwise.
_CHANNELS = 8
_CLOSE_SECONDS = 1.0
# Without a sign of life for 45 seconds a connection counts as lost.
_DEFAULTS = {"connect_timeout": 30, "login_timeout": 30, "keepalive_interval": 15, "keepalive_count_max": 3}


class SSHExecutionEnvironment(RemoteEnvironment):
    """Files and commands of `host`, relative to `working_dir`, which exists there.

    Keys, user, port and the rest come from the user's SSH configuration and agent unless they are given. The host's key
    must be in the user's known_hosts, or in the file `known_hosts`. `options` go to `asyncssh.connect` as they are, for
    jump hosts and the like. A lost connection is an error of the calls under way, whose commands end there; the next
    call connects anew. Works on asyncio only. See RemoteEnvironment for the other parameters.
    """

    def __init__(
        self,
        host: str,
        working_dir: str,
        *,
        port: int | None = None,
        username: str | None = None,
        client_keys: Sequence[str | os.PathLike[str]] | None = None,
        password: str | None = None,
        known_hosts: str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
        writable_roots: Sequence[str] = (),
        allow_outside: bool = False,
    ) -> None:
        given: dict[str, Any] = {
            "port": port,
            "username": username,
            "client_keys": None if client_keys is None else [os.fspath(key) for key in client_keys],
            "password": password,
            "known_hosts": None if known_hosts is None else os.fspath(known_hosts),
        }
        # To asyncssh, None is not the same as nothing: it turns a check off.
        wanted = {name: value for name, value in given.items() if value is not None}
        super().__init__(
            _Connections(host, {**_DEFAULTS, **wanted, **(options or {})}),
            working_dir,
            policy=policy,
            variables=variables,
            writable_roots=writable_roots,
            allow_outside=allow_outside,
        )


RemoteSSHExecutionEnvironment = SSHExecutionEnvironment


class _Connections:
    """Connections to one host, each for several programs. Opens them as they are needed."""

    ends_processes = False

    def __init__(self, host: str, options: Mapping[str, Any]) -> None:
        self.place = f"the host {host}"
        self._host = host
        self._options = options
        self._lock = anyio.Lock()
        self._programs: dict[asyncssh.SSHClientConnection, int] = {}

    async def start(self) -> Transport:
        # A task's cancellation is told by the event loop that it runs on.
        if not anyio.get_cancelled_exc_class().__module__.startswith("asyncio"):
            raise ExecutionEnvironmentError("SSHExecutionEnvironment works on asyncio only, and this runs on trio")
        await self._pick()
        return self

    async def stop(self) -> None:
        connections, self._programs = list(self._programs), {}
        for connection in connections:
            connection.close()
        for connection in connections:
            with anyio.move_on_after(_CLOSE_SECONDS):
                await connection.wait_closed()

    @asynccontextmanager
    async def open(self, arguments: Sequence[str]) -> AsyncIterator[Channel]:
        """See Transport. What SSH sends is one line, for a shell to take apart again."""
        ssh = _import_asyncssh()
        line = shlex.join(arguments).encode(errors="surrogateescape")
        connection = await self._pick()
        try:
            process = await self._create(connection, line)
            if process is None:
                # It was lost without anyone noticing.
                connection = await self._pick()
                process = await self._create(connection, line)
        except (ssh.Error, OSError) as error:
            raise ExecutionEnvironmentError(f"{self.place} starts no program: {error}") from None
        if process is None:
            raise ExecutionEnvironmentError(f"{self.place} closes every connection at once")
        try:
            yield _ProgramChannel(process, (ssh.Error, OSError))
        finally:
            process.close()
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await process.wait_closed()
            self._release(connection)

    async def _create(
        self, connection: "asyncssh.SSHClientConnection", line: bytes
    ) -> "asyncssh.SSHClientProcess[bytes] | None":
        """None where the connection turns out to be closed."""
        self._programs[connection] = self._programs.get(connection, 0) + 1
        try:
            return await connection.create_process(line, encoding=None)
        except BaseException as error:
            self._release(connection)
            if isinstance(error, Exception) and connection.is_closed():
                return None
            raise

    def _release(self, connection: "asyncssh.SSHClientConnection") -> None:
        if connection in self._programs:
            self._programs[connection] -= 1

    async def _pick(self) -> "asyncssh.SSHClientConnection":
        async with self._lock:
            self._programs = {one: count for one, count in self._programs.items() if not one.is_closed()}
            for connection, count in self._programs.items():
                if count < _CHANNELS:
                    return connection
            connection = await self._connect()
            self._programs[connection] = 0
            return connection

    async def _connect(self) -> "asyncssh.SSHClientConnection":
        ssh = _import_asyncssh()
        try:
            connection: asyncssh.SSHClientConnection = await ssh.connect(self._host, **self._options)
            return connection
        except ssh.HostKeyNotVerifiable as error:
            raise ExecutionEnvironmentError(
                f"{self.place} is not trusted: {error}. If its key is right, add it to the known_hosts file"
            ) from None
        except ssh.PermissionDenied as error:
            raise ExecutionEnvironmentError(f"{self.place} refuses the login: {error}") from None
        except (ssh.Error, OSError, TimeoutError) as error:
            raise ExecutionEnvironmentError(f"{self.place} can't be reached: {error or 'no answer in time'}") from None


class _ProgramChannel:
    def __init__(self, process: "asyncssh.SSHClientProcess[bytes]", errors: tuple[type[BaseException], ...]) -> None:
        self._process = process
        self._readers = {STDOUT: process.stdout, STDERR: process.stderr}
        self._errors = errors
        self._is_told = False

    async def send(self, data: bytes) -> None:
        with suppress(*self._errors):
            for start in range(0, len(data), _CHUNK):
                self._process.stdin.write(data[start : start + _CHUNK])
                await self._process.stdin.drain()

    async def close_stdin(self) -> None:
        with suppress(*self._errors):
            self._process.stdin.write_eof()

    async def receive(self, stream: int) -> bytes:
        try:
            return await self._readers[stream].read(_CHUNK)
        except self._errors as error:
            if stream != STDERR or self._is_told:
                return b""
            # As a program would that carries the connection.
            self._is_told = True
            return str(error).encode()

    async def wait(self) -> int:
        with suppress(*self._errors):
            await self._process.wait_closed()
        code = self._process.returncode
        if code is None:
            return 255
        return code if code >= 0 else 128 - code


def _import_asyncssh() -> Any:
    try:
        # An optional extra.
        import asyncssh
    except ImportError:
        raise ExecutionEnvironmentError(
            "SSHExecutionEnvironment needs asyncssh: install agent-loop with its extra, `agent-loop[ssh]`"
        ) from None
    return asyncssh
