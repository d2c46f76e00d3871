"""What answers the questions of `prompts`: one method wide, so that two transports can be held to the same.

An engine that had more ways to ask would drift from the other, and comparing them would measure that.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from anyio.abc import Process
from unified_llm import Client, ResponseFormat, SDKError, generate

from agent_loop.errors import EngineError
from agent_loop.personalization.prompts import Prompt

CLAUDE_SECONDS = 300.0
_STDERR_SHOWN = 400


class Engine(Protocol):
    """`name` goes into the provenance of what is stored."""

    @property
    def name(self) -> str: ...

    async def call(self, system: str, user: str, model: str, max_tokens: int) -> str:
        """The model's answer. `system` and `user` must get to it in these roles. Raises EngineError."""


class ClientEngine:
    """Any model that a unified_llm Client reaches. The client stays the caller's to close.

    `structured` holds the model to the answer's schema while it writes, beside what the prompt says: small models need
    that. `temperature` of None leaves the provider's default alone.
    """

    def __init__(
        self,
        client: Client,
        *,
        provider: str | None = None,
        structured: bool = False,
        temperature: float | None = None,
    ) -> None:
        self._client = client
        self._provider = provider or client.default_provider
        self._temperature = temperature
        self.structured = structured

    @property
    def name(self) -> str:
        return self._provider or "client"

    async def call(
        self, system: str, user: str, model: str, max_tokens: int, *, schema: Mapping[str, Any] | None = None
    ) -> str:
        shape = ResponseFormat(type="json_schema", json_schema=dict(schema)) if schema is not None else None
        try:
            result = await generate(
                model,
                user,
                system=system,
                client=self._client,
                provider=self._provider,
                max_tokens=max_tokens,
                temperature=self._temperature,
                response_format=shape,
            )
        except SDKError as error:
            raise EngineError(f"{self.name} gave no answer: {error}") from error
        return result.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeProcessEngine:
    """The program `claude` on this machine, which works with the subscription that it is signed in to, without a key.

    It gets no tools and works in an empty directory, so that no project's instructions come into it. The user's part
    goes to its standard input, as arguments are there for every user of the machine to read. `variables` are its
    environment, by default this process's. A call takes at most `timeout` seconds; running out of time and cancelling
    end the process and its children.
    """

    command: Sequence[str] = ("claude",)
    timeout: float = CLAUDE_SECONDS
    variables: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        return "claude"

    async def call(self, system: str, user: str, model: str, max_tokens: int) -> str:
        with tempfile.TemporaryDirectory(prefix="personal-memory-") as folder:
            process = await self._start(system, model, max_tokens, folder)
            out, err = await self._ask(process, user)
        if process.returncode != 0:
            said = (err or out).decode("utf-8", "replace").strip()[-_STDERR_SHOWN:]
            raise EngineError(f"{self.command[0]} ended with status {process.returncode}: {said or 'it said nothing'}")
        return out.decode("utf-8", "replace")

    async def _start(self, system: str, model: str, max_tokens: int, folder: str) -> Process:
        argv = [*self.command, "-p", "--output-format", "text", "--tools", "", "--system-prompt", system]
        environment = {**(os.environ if self.variables is None else self.variables)}
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(max_tokens)
        try:
            # Cancelled half-way, the event loop would end the process, and not what the process has started by then.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [*argv, *(["--model", model] if model else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise EngineError(
                f"{self.command[0]} can't be started: {error.strerror}; install it, or put it in PATH"
            ) from error
        return process

    async def _ask(self, process: Process, user: str) -> tuple[bytes, bytes]:
        """Both outputs; the process has ended, one way or the other."""
        finished = False
        async with process:
            try:
                with anyio.fail_after(self.timeout):
                    answer = await _converse(process, user.encode("utf-8", "replace"))
                finished = True
            except TimeoutError as error:
                raise EngineError(f"{self.command[0]} gave no answer within {self.timeout:g} seconds") from error
            finally:
                if not finished:
                    _kill_group(process)
        return answer


async def ask(engine: Engine, prompt: Prompt, model: str) -> str:
    """The engine's answer to the prompt. Raises EngineError."""
    if isinstance(engine, ClientEngine) and engine.structured:
        return await engine.call(prompt.system, prompt.user, model, prompt.max_tokens, schema=prompt.schema)
    return await engine.call(prompt.system, prompt.user, model, prompt.max_tokens)


async def _converse(process: Process, question: bytes) -> tuple[bytes, bytes]:
    """Write, and read both outputs meanwhile, so that no pipe fills up; wait for the end."""
    answers = {"out": b"", "err": b""}

    async def read(name: str) -> None:
        stream = process.stdout if name == "out" else process.stderr
        assert stream is not None
        answers[name] = b"".join([chunk async for chunk in stream])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, "out")
        tasks.start_soon(read, "err")
        assert process.stdin is not None
        # One that ends without reading tells why by its status and its words.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError):
            await process.stdin.send(question)
            await process.stdin.aclose()
        await process.wait()
    return answers["out"], answers["err"]


def _kill_group(process: Process) -> None:
    """End the process and its children, those that outlived it too."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
