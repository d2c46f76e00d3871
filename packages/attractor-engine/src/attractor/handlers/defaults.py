"""The handlers that a run has unless it is given others."""

from pathlib import Path

from attractor.backends.base import CodergenBackend
from attractor.handlers.base import HandlerRegistry
from attractor.handlers.basic import ConditionalHandler, ExitHandler, StartHandler
from attractor.handlers.codergen import CodergenHandler
from attractor.handlers.tool import ToolHandler


def build_registry(
    backend: CodergenBackend | None = None, *, working_dir: str | Path | None = None, dry_run: bool = False
) -> HandlerRegistry:
    """One handler for each type that this package executes."""
    codergen = CodergenHandler(backend)
    return HandlerRegistry(
        {
            "start": StartHandler(),
            "exit": ExitHandler(),
            "conditional": ConditionalHandler(),
            "tool": ToolHandler(working_dir, dry_run=dry_run),
            "codergen": codergen,
        },
        default_handler=codergen,
    )
