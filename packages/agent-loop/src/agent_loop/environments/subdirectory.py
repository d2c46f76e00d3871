"""A subdirectory of an environment, as an environment: the same files and commands, seen from there."""

import posixpath
from collections.abc import Mapping

from agent_loop.environments.base import DirEntry, ExecResult, ExecutionEnvironment, GrepOptions, OutputCallback


class SubdirectoryEnvironment:
    """Works in `directory` (absolute, below the inner working directory). What may be written stays the inner's say."""

    def __init__(self, inner: ExecutionEnvironment, directory: str) -> None:
        self._inner = inner
        self._directory = directory

    def working_directory(self) -> str:
        """Absolute path."""
        return self._directory

    def platform(self) -> str:
        """See ExecutionEnvironment."""
        return self._inner.platform()

    def os_version(self) -> str:
        """See ExecutionEnvironment."""
        return self._inner.os_version()

    async def initialize(self) -> None:
        """See ExecutionEnvironment."""
        await self._inner.initialize()

    async def cleanup(self) -> None:
        """See ExecutionEnvironment."""
        await self._inner.cleanup()

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """See ExecutionEnvironment."""
        return await self._inner.read_file(self._absolute(path), offset, limit)

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.write_file(self._absolute(path), content)

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        return await self._inner.read_bytes(self._absolute(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        await self._inner.write_bytes(self._absolute(path), data)

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.delete_file(self._absolute(path))

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.move_file(self._absolute(source), self._absolute(target))

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        return await self._inner.file_exists(self._absolute(path))

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        return await self._inner.list_directory(self._absolute(path), depth)

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment."""
        directory = self._absolute(working_dir or ".")
        return await self._inner.exec_command(command, timeout_ms, directory, env_vars, on_output=on_output)

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment. Paths in the result are relative to this directory, not to the inner one."""
        found = await self._inner.grep(pattern, self._absolute(path), options)
        prefix = posixpath.relpath(self._directory, self._inner.working_directory()) + "/"
        return "\n".join(line.removeprefix(prefix) for line in found.split("\n"))

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        return await self._inner.glob(pattern, self._absolute(path))

    def _absolute(self, path: str) -> str:
        # A home directory is the inner environment's to find.
        return path if path.startswith("~") else posixpath.normpath(posixpath.join(self._directory, path))
