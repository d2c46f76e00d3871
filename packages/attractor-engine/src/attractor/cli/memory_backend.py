"""Model stages that are told how the person works (`attractor run --memory`)."""

from agent_loop.personalization import PersonalizationError, PersonalMemory, open_store

from attractor.backends.base import CodergenBackend
from attractor.backends.personal import PersonalBackend
from attractor.cli.failure import CommandError


async def tell_backend(backend: CodergenBackend, path: str) -> CodergenBackend:
    """The backend, told from the memory at this path. Raises CommandError if that is none."""
    memory = PersonalMemory(store=open_store(path))
    try:
        await memory.load()
    except PersonalizationError as error:
        raise CommandError(f"{error}.") from error
    return PersonalBackend(backend, memory)
