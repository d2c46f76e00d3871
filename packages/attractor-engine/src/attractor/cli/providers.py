"""From flags and environment to the model, agent or program that stages ask; loaded only when a stage does ask."""

import importlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

from unified_llm import Client, ConfigurationError, LocalAdapter, Usage, cost_of, required_variables

from attractor.backends.agent import AgentBackend
from attractor.backends.base import CodergenBackend
from attractor.backends.cli_agent import CLI_FORMATS, CliAgentBackend
from attractor.backends.llm import LlmBackend
from attractor.cli.failure import CommandError
from attractor.cli.models import TOOL_LOOP
from attractor.cli.screen import Screen
from attractor.cli.settings import Settings
from attractor.cli.tool_loops import ToolLoops
from attractor.engine.execution import mirror_graph
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler
from attractor.state.context import Context

LOCAL = "local"


async def connect(
    graph: Graph,
    asking: Sequence[Node],
    settings: Settings,
    screen: Screen,
    stack: AsyncExitStack,
    environ: Mapping[str, str],
) -> tuple[CodergenBackend, Mapping[str, Handler]]:
    """What answers the stages `asking`; whatever must be closed is left to `stack`. Raises CommandError."""
    if settings.backend in CLI_FORMATS:
        own = ToolLoops(None, "", settings)
        return await _with_memory(_create_cli_backend(settings, environ), settings), {TOOL_LOOP: own}
    client = await stack.enter_async_context(_create_client(settings, environ))
    backend = _create_backend(client, settings)
    if LOCAL in _choose_providers(graph, asking, client, backend):
        await _load_local_model(client, screen)
    loops = ToolLoops(client, _choose_model(client, settings), settings)
    return await _with_memory(backend, settings), {TOOL_LOOP: loops}


async def check_provider(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raises CommandError if the provider that the settings name can't be asked. No request is made."""
    if settings.provider and settings.backend not in CLI_FORMATS and not settings.simulated:
        async with _create_client(settings, environ):
            pass


def _create_client(settings: Settings, environ: Mapping[str, str]) -> Client:
    try:
        client = Client.from_env(environ)
        providers = dict(client.providers)
        if settings.provider == LOCAL and LOCAL not in providers:
            providers[LOCAL] = LocalAdapter()
        if settings.provider and settings.provider not in providers:
            raise CommandError(f"the provider {settings.provider!r} is not configured: {_ways_out()}.")
        return Client(providers, default_provider=settings.provider or client.default_provider)
    except ConfigurationError as error:
        raise CommandError(f"{error}.") from error


def _create_backend(client: Client, settings: Settings) -> AgentBackend | LlmBackend:
    """An agent unless the flags say otherwise; the small model on this machine can't use an agent's tools."""
    model = _choose_model(client, settings)
    if (settings.backend or ("llm" if client.default_provider == LOCAL else "agent")) == "llm":
        return LlmBackend(client, model=model, provider=settings.provider)
    return AgentBackend(client, model=model, provider=settings.provider, working_dir=settings.workdir or None)


def _choose_model(client: Client, settings: Settings) -> str:
    return settings.model or (LOCAL if client.default_provider == LOCAL else "")


async def _with_memory(backend: CodergenBackend, settings: Settings) -> CodergenBackend:
    """The backend, told how the person works if the settings name a memory. Raises CommandError if that is none."""
    if not settings.memory:
        return backend
    # Most runs have no memory, and need not wait until what it takes is loaded.
    told: CodergenBackend = await importlib.import_module("attractor.cli.memory_backend").tell_backend(
        backend, settings.memory
    )
    return told


def _create_cli_backend(settings: Settings, environ: Mapping[str, str]) -> CliAgentBackend:
    backend = CliAgentBackend(
        settings.backend,
        model=settings.model,
        working_dir=settings.workdir or None,
        options=shlex.split(settings.agent_options),
        environ=environ,
    )
    try:
        backend.find_executable()
    except PipelineConfigurationError as error:
        raise CommandError(f"{error}.") from error
    return backend


def _choose_providers(
    graph: Graph, asking: Iterable[Node], client: Client, backend: AgentBackend | LlmBackend
) -> set[str]:
    """The providers that the stages will ask. Raises CommandError for a stage that has none, or no model."""
    context = Context(mirror_graph(graph))
    chosen = set()
    for node in asking:
        wanted = node.llm_provider or context.get_string("graph.llm_provider") or client.default_provider
        if wanted is None:
            raise CommandError(f"stage {node.id!r} asks a model, and no provider is configured: {_ways_out()}.")
        if wanted not in client.providers:
            raise CommandError(
                f"stage {node.id!r} asks the provider {wanted!r}, which is not configured: {_ways_out()}."
            )
        try:
            model, provider = backend.resolve_model(node, context)
        except ConfigurationError as error:
            raise CommandError(f"{error}; --model names one for all stages that have none.") from error
        if "max_cost" in graph.attrs and cost_of(Usage(input_tokens=1, output_tokens=1, total_tokens=2), model) is None:
            raise CommandError(
                f"stage {node.id!r} asks the model {model!r}, whose price is unknown, so that max_cost can't be kept; "
                "set max_tokens of the graph instead."
            )
        chosen.add(provider or wanted)
    return chosen


def _ways_out() -> str:
    return (
        f"set {required_variables()}; or use the model on this machine with --provider local; or run without one with "
        "--simulate"
    )


async def _load_local_model(client: Client, screen: Screen) -> None:
    adapter = client.providers[LOCAL]
    if isinstance(adapter, LocalAdapter):
        screen.begin(LOCAL, "loading the local model")
        try:
            await adapter.load()
        except ConfigurationError as error:
            raise CommandError(f"{error}.") from error
        finally:
            screen.end(LOCAL)
