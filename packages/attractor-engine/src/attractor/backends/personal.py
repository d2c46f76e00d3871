"""Stages that know how the person they work for works."""

from agent_loop.personalization import PersonalMemory

from attractor.backends.base import CodergenBackend
from attractor.graph import Node
from attractor.outcome import Outcome
from attractor.state.context import Context


class PersonalBackend:
    """Puts the memory's block in front of each prompt of another backend, whatever that is: a session, a call, a
    program. The memory is read for each stage, and no run changes it. Raises PersonalizationError if it is damaged.
    """

    def __init__(self, backend: CodergenBackend, memory: PersonalMemory) -> None:
        self._backend = backend
        self._memory = memory

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        block = await self._memory.context()
        return await self._backend.run(node, f"{block}\n\n{prompt}" if block else prompt, context)
