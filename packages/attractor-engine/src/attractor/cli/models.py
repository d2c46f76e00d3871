"""What answers the model stages of a run: nothing, a script, or what `providers.py` finds."""

import importlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.cli.output import write_note
from attractor.cli.screen import Screen
from attractor.cli.settings import Settings
from attractor.graph import Graph, Node
from attractor.transforms import apply_transforms
from attractor.validation.survey import Survey

CLI_AGENTS = ("claude", "codex", "gemini")
BACKENDS = ("agent", "llm", *CLI_AGENTS)
"""What `--backend` takes."""


@asynccontextmanager
async def open_backend(
    graph: Graph, settings: Settings, screen: Screen, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[CodergenBackend | None]:
    """What the settings ask for, ready to answer; closed on leaving. None if no stage of the graph asks a model.

    Raises CommandError, before anything runs, if a stage asks for a provider that is not configured, or has no model.
    """
    asking = find_asking(graph)
    if settings.script:
        scripted = SimulatedBackend.from_file(settings.script)
        for node_id in sorted(scripted.node_ids - {node.id for node in asking}):
            write_note(f"warning: the script names {node_id!r}, but no stage of that name asks a model.")
        yield scripted
    elif settings.simulated:
        yield SimulatedBackend()
    elif not asking:
        yield None
    else:
        async with AsyncExitStack() as stack:
            # Clients and agents take longer to import than most pipelines without them take to run.
            providers = importlib.import_module("attractor.cli.providers")
            backend: CodergenBackend = await providers.connect(graph, asking, settings, screen, stack, environ)
            yield backend


def find_asking(graph: Graph) -> list[Node]:
    """The nodes that ask a model, those of a type that nobody knows among them."""
    graph = apply_transforms(graph)
    survey = Survey(graph)
    return [node for node in graph.nodes.values() if survey.asks_model(node)]
