"""A subdirectory of an environment, as an environment: the same files and commands, seen from there."""

import posixpath
from collections.abc import Mapping

from agent_loop.environments.base import ExecResult, ExecutionEnvironment, GrepOptions, OutputCallback
from agent_loop.environments.wrappers import EnvironmentWrapper


class SubdirectoryEnvironment(EnvironmentWrapper):
    """Works in `directory` (absolute, below the inner working directory). What may be written stays the inner's say."""

    def __init__(self, inner: ExecutionEnvironment, directory: str) -> None:
        super().__init__(inner)
        self._directory = directory

    def working_directory(self) -> str:
        """Absolute path."""
        return self._directory

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
        directory = self._place(working_dir or ".")
        return await super().exec_command(command, timeout_ms, directory, env_vars, on_output=on_output)

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment. Paths in the result are relative to this directory, not to the inner one."""
        found = await super().grep(pattern, path, options)
        prefix = posixpath.relpath(self._directory, self._inner.working_directory()) + "/"
        return "\n".join(line.removeprefix(prefix) for line in found.split("\n"))

    def _place(self, path: str) -> str:
        # A home directory is the inner environment's to find.
        return path if path.startswith("~") else posixpath.normpath(posixpath.join(self._directory, path))
