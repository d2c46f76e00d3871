"""An execution environment made of a transport: a POSIX shell somewhere else does all the work."""

import posixpath
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from agent_loop.environments.base import DirEntry, ExecResult, GrepOptions, OutputCallback
from agent_loop.environments.local_files import MAX_READ_BYTES, MAX_WHOLE_BYTES, decode_lines, read_text
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.files import Walk, directory_entries, script_error, walk_depth
from agent_loop.environments.remote.place import Host, look_at
from agent_loop.environments.remote.search import Glob, search_files
from agent_loop.environments.remote.shell import Shell, receiver
from agent_loop.environments.variables import EnvironmentPolicy
from agent_loop.errors import ExecutionEnvironmentError


class RemoteEnvironment:
    """Files and commands of a place that a host opens, relative to `working_dir`, an absolute path there.

    Reads anything there; file tools write only below `working_dir` and `writable_roots`, unless `allow_outside`.
    Commands see the variables of the place that the policy lets through, and `variables`. The place needs Linux with
    a POSIX shell and the usual tools, GNU's or busybox's. Beyond 16 MiB all output of a command is in a file on
    this machine, which `read_file` reads all the same.
    """

    def __init__(
        self,
        host: Host,
        working_dir: str,
        *,
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
        writable_roots: Sequence[str] = (),
        allow_outside: bool = False,
    ) -> None:
        if not posixpath.isabs(working_dir):
            raise ValueError(f"working_dir must be an absolute path, not {working_dir!r}")
        self._host = host
        self._directory = "/" + posixpath.normpath(working_dir).lstrip("/")
        self._policy = policy
        self._variables = dict(variables or {})
        self._roots = [] if allow_outside else [self._directory, *map(self._join, writable_roots)]
        self._id = uuid.uuid4().hex
        self._lock = anyio.Lock()
        self._open: Shell | None = None
        self._output_directory: str | None = None
        self._users = 0

    def working_directory(self) -> str:
        """Absolute path, in that place."""
        return self._directory

    def platform(self) -> str:
        """ "linux"."""
        return "linux"

    def os_version(self) -> str:
        """Such as "Linux 6.1.0", once it is initialized."""
        return self._open.place.system if self._open is not None else "Linux"

    async def initialize(self) -> None:
        """Raises ExecutionEnvironmentError if the place can't be reached or used."""
        async with self._lock:
            if self._open is None:
                try:
                    place = await look_at(await self._host.start(), self._directory)
                    self._open = Shell(place, self._id, self._policy, self._variables)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self._host.stop()
                    raise
            self._users += 1

    async def cleanup(self) -> None:
        """With the last user: end what was started there, and let go of the place.

        Raises ExecutionEnvironmentError if a process can't be ended, or the place can't be reached to do it.
        """
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._users = max(self._users - 1, 0)
                if not self._users:
                    await self._let_go()

    async def _let_go(self) -> None:
        shell, self._open = self._open, None
        directory, self._output_directory = self._output_directory, None
        try:
            if shell is not None and not self._host.ends_processes:
                await shell.end_all()
        finally:
            await self._host.stop()
            if directory is not None:
                await anyio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """See ExecutionEnvironment."""
        place = self._resolve(path)
        if self._output_directory is not None and posixpath.dirname(place) == self._output_directory:
            return await anyio.to_thread.run_sync(lambda: read_text(Path(place), offset, limit))
        if limit is None:
            return decode_lines(await self.read_bytes(place), place, offset, limit)
        bounds = [MAX_WHOLE_BYTES, max(offset or 1, 1), max(limit, 0), MAX_WHOLE_BYTES]
        data = await self._shell.output(scripts.READ_LINES, place, *map(str, bounds))
        if data[:1] == b"w":
            return decode_lines(data[1:], place, offset, limit)
        return decode_lines(data[1:], place, None, None)

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        place = self._resolve(path)
        data = await self._shell.output(scripts.READ, place, str(MAX_READ_BYTES))
        if len(data) > MAX_READ_BYTES:
            raise script_error(scripts.TOO_BIG, place)
        return data

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self.write_bytes(path, content.encode())

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        arguments = [self._resolve(path), str(len(data)), secrets.token_hex(8), *self._roots]
        await self._shell.send(scripts.WRITE, *arguments, data=data)

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._shell.output(scripts.DELETE, self._resolve(path), *self._roots)

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._shell.output(scripts.MOVE, self._resolve(source), self._resolve(target), *self._roots)

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        return bool(await self._shell.output(scripts.LOOK, self._resolve(path)))

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        walk = Walk(self._resolve(path), "", walk_depth(max(depth, 1)))
        return directory_entries(walk.entries(await self._shell.output(scripts.WALK, *walk.arguments)))

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment. The time counts from when the command has begun there."""
        directory = self._resolve(working_dir or ".")
        capture = OutputCapture(self._output_path)
        receive = receiver(capture, on_output)
        started = anyio.current_time()
        try:
            end = await self._shell.run(command, directory, env_vars or {}, receive, timeout_ms / 1000)
        finally:
            capture.close()
        return ExecResult(
            stdout=capture.text(STDOUT),
            stderr=capture.text(STDERR),
            exit_code=end.exit_code,
            timed_out=end.timed_out,
            duration_ms=round((anyio.current_time() - started) * 1000),
            output_file=capture.file_name,
            output_bytes=capture.total_bytes,
            output_file_bytes=capture.file_bytes if capture.file_bytes < capture.total_bytes else None,
        )

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment. Uses ripgrep where the place has it, with the same results without it."""
        return await search_files(self._shell, pattern, self._resolve(path), self._directory, options)

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        search = Glob(pattern, self._resolve(path))
        walk = Walk(search.directory, search.below, search.expression())
        code, output, message = await self._shell.script(scripts.WALK_FILES, *walk.arguments)
        if code:
            raise script_error(scripts.MISSING if code == scripts.NO_DIRECTORY else code, search.directory, message)
        return search.found(walk.entries(output))

    @property
    def _shell(self) -> Shell:
        if self._open is None:
            raise ExecutionEnvironmentError("the environment is not initialized: call `initialize()` first")
        return self._open

    def _join(self, path: str) -> str:
        # POSIX leaves two slashes at the beginning as they are.
        return "/" + posixpath.normpath(posixpath.join(self._directory, path)).lstrip("/")

    def _resolve(self, path: str) -> str:
        if "\0" in path:
            raise ExecutionEnvironmentError(f"no path holds a NUL: {path!r}")
        if path == "~" or path.startswith("~/"):
            path = self._shell.place.home + path[1:]
        return self._join(path)

    def _output_path(self) -> str:
        if self._output_directory is None:
            self._output_directory = tempfile.mkdtemp(prefix="agent-loop-")
        return self._output_directory
