"""Files in memory, and a shell that knows nothing else: `bashkit`, of the extra `agent-loop[memory]`."""

import pickle
import posixpath
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from agent_loop.environments.base import DirEntry, ExecResult, GrepOptions, OutputCallback
from agent_loop.environments.local_files import decode_lines
from agent_loop.environments.memory_files import MemoryFiles
from agent_loop.environments.memory_process import Answer, Search, arguments
from agent_loop.environments.memory_script import Script
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError

if TYPE_CHECKING:
    import bashkit

_Result = TypeVar("_Result")
_HOME = "/home/user"
_SEARCH_SECONDS = 60.0
# For each loop of the shell or of awk, which looks whether it shall stop only between its loops.
_MOST_ITERATIONS = 10_000_000


class MemoryExecutionEnvironment:
    """A file system that exists in this object alone, with a shell of its own: nothing of the machine can be reached.

    `files` are there from the beginning, by paths relative to `working_dir`; they, and what is written, stay as long as
    this object. `variables` is all that commands have in their environment, besides what a call adds. Every command has
    a new shell: about 160 commands of GNU's and the shell's, but no python3, git or compiler, and no network.

    Limits are bashkit's: 10 MB a file, 100 MB and 10,000 files in all, no line break in a name, output of 10 MB a
    command, 10 million rounds a loop. Background jobs are waited for; there are no processes that could stay. Raises
    ExecutionEnvironmentError if bashkit isn't installed.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        working_dir: str = "/workspace",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        if not posixpath.isabs(working_dir):
            raise ValueError(f"working_dir must be absolute, not {working_dir!r}")
        self._bashkit = _import_bashkit()
        self._directory = posixpath.normpath(working_dir)
        self._variables = {"HOME": _HOME, **(variables or {})}
        self._system = self._bashkit.FileSystem()
        self._files = MemoryFiles(self._system)
        for path in ("/tmp", _HOME, self._directory):
            if self._files.kind(path) is None:
                self._system.mkdir(path, recursive=True)
        for path, content in (files or {}).items():
            data = content.encode() if isinstance(content, str) else content
            self._files.write(self._writable(self._resolve(path), path), data)

    def working_directory(self) -> str:
        """Absolute path."""
        return self._directory

    def platform(self) -> str:
        """What the shell says of itself: "linux"."""
        return "linux"

    def os_version(self) -> str:
        """Such as "bashkit 0.20.1, a shell in memory"."""
        return f"bashkit {self._bashkit.__version__}, a shell in memory without python3, git or network"

    async def initialize(self) -> None:
        """Nothing to do."""

    async def cleanup(self) -> None:
        """Nothing to do: commands end with their calls, and the files stay to be looked at."""

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """See ExecutionEnvironment."""
        return decode_lines(await self.read_bytes(path), path, offset, limit)

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: self._files.read(self._resolve(path)))

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self.write_bytes(path, content.encode())

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment. Raises ExecutionEnvironmentError where a limit is passed."""
        await self._in_thread(
            lambda: self._files.write(self._writable(self._files.resolve(self._resolve(path)), path), data)
        )

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._in_thread(lambda: self._files.delete(self._entry(path)))

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._in_thread(lambda: self._files.move(self._entry(source), self._entry(target)))

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        resolved = self._resolve(path)
        return await self._in_thread(
            lambda: self._files.kind(self._files.resolve(resolved, follow_last=False)) is not None
        )

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: self._files.list_directory(self._resolve(path), depth))

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment. A command that passes one of the limits fails, and says so on stderr."""
        directory = self._resolve(working_dir or ".")
        self._files.require_directory(directory)
        make_shell = partial(self._shell, directory, {**self._variables, **(env_vars or {})})
        return await Script(make_shell, command, on_output).run(timeout_ms / 1000)

    def _shell(self, directory: str, variables: Mapping[str, str], builtins: Mapping[str, Any]) -> "bashkit.Bash":
        shell: bashkit.Bash = self._bashkit.Bash(
            cwd=directory,
            env=variables,
            # The other profiles stop at some number of commands or seconds, whatever the caller allows.
            profile=self._bashkit.ExecutionProfile.Interactive,
            max_commands=1_000_000_000,
            max_loop_iterations=_MOST_ITERATIONS,
            custom_builtins=builtins,
        )
        shell.mount("/", self._system)
        return shell

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment."""
        target = self._resolve(path)
        whole = await self._in_thread(lambda: self._files.searchable(target))
        files = await self._in_thread(lambda: [(one, name, self._files.read(one)) for one, name in whole])
        # A glob filter doesn't apply to a file that is named itself.
        filtered = [one for one, _ in whole] != [target]
        task = Search(pattern=pattern, options=options, base=self._directory, files=files, filtered=filtered)
        with anyio.move_on_after(_SEARCH_SECONDS):
            done = await anyio.run_process(arguments(), input=pickle.dumps(task), env={})
            answer: Answer = pickle.loads(done.stdout)
            if answer.exit_code:
                raise ExecutionEnvironmentError(answer.stderr)
            return answer.stdout
        raise ExecutionEnvironmentError("the search ran out of time; search a smaller part, or with another pattern")

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        return await self._in_thread(lambda: self._files.glob(pattern, self._resolve(path)))

    def _resolve(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = _HOME + path[1:]
        return posixpath.normpath(posixpath.join(self._directory, path))

    def _entry(self, path: str) -> str:
        """The entry of a directory, which may be a symlink itself."""
        return self._writable(self._files.resolve(self._resolve(path), follow_last=False), path)

    def _writable(self, resolved: str, path: str) -> str:
        if not PurePosixPath(resolved).is_relative_to(self._directory):
            raise PathNotAllowedError(
                f"{path} lies outside the working directory {self._directory}; file tools may not write there"
            )
        return resolved

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await anyio.to_thread.run_sync(work)


def _import_bashkit() -> Any:
    try:
        # An optional extra, so the import is here.
        import bashkit
    except ImportError:
        raise ExecutionEnvironmentError(
            "the in-memory environment needs the package bashkit, which is not installed; install agent-loop[memory]"
        ) from None
    return bashkit
