"""The contract between tools and the place where they run (section 4.1)."""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

OutputCallback = Callable[[str], None]
"""Called with pieces of a command's output as they come, stdout and stderr mixed. Must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """What a command did.

    `exit_code` is the shell's: 128 + n after signal n. A command's output is kept whole up to a bound that the
    environment sets; beyond it `stdout` and `stderr` hold its beginning and its end with a note between them, and
    `output_file` names a file with all of it. `output_bytes` counts everything that was written; if the
    file has less, `output_file_bytes` says how many of them, from the first on.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool = False
    duration_ms: int = 0
    output_file: str | None = None
    output_bytes: int = 0
    output_file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DirEntry:
    """An entry of a directory. `name` is relative to the directory listed; `size` is in bytes, None for directories."""

    name: str
    is_dir: bool
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepOptions:
    """How to search. `max_results` bounds the lines of output; `glob_filter` is matched as ripgrep's `--glob`."""

    glob_filter: str | None = None
    case_insensitive: bool = False
    max_results: int = 100
    output_mode: Literal["content", "files_with_matches", "count"] = "content"


@runtime_checkable
class ExecutionEnvironment(Protocol):
    """Files, commands and searches, somewhere.

    Paths are absolute, or relative to `working_directory()`. Methods raise `ExecutionEnvironmentError`s, whose text
    a model can act on, or `OSError`. Every method may be called concurrently.

    A session calls `initialize()` before its first use and `cleanup()` at its end. Several sessions may share an
    environment: calls come in pairs, and what is shared goes with the last `cleanup()`, after which no process that
    was started here is alive. Cancelling a call ends what it started, within three seconds.
    """

    async def initialize(self) -> None:
        """Make the environment ready."""
        ...

    async def cleanup(self) -> None:
        """End all processes and release everything."""
        ...

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """Text of a file as it stands, or `limit` lines of it from line `offset` (1-based) on.

        A byte order mark is not part of the text. Raises PathNotFoundError, PathNotAllowedError (no regular file),
        BinaryFileError.
        """
        ...

    async def write_file(self, path: str, content: str) -> None:
        """Create or replace a file with UTF-8 text, and make missing parent directories. See `write_bytes`."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Everything that is in a file. Raises PathNotFoundError, PathNotAllowedError."""
        ...

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Create or replace a file, wholly or not at all. Mode and symlinks of an existing file stay.

        Raises PathNotAllowedError for what lies outside the places that may be written.
        """
        ...

    async def delete_file(self, path: str) -> None:
        """Remove a regular file, or a symlink itself. Raises PathNotFoundError, PathNotAllowedError."""
        ...

    async def move_file(self, source: str, target: str) -> None:
        """Rename a regular file, and make missing parent directories of the target.

        Raises PathNotFoundError, and PathNotAllowedError also where the target exists or the source is a symlink.
        """
        ...

    async def file_exists(self, path: str) -> bool:
        """Whether there is anything at that path."""
        ...

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """Entries sorted by name, and those of subdirectories down to `depth` levels. Symlinks aren't followed."""
        ...

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """Run a command in the shell, with empty stdin, until it exits.

        It is not waited for background processes that it leaves behind. When `timeout_ms` passes, the whole process
        group is terminated, and killed two seconds later. `env_vars` are added to the filtered environment.
        """
        ...

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """Lines that match a regular expression, as `path:line:text`, or what `options.output_mode` asks for.

        Empty if nothing matches. Raises PathNotFoundError, and ExecutionEnvironmentError for an invalid pattern.
        """
        ...

    async def glob(self, pattern: str, path: str) -> list[str]:
        """Files below `path` that match the pattern, the most recently modified first."""
        ...

    def working_directory(self) -> str:
        """Absolute path."""
        ...

    def platform(self) -> str:
        """ "darwin", "linux", "windows" or "wasm"."""
        ...

    def os_version(self) -> str:
        """Name and version of the operating system, for people and models to read."""
        ...


def absolute_path(environment: ExecutionEnvironment, path: str) -> str:
    """The one name by which a path of that environment is known. What begins with a home directory stays as it is."""
    if path == "~" or path.startswith("~/"):
        return path
    return posixpath.normpath(posixpath.join(environment.working_directory(), path))
