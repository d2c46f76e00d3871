"""Where tools run (section 4)."""

from agent_loop.environments.base import (
    DirEntry,
    ExecResult,
    ExecutionEnvironment,
    GrepOptions,
    OutputCallback,
)
from agent_loop.environments.local import LocalExecutionEnvironment
from agent_loop.environments.variables import EnvironmentPolicy

__all__ = [
    "DirEntry",
    "EnvironmentPolicy",
    "ExecResult",
    "ExecutionEnvironment",
    "GrepOptions",
    "LocalExecutionEnvironment",
    "OutputCallback",
]
