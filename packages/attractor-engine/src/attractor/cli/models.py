"""What answers the model stages of a run: nothing, a script, or what `providers.py` finds."""

import importlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.cli.output import write_note
from attractor.cli.screen import Screen
from attractor.cli.settings import Settings
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler
from attractor.handlers.codergen import CodergenHandler
from attractor.transforms import apply_transforms
from attractor.validation.survey import Survey

CLI_AGENTS = ("claude", "codex", "gemini")
TOOL_LOOP = "tool_loop"
BACKENDS = ("agent", "llm", *CLI_AGENTS)
"""What `--backend` takes."""


@dataclass(frozen=True, slots=True)
class Answering:
    """A backend for model stages, None if no stage asks a model; and handlers of those that ask in their own way."""

    backend: CodergenBackend | None = None
    handlers: Mapping[str, Handler] = field(default_factory=dict)


@asynccontextmanager
async def open_backend(
    graph: Graph, settings: Settings, screen: Screen, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Answering]:
    """What the settings ask for, ready to answer; closed on leaving.

    Raises CommandError, before anything runs, if a stage asks for a provider that is not configured, or has no model.
    """
    asking = find_asking(graph)
    if settings.script:
        scripted = SimulatedBackend.from_file(settings.script)
        for node_id in sorted(scripted.node_ids - {node.id for node in asking}):
            write_note(f"warning: the script names {node_id!r}, but no stage of that name asks a model.")
        yield _simulate(scripted)
    elif settings.simulated:
        yield _simulate(SimulatedBackend())
    elif not asking:
        yield Answering()
    else:
        async with AsyncExitStack() as stack:
            # Clients and agents take longer to import than most pipelines without them take to run.
            providers = importlib.import_module("attractor.cli.providers")
            yield Answering(*await providers.connect(graph, asking, settings, screen, stack, environ))


def _simulate(backend: SimulatedBackend) -> Answering:
    return Answering(backend, {TOOL_LOOP: CodergenHandler(backend)})


def find_asking(graph: Graph) -> list[Node]:
    """The nodes that ask a model, those of a type that nobody knows among them."""
    graph = apply_transforms(graph)
    survey = Survey(graph)
    return [node for node in graph.nodes.values() if survey.asks_model(node) or survey.handlers[node.id] == TOOL_LOOP]
