"""From flags to the engine that proposes updates of a memory."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent_loop.personalization import ClaudeProcessEngine, ClientEngine, Engine
from unified_llm import Client, ConfigurationError, LocalAdapter, get_latest_model, required_variables

from attractor.cli.failure import CommandError
from attractor.cli.screen import open_screen

LOCAL = "local"
# The model on board has 4,096 tokens for question and answer together.
_LOCAL_CONVERSATION = 6_000
_CONVERSATION = 24_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """What the flags say: `kind` is client or claude."""

    kind: str = "client"
    provider: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEngine:
    """An engine, its model, and how many characters of a conversation it can take."""

    engine: Engine
    model: str
    max_conversation: int = _CONVERSATION


@asynccontextmanager
async def open_engine(choice: EngineChoice, environ: Mapping[str, str] = os.environ) -> AsyncIterator[OpenedEngine]:
    """The engine, ready to be asked; closed on leaving. Raises CommandError if it isn't there."""
    if choice.kind == "claude":
        yield OpenedEngine(engine=ClaudeProcessEngine(), model=choice.model)
        return
    provider = choice.provider
    try:
        configured = Client.from_env(environ)
        providers = dict(configured.providers)
        if provider == LOCAL:
            providers.setdefault(LOCAL, LocalAdapter())
        provider = provider or configured.default_provider or ""
        if provider not in providers:
            found = f"the provider {provider!r} is not configured" if provider else "no provider is configured"
            raise CommandError(
                f"{found}: set "
                f"{required_variables()}; or use the model on this machine with --provider local; or the program "
                "claude with --engine claude."
            )
        model = choice.model or _default_model(provider)
        async with Client(providers, default_provider=provider) as client:
            await _load(client.providers[provider])
            # The small model needs to be held to the answer's shape while it writes.
            small = provider == LOCAL
            yield OpenedEngine(
                engine=ClientEngine(client, structured=small, temperature=0.0 if small else None),
                model=model,
                max_conversation=_LOCAL_CONVERSATION if small else _CONVERSATION,
            )
    except ConfigurationError as error:
        raise CommandError(f"{error}.") from error


def _default_model(provider: str) -> str:
    if provider == LOCAL:
        return LOCAL
    latest = get_latest_model(provider)
    if latest is None:
        raise CommandError(f"no model of the provider {provider!r} is known: name one with --model.")
    return latest.id


async def _load(adapter: object) -> None:
    if isinstance(adapter, LocalAdapter):
        screen = open_screen(quiet=False)
        screen.begin(LOCAL, "loading the local model")
        try:
            await adapter.load()
        finally:
            screen.close()
