"""Where tools run (section 4).

Names are imported when first used, so that whoever works on this machine doesn't load what reaches others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_loop.environments.base import (
        DirEntry,
        ExecResult,
        ExecutionEnvironment,
        GrepOptions,
        OutputCallback,
    )
    from agent_loop.environments.docker import DockerExecutionEnvironment
    from agent_loop.environments.kubernetes import KubernetesExecutionEnvironment
    from agent_loop.environments.local import LocalExecutionEnvironment
    from agent_loop.environments.memory import MemoryExecutionEnvironment
    from agent_loop.environments.process_group import end_processes
    from agent_loop.environments.sandbox import SandboxExecutionEnvironment
    from agent_loop.environments.ssh import RemoteSSHExecutionEnvironment, SSHExecutionEnvironment
    from agent_loop.environments.variables import EnvironmentPolicy
    from agent_loop.environments.wasm import WasmExecutionEnvironment
    from agent_loop.environments.wrappers import (
        EnvironmentWrapper,
        LoggingExecutionEnvironment,
        ReadOnlyExecutionEnvironment,
    )
    from agent_loop.errors import (
        BinaryFileError,
        ExecutionEnvironmentError,
        PathNotAllowedError,
        PathNotFoundError,
    )

_HOMES = {
    "agent_loop.environments.base": ("DirEntry", "ExecResult", "ExecutionEnvironment", "GrepOptions", "OutputCallback"),
    "agent_loop.environments.docker": ("DockerExecutionEnvironment",),
    "agent_loop.environments.kubernetes": ("KubernetesExecutionEnvironment",),
    "agent_loop.environments.local": ("LocalExecutionEnvironment",),
    "agent_loop.environments.memory": ("MemoryExecutionEnvironment",),
    "agent_loop.environments.process_group": ("end_processes",),
    "agent_loop.environments.sandbox": ("SandboxExecutionEnvironment",),
    "agent_loop.environments.ssh": ("RemoteSSHExecutionEnvironment", "SSHExecutionEnvironment"),
    "agent_loop.environments.variables": ("EnvironmentPolicy",),
    "agent_loop.environments.wasm": ("WasmExecutionEnvironment",),
    "agent_loop.environments.wrappers": (
        "EnvironmentWrapper",
        "LoggingExecutionEnvironment",
        "ReadOnlyExecutionEnvironment",
    ),
    "agent_loop.errors": ("BinaryFileError", "ExecutionEnvironmentError", "PathNotAllowedError", "PathNotFoundError"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BinaryFileError",
    "DirEntry",
    "DockerExecutionEnvironment",
    "EnvironmentPolicy",
    "EnvironmentWrapper",
    "ExecResult",
    "ExecutionEnvironment",
    "ExecutionEnvironmentError",
    "GrepOptions",
    "KubernetesExecutionEnvironment",
    "LocalExecutionEnvironment",
    "LoggingExecutionEnvironment",
    "MemoryExecutionEnvironment",
    "OutputCallback",
    "PathNotAllowedError",
    "PathNotFoundError",
    "ReadOnlyExecutionEnvironment",
    "RemoteSSHExecutionEnvironment",
    "SSHExecutionEnvironment",
    "SandboxExecutionEnvironment",
    "WasmExecutionEnvironment",
    "end_processes",
]


def __getattr__(name: str) -> Any:
    if (module := _HOME_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
