"""Where tools run (section 4)."""

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
