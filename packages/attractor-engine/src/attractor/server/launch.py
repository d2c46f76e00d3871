"""What a run needs besides its pipeline, and where the server gets that from."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from attractor.backends.base import CodergenBackend
from attractor.graph import Graph
from attractor.handlers.base import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a request says of how its pipeline shall run. `context` has values to start with."""

    simulate: bool = False
    dry_run: bool = False
    auto_approve: bool = False
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a run is made with. `working_dir` is where commands run, None for the server's or the recorded one."""

    graph: Graph
    backend: CodergenBackend | None = None
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    auto_approve: bool = False
    dry_run: bool = False
    working_dir: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)


class Launcher(Protocol):
    """Turns wishes into options, any JSON that the run's manifest keeps, and options into what a run is made with.

    `open()` raises AttractorError if they can't be had, such as for want of a key; what it gives is closed on leaving.
    """

    def make_options(self, wishes: Wishes) -> dict[str, Any]: ...

    def open(self, graph: Graph, options: Mapping[str, Any]) -> AbstractAsyncContextManager[Launch]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLauncher:
    """Every run gets the same backend, which stays the caller's; None simulates."""

    backend: CodergenBackend | None = None
    working_dir: str | None = None

    def make_options(self, wishes: Wishes) -> dict[str, Any]:
        return {"simulate": wishes.simulate, "dry_run": wishes.dry_run, "auto_approve": wishes.auto_approve}

    @asynccontextmanager
    async def open(self, graph: Graph, options: Mapping[str, Any]) -> AsyncIterator[Launch]:
        simulated = bool(options.get("simulate") or options.get("dry_run"))
        yield Launch(
            graph=graph,
            backend=None if simulated else self.backend,
            auto_approve=bool(options.get("auto_approve")),
            dry_run=bool(options.get("dry_run")),
            working_dir=self.working_dir,
        )
