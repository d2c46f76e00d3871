"""The local machine, confined: bubblewrap where it runs, else Landlock (Linux)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import anyio.to_thread

from agent_loop.environments import landlock
from agent_loop.environments.base import ExecResult, OutputCallback
from agent_loop.environments.local import LocalExecutionEnvironment, shell
from agent_loop.environments.local_files import resolve_links
from agent_loop.environments.variables import EnvironmentPolicy
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError

Backend = Literal["bubblewrap", "landlock"]

_Result = TypeVar("_Result")
SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
_PROBE_SECONDS = 20


class SandboxExecutionEnvironment(LocalExecutionEnvironment):
    """This machine (Linux), where commands and file tools change nothing but the working directory.

    Read they can that, the system's directories, and what `readable` names; to commands the rest is not there, or not
    to be opened. They write below `working_dir` (not at all if `read_only`), `writable_roots` and a private directory,
    their `TMPDIR` and `HOME`, that goes at cleanup. There is no network unless `allow_network`.

    `backend` is "bubblewrap" where `bwrap` runs, else "landlock"; naming one allows only that one. Where neither works,
    `initialize()` and every command raise ExecutionEnvironmentError: nothing ever runs unconfined. What the two leave
    open, and what they cost, tells docs/environments.md.
    """

    def __init__(
        self,
        working_dir: str | os.PathLike[str],
        *,
        backend: Backend | None = None,
        allow_network: bool = False,
        read_only: bool = False,
        readable: Sequence[str | os.PathLike[str]] = (),
        writable_roots: Sequence[str | os.PathLike[str]] = (),
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(working_dir, policy=policy, variables=variables, writable_roots=writable_roots)
        directory, *others = self._roots
        self._roots = others if read_only else self._roots
        # The resolver's configuration is often a link to where nothing else is readable.
        resolver = [os.path.realpath("/etc/resolv.conf")] if allow_network else []
        names = [*SYSTEM_DIRECTORIES, *resolver, *readable, directory]
        self._readable = [Path(os.path.abspath(name)) for name in names]
        self._allow_network = allow_network
        self._wanted = backend
        self._chosen: _Confinement | None = None
        self._choosing = anyio.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._filter: Path | None = None

    @property
    def backend(self) -> Backend | None:
        """What confines, once it has been tried."""
        return None if self._chosen is None else self._chosen.backend

    async def initialize(self) -> None:
        """Raises PathNotFoundError if there is no working directory, ExecutionEnvironmentError if nothing confines."""
        await super().initialize()
        try:
            await self._confinement()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.cleanup()
            raise

    async def cleanup(self) -> None:
        """With the last user: end what runs, and remove the private directory."""
        await super().cleanup()
        if self._users == 0:
            self._chosen = None
            if self._filter is not None:
                self._filter.unlink(missing_ok=True)
                self._filter = None
            if self._thread is not None:
                self._thread.shutdown(wait=False)
                self._thread = None

    async def exec_command(
        self,
        command: str,
        timeout_ms: int,
        working_dir: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        on_output: OutputCallback | None = None,
    ) -> ExecResult:
        """See ExecutionEnvironment. Takes about 40 ms more than without the sandbox."""
        directory = self._resolve(working_dir or ".")
        if not directory.is_dir():
            raise PathNotFoundError(f"the directory {directory} to run in does not exist")
        confinement = await self._confinement()
        variables = {**confinement.variables, **(env_vars or {})}
        argv = confinement.arguments([*shell(), command], str(directory))
        return await self._run(argv, directory, timeout_ms / 1000, variables, on_output)

    async def file_exists(self, path: str) -> bool:
        """See ExecutionEnvironment. What can't be read isn't there."""
        try:
            return await super().file_exists(path)
        except PathNotAllowedError:
            return False

    def _resolve(self, path: str) -> Path:
        resolved = super()._resolve(path)
        # A link may be looked at; where it leads is another matter.
        entry = resolve_links(resolved.parent) / resolved.name
        if not self._may_read(entry) or not self._may_read(resolve_links(resolved)):
            raise PathNotAllowedError(
                f"{path} lies outside what the sandbox lets be read; work in {self._directory}, and have temporary "
                f"files in {self._output_path()}"
            )
        return resolved

    def _may_read(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in (*self._readable, *self._roots, Path(self._output_path())))

    def _resolve_writable(self, path: str) -> Path:
        # Through `_resolve` it would be an error of reading, that says nothing about writing. A link may be deleted
        # wherever it leads.
        return self._require_writable(path, resolve_links(super()._resolve(path)))

    def _resolve_entry(self, path: str) -> Path:
        entry = super()._resolve(path)
        return self._require_writable(path, resolve_links(entry.parent) / entry.name)

    def _require_writable(self, path: str, target: Path) -> Path:
        if not any(target.is_relative_to(root) for root in (*self._roots, Path(self._output_path()))):
            raise PathNotAllowedError(f"{path} lies outside what the sandbox lets be written; nothing was changed")
        return target

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        """File tools run in a thread that the kernel confines too, if it can.

        So nobody can put a link in their way between the look at a path and its use.
        """
        if not landlock.landlock_version() >= landlock.LEAST_VERSION:
            return await super()._in_thread(work)
        if self._thread is None:
            writable = [str(root) for root in (*self._roots, self._output_path())]
            begin = partial(landlock.confine, [str(root) for root in self._readable], writable, network=False)
            self._thread = ThreadPoolExecutor(1, "agent-loop-sandbox", initializer=begin)
        return await anyio.to_thread.run_sync(self._thread.submit(work).result)

    async def _confinement(self) -> "_Confinement":
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await anyio.to_thread.run_sync(self._choose)
            return self._chosen

    def _choose(self) -> "_Confinement":
        private = self._output_path()
        if self._filter is None:
            # Not in the private directory, where commands could replace it.
            descriptor, name = tempfile.mkstemp(prefix="agent-loop-", suffix=".seccomp")
            self._filter = Path(name)
            with open(descriptor, "wb") as file:
                file.write(landlock.keyring_filter())
        reasons = []
        for backend in ("bubblewrap", "landlock"):
            if self._wanted not in (None, backend):
                continue
            confinement = _Confinement(
                backend=backend,
                readable=tuple(map(str, self._readable)),
                writable=tuple(map(str, self._roots)),
                private=private,
                filter=str(self._filter),
                network=self._allow_network,
            )
            reason = confinement.failure(str(self._directory), self._variables)
            if reason is None:
                return confinement
            reasons.append(f"{backend}: {reason}")
        raise ExecutionEnvironmentError(
            f"no sandbox can be had on this machine, and without one nothing is run ({'; '.join(reasons)}); install "
            "bubblewrap, allow unprivileged user namespaces, or use a kernel with Landlock (6.2 or later)"
        )


@dataclass(frozen=True, kw_only=True)
class _Confinement:
    """How to start a program so that it is confined. `private` is mounted at /tmp too, where there are mounts.

    `filter` is a file with the program for seccomp that bubblewrap sets.
    """

    backend: Backend
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    private: str
    filter: str
    network: bool

    @property
    def variables(self) -> dict[str, str]:
        return {"TMPDIR": self.private, "HOME": self.private}

    def arguments(self, argv: Sequence[str], directory: str) -> list[str]:
        """The command line that runs `argv` confined."""
        if self.backend == "landlock":
            rules = {
                "read": [*self.readable, "/proc"],
                "write": [*self.writable, self.private],
                "network": self.network,
            }
            return [sys.executable, "-I", "-S", landlock.__file__, json.dumps(rules), *argv]
        # bwrap dies of SIGTERM, and all with it. So that commands get their two seconds, it ignores the signal, and
        # what it runs does not.
        ignoring = ["/bin/sh", "-c", 'trap "" TERM; exec "$@" 9<"$0"', self.filter]
        return [*ignoring, *self._bubblewrap(directory), "--", "env", "--default-signal=TERM", *argv]

    def _bubblewrap(self, directory: str) -> list[str]:
        mounts: list[str] = []
        for path in self.readable:
            if path in SYSTEM_DIRECTORIES and os.path.islink(path):
                mounts += ["--symlink", os.readlink(path), path]
            else:
                mounts += ["--ro-bind-try", path, path]
        for path in self.writable:
            mounts += ["--bind", path, path]
        return [
            "bwrap",
            *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
            *(() if self.network else ("--unshare-net",)),
            # Root would keep its capabilities, by which mounts can be made writable.
            *("--cap-drop", "ALL"),
            *("--seccomp", "9"),
            *("--dev", "/dev", "--proc", "/proc"),
            *("--bind", self.private, "/tmp", "--bind", self.private, self.private),
            *mounts,
            *("--chdir", directory),
        ]

    def failure(self, directory: str, variables: Mapping[str, str]) -> str | None:
        """Why this doesn't work here, by trying. Blocking."""
        if self.backend == "landlock" and (version := landlock.landlock_version()) < landlock.LEAST_VERSION:
            return f"the kernel has version {version} of it, and {landlock.LEAST_VERSION} is needed"
        if self.backend == "bubblewrap" and shutil.which("bwrap", path=variables.get("PATH")) is None:
            return "the program bwrap is not installed"
        try:
            done = subprocess.run(
                self.arguments(["/bin/sh", "-c", "exit 42"], directory),
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return None if done.returncode == 42 else done.stderr.decode(errors="replace").strip() or "it fails"
