"""The local machine as an execution environment (section 4.2)."""

import errno
import os
import platform
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from agent_loop.environments import local_files
from agent_loop.environments.base import DirEntry, ExecResult, GrepOptions, OutputCallback
from agent_loop.environments.local_grep_process import read_result, search_command
from agent_loop.environments.local_search import (
    glob_files,
    ripgrep_arguments,
    ripgrep_output,
)
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.process import run_command
from agent_loop.environments.process_group import signal_group, terminate_marked
from agent_loop.environments.variables import EnvironmentPolicy, filter_variables
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError

_Result = TypeVar("_Result")
_SEARCH_SECONDS = 60.0
# In the environment of every command, so that cleanup finds also the processes that left their group.
_MARKER = "AGENT_LOOP_ENVIRONMENT"


class LocalExecutionEnvironment:
    """Direct access to files and commands of this machine (POSIX), relative to `working_dir`.

    Anything may be read, but file tools write only below `working_dir` and `writable_roots`, unless `allow_outside` is
    set. This keeps a model from accidents; it is no sandbox, for commands can write wherever the user can.
    `variables` are the environment variables that the policy filters; those of this process by default.
    """

    def __init__(
        self,
        working_dir: str | os.PathLike[str],
        *,
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
        writable_roots: Sequence[str | os.PathLike[str]] = (),
        allow_outside: bool = False,
    ) -> None:
        self._directory = Path(os.path.abspath(working_dir))
        self._variables = filter_variables(os.environ if variables is None else variables, policy)
        self._roots = [Path(root).resolve() for root in (self._directory, *writable_roots)]
        self._allow_outside = allow_outside
        self._id = uuid.uuid4().hex
        self._groups: set[int] = set()
        self._output_directory: str | None = None
        self._users = 0

    def working_directory(self) -> str:
        """Absolute path."""
        return str(self._directory)

    def platform(self) -> str:
        """ "linux", "darwin" or "windows"."""
        return platform.system().lower()

    def os_version(self) -> str:
        """Such as "Linux 6.1.0"."""
        return f"{platform.system()} {platform.release()}"

    async def initialize(self) -> None:
        """Raises PathNotFoundError if the working directory doesn't exist."""
        if not self._directory.is_dir():
            raise PathNotFoundError(f"the working directory {self._directory} does not exist")
        self._users += 1

    async def cleanup(self) -> None:
        """With the last user: end background processes, and remove the files that hold oversized output."""
        self._users = max(self._users - 1, 0)
        if self._users:
            return
        with anyio.CancelScope(shield=True):
            groups, self._groups = self._groups, set()
            await terminate_marked(f"{_MARKER}={self._id}", groups)
            if self._output_directory is not None:
                directory, self._output_directory = self._output_directory, None
                await anyio.to_thread.run_sync(lambda: shutil.rmtree(directory, ignore_errors=True))

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: local_files.read_text(self._resolve(path), offset, limit))

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: local_files.read_bytes(self._resolve(path)))

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self.write_bytes(path, content.encode())

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        await self._in_thread(lambda: local_files.write_bytes(self._resolve_writable(path), data))

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._in_thread(lambda: local_files.delete(self._resolve_entry(path)))

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._in_thread(lambda: local_files.move(self._resolve_entry(source), self._resolve_entry(target)))

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: os.path.lexists(self._resolve(path)))

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: local_files.list_directory(self._resolve(path), depth))

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment. Output beyond 16 MiB goes to a file that `cleanup()` removes."""
        directory = self._resolve(working_dir or ".")
        if not directory.is_dir():
            raise PathNotFoundError(f"the directory {directory} to run in does not exist")
        argv = [*shell(), command]
        return await self._run(argv, directory, timeout_ms / 1000, env_vars or {}, on_output)

    async def _run(
        self,
        argv: Sequence[str],
        directory: Path,
        timeout_seconds: float,
        variables: Mapping[str, str],
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        capture = OutputCapture(self._output_path)
        started = anyio.current_time()
        try:
            done = await run_command(
                argv,
                cwd=str(directory),
                env={**self._variables, **variables, _MARKER: self._id},
                timeout_seconds=timeout_seconds,
                capture=capture,
                on_output=on_output,
            )
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            raise ExecutionEnvironmentError(
                "the command or a variable is longer than the system takes; write it to a file, and run that"
            ) from None
        finally:
            capture.close()
        self._groups = {group for group in (*self._groups, done.group) if signal_group(group, 0)}
        return ExecResult(
            stdout=capture.text(STDOUT),
            stderr=capture.text(STDERR),
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            duration_ms=round((anyio.current_time() - started) * 1000),
            output_file=capture.file_name,
            output_bytes=capture.total_bytes,
            output_file_bytes=capture.file_bytes if capture.file_bytes < capture.total_bytes else None,
        )

    def _output_path(self) -> str:
        if self._output_directory is None:
            self._output_directory = tempfile.mkdtemp(prefix="agent-loop-")
        return self._output_directory

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment. Uses ripgrep where it is installed, with the same results without it."""
        target = self._resolve(path)
        directory = local_files.search_directory(target)
        ripgrep = shutil.which("rg", path=self._variables.get("PATH"))
        if ripgrep is not None:
            arguments = ripgrep_arguments(pattern, "." if target.is_dir() else target.name, options)
            result = await self._search([ripgrep, *arguments], directory)
            # It fails at a pattern that it can't do, with lookaround for instance, or at a wrong one.
            if result.exit_code <= 1 or result.stdout:
                return ripgrep_output(result.stdout, directory, self._directory, options)
        result = await self._search(search_command(pattern, target, self._directory, options), directory)
        try:
            return read_result(result.stdout)
        except ValueError:
            raise ExecutionEnvironmentError(f"the search failed: {result.stderr.strip()[-500:]}") from None

    async def _search(self, argv: Sequence[str], directory: Path) -> ExecResult:
        result = await self._run(argv, directory, _SEARCH_SECONDS, {})
        if result.timed_out or result.output_file is not None:
            what = "ran out of time" if result.timed_out else "found too much"
            raise ExecutionEnvironmentError(f"the search {what}; search a smaller part, or with another pattern")
        return result

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: glob_files(pattern, self._resolve(path)))

    def _resolve(self, path: str) -> Path:
        # Other names may begin with a tilde as well, those of temporary files for instance.
        home = path == "~" or path.startswith("~/")
        return Path(os.path.normpath(self._directory / (Path(path).expanduser() if home else path)))

    def _resolve_writable(self, path: str) -> Path:
        return self._require_writable(path, local_files.resolve_links(self._resolve(path)))

    def _resolve_entry(self, path: str) -> Path:
        """The entry of a directory, which may be a symlink itself."""
        entry = self._resolve(path)
        return self._require_writable(path, local_files.resolve_links(entry.parent) / entry.name)

    def _require_writable(self, path: str, target: Path) -> Path:
        if not self._allow_outside and not any(target.is_relative_to(root) for root in self._roots):
            raise PathNotAllowedError(
                f"{path} lies outside the working directory {self._directory}; file tools may not write there"
            )
        return target

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await anyio.to_thread.run_sync(work)


def shell() -> list[str]:
    """The program that runs a command, which is its last argument."""
    return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c"]
