"""Environments around another one (section 4.4): logging, and read-only."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from agent_loop.environments.base import DirEntry, ExecResult, ExecutionEnvironment, GrepOptions, OutputCallback
from agent_loop.environments.redaction import redact_command
from agent_loop.errors import PathNotAllowedError

_Result = TypeVar("_Result")


class EnvironmentWrapper:
    """Hands every call on to `inner`. Derive from it, and override what shall be different.

    Where only paths shall be, override `_place`, and `_entry` for what is deleted, moved or looked for: a directory's
    entry, which may be a symlink itself.
    """

    def __init__(self, inner: ExecutionEnvironment) -> None:
        self._inner = inner

    def working_directory(self) -> str:
        """Absolute path."""
        return self._inner.working_directory()

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
        return await self._inner.read_file(self._place(path), offset, limit)

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.write_file(self._place(path), content)

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        return await self._inner.read_bytes(self._place(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        await self._inner.write_bytes(self._place(path), data)

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.delete_file(self._entry(path))

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._inner.move_file(self._entry(source), self._entry(target))

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        return await self._inner.file_exists(self._entry(path))

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        return await self._inner.list_directory(self._place(path), depth)

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
        return await self._inner.exec_command(command, timeout_ms, working_dir, env_vars, on_output=on_output)

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment."""
        return await self._inner.grep(pattern, self._place(path), options)

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        return await self._inner.glob(pattern, self._place(path))

    def _place(self, path: str) -> str:
        """What `inner` calls the path."""
        return path

    def _entry(self, path: str) -> str:
        return self._place(path)


class ReadOnlyExecutionEnvironment(EnvironmentWrapper):
    """Refuses whatever would change a file: writing, deleting, moving.

    Commands run as before (section 4.4), and can write all that `inner` lets them write: nobody can tell from its text
    what a command will do. With `allow_commands=False` they are refused as well. To have commands that can't write, put
    this around a `SandboxExecutionEnvironment(..., read_only=True)`.
    """

    def __init__(self, inner: ExecutionEnvironment, *, allow_commands: bool = True) -> None:
        super().__init__(inner)
        self._allow_commands = allow_commands

    async def write_file(self, path: str, content: str) -> None:
        """Raises PathNotAllowedError."""
        raise _refusal(f"{path} was not written")

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Raises PathNotAllowedError."""
        raise _refusal(f"{path} was not written")

    async def delete_file(self, path: str) -> None:
        """Raises PathNotAllowedError."""
        raise _refusal(f"{path} was not deleted")

    async def move_file(self, source: str, target: str) -> None:
        """Raises PathNotAllowedError."""
        raise _refusal(f"{source} was not moved")

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment. Raises PathNotAllowedError if commands are not allowed."""
        if not self._allow_commands:
            raise _refusal("the command was not run")
        return await super().exec_command(command, timeout_ms, working_dir, env_vars, on_output=on_output)


def _refusal(what: str) -> PathNotAllowedError:
    return PathNotAllowedError(f"{what}: write operations are disabled in read-only mode")


class LoggingExecutionEnvironment(EnvironmentWrapper):
    """Logs each call when it ends (section 4.4): what was done, how it went, how long it took.

    INFO for commands, and for what changes a file; DEBUG for the rest, and for the start of a command; WARNING for what
    fails or runs out of time. `logger` is `logging.getLogger("agent_loop.environment")` unless given. For handlers that
    write JSON, records have the attributes `env_call`, `env_outcome` and `env_seconds`.

    Contents of files, output, and values of variables are never logged. Of commands is taken out what looks like a
    password or a key. `clock` counts seconds.
    """

    def __init__(
        self,
        inner: ExecutionEnvironment,
        logger: logging.Logger | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(inner)
        self._logger = logging.getLogger("agent_loop.environment") if logger is None else logger
        self._clock = clock

    async def initialize(self) -> None:
        """See ExecutionEnvironment."""
        await self._logged("initialize", super().initialize())

    async def cleanup(self) -> None:
        """See ExecutionEnvironment."""
        await self._logged("cleanup", super().cleanup())

    async def read_file(self, path: str, offset: int | None = None, limit: int | None = None) -> str:
        """See ExecutionEnvironment."""
        return await self._logged(f"read_file {path}", super().read_file(path, offset, limit))

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        what = f"write_file {path} ({len(content)} characters)"
        await self._logged(what, super().write_file(path, content), logging.INFO)

    async def read_bytes(self, path: str) -> bytes:
        """See ExecutionEnvironment."""
        return await self._logged(f"read_bytes {path}", super().read_bytes(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        what = f"write_bytes {path} ({len(data)} bytes)"
        await self._logged(what, super().write_bytes(path, data), logging.INFO)

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._logged(f"delete_file {path}", super().delete_file(path), logging.INFO)

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._logged(f"move_file {source} {target}", super().move_file(source, target), logging.INFO)

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment."""
        return await self._logged(f"file_exists {path}", super().file_exists(path))

    async def list_directory(self, path: str, depth: int = 1) -> list[DirEntry]:
        """See ExecutionEnvironment."""
        return await self._logged(f"list_directory {path}", super().list_directory(path, depth))

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
        names = f" with {', '.join(sorted(env_vars))}" if env_vars else ""
        what = f"exec_command {redact_command(command)!r} in {working_dir or self.working_directory()}{names}"
        self._logger.debug("%s: started", what)
        call = super().exec_command(command, timeout_ms, working_dir, env_vars, on_output=on_output)
        return await self._logged(what, call, logging.INFO)

    async def grep(self, pattern: str, path: str, options: GrepOptions) -> str:
        """See ExecutionEnvironment."""
        return await self._logged(f"grep {redact_command(pattern)!r} {path}", super().grep(pattern, path, options))

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        return await self._logged(f"glob {pattern!r} {path}", super().glob(pattern, path))

    async def _logged(self, what: str, call: Awaitable[_Result], level: int = logging.DEBUG) -> _Result:
        started = self._clock()
        try:
            result = await call
        except Exception as error:
            self._log(logging.WARNING, what, f"{type(error).__name__}", started)
            raise
        except BaseException:
            self._log(logging.INFO, what, "cancelled", started)
            raise
        match result:
            case ExecResult(timed_out=True):
                self._log(logging.WARNING, what, "timed out", started)
            case ExecResult(exit_code=code):
                self._log(level, what, f"exit code {code}", started)
            case _:
                self._log(level, what, "ok", started)
        return result

    def _log(self, level: int, what: str, outcome: str, started: float) -> None:
        seconds = self._clock() - started
        extra = {"env_call": what.partition(" ")[0], "env_outcome": outcome, "env_seconds": seconds}
        self._logger.log(level, "%s: %s in %.0f ms", what, outcome, seconds * 1000, extra=extra)
