"""From flags and environment to what answers the model stages."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from unified_llm import Client, ConfigurationError, LocalAdapter

from attractor.backends.base import CodergenBackend
from attractor.backends.llm import LlmBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.cli.failure import CommandError
from attractor.cli.screen import Screen
from attractor.cli.settings import Settings
from attractor.graph import Graph, to_text
from attractor.transforms import apply_transforms

BACKENDS = ["llm"]
LOCAL = "local"


@asynccontextmanager
async def open_backend(
    graph: Graph, settings: Settings, screen: Screen, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[CodergenBackend | None]:
    """What the settings ask for, ready to answer; closed on leaving. None if no stage of the graph asks a model.

    Raises CommandError, before anything runs, if a stage asks for a provider that is not configured.
    """
    async with AsyncExitStack() as stack:
        if settings.script:
            yield SimulatedBackend.from_file(settings.script)
        elif settings.simulated:
            yield SimulatedBackend()
        elif needed := _needed_providers(graph, settings):
            client = await stack.enter_async_context(_create_client(settings, environ))
            _refuse_unconfigured(needed, client)
            if LOCAL in {name or client.default_provider for name in needed.values()}:
                await _load_local_model(client, screen)
            model = settings.model or (LOCAL if client.default_provider == LOCAL else "")
            yield LlmBackend(client, model=model, provider=settings.provider)
        else:
            yield None


def _needed_providers(graph: Graph, settings: Settings) -> dict[str, str]:
    """Each node that asks a model, and the provider that it is bound to ask, if any."""
    graph = apply_transforms(graph)
    default = to_text(graph.attrs.get("llm_provider")) or settings.provider
    return {
        node.id: node.llm_provider or default for node in graph.nodes.values() if graph.handler_type(node) == "codergen"
    }


def _create_client(settings: Settings, environ: Mapping[str, str]) -> Client:
    try:
        client = Client.from_env(environ)
        providers = dict(client.providers)
        if settings.provider == LOCAL and LOCAL not in providers:
            providers[LOCAL] = LocalAdapter()
        default = settings.provider or client.default_provider
        return Client(providers, default_provider=default if default in providers else None)
    except ConfigurationError as error:
        raise CommandError(f"{error}.") from error


def _refuse_unconfigured(needed: Mapping[str, str], client: Client) -> None:
    for node_id, name in needed.items():
        provider = name or client.default_provider
        if provider is None:
            raise CommandError(f"stage {node_id!r} asks a model, and no provider is configured: {_ways_out()}.")
        if provider not in client.providers:
            raise CommandError(
                f"stage {node_id!r} asks the provider {provider!r}, which is not configured: {_ways_out()}."
            )


def _ways_out() -> str:
    return (
        "set ANTHROPIC_API_KEY, or OPENAI_COMPATIBLE_BASE_URL (and OPENAI_COMPATIBLE_API_KEY) for a server that speaks "
        "Chat Completions; or use the model on this machine with --provider local; or run without one with --simulate"
    )


async def _load_local_model(client: Client, screen: Screen) -> None:
    adapter = client.providers[LOCAL]
    if isinstance(adapter, LocalAdapter):
        screen.busy("loading the local model")
        try:
            await adapter.load()
        except ConfigurationError as error:
            raise CommandError(f"{error}.") from error
        finally:
            screen.busy("")
