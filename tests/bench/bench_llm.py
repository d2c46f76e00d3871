"""What a call and a chunk of a stream cost beside raw httpx and json: CPU of this process, and memory.

The provider runs in a process of its own, see provider_server.py. Ours and the raw client take turns, and the median
of the turns' ratios counts: a machine that is slow for a while is slow for both.
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import httpx
import httpx2
from unified_llm import (
    AnthropicAdapter,
    Client,
    GeminiAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    Request,
    Role,
)

Row = tuple[str, float, str, float | None, float | None]
"""Name, value, unit, ratio to a baseline, and the limit that value or ratio must keep; None where there is none."""

Turns = list[tuple[str, str]]
SMALL: Turns = [("system", "You are a careful coding assistant."), ("user", "What does read_all do?")]
HISTORY: Turns = [*SMALL, *[("assistant", "a" * 2048), ("user", "u" * 2048)] * 20]
MODEL = "claude-opus-4-6"
ROUNDS = 15


@dataclass(frozen=True)
class Protocol:
    """How to speak it raw, and our adapter for it."""

    name: str
    path: str
    headers: dict[str, str]
    adapter: Callable[[str, Any], Any]
    body: Callable[[Turns], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]
    delta: Callable[[dict[str, Any]], str | None]
    stream_path: str = ""


def anthropic_body(turns: Turns) -> dict[str, Any]:
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns[1:]]
    return {"model": MODEL, "max_tokens": 4096, "system": turns[0][1], "messages": messages}


def gemini_body(turns: Turns) -> dict[str, Any]:
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[role], "parts": [{"text": text}]} for role, text in turns[1:]]
    return {"systemInstruction": {"parts": [{"text": turns[0][1]}]}, "contents": contents}


def responses_body(turns: Turns) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for number, (role, text) in enumerate(turns[1:]):
        if role == "user":
            items.append({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
        else:
            block = {"type": "output_text", "text": text, "annotations": []}
            head = {"type": "message", "id": f"msg_{number}", "status": "completed"}
            items.append({**head, "role": role, "content": [block]})
    return {"model": MODEL, "instructions": turns[0][1], "input": items}


PROTOCOLS = [
    Protocol(
        "anthropic",
        "/v1/messages",
        {"x-api-key": "key", "anthropic-version": "2023-06-01"},
        lambda root, http: AnthropicAdapter("key", base_url=root, http_client=http),
        anthropic_body,
        lambda answer: answer["content"][0]["text"],
        lambda event: event["delta"]["text"] if event["type"] == "content_block_delta" else None,
    ),
    Protocol(
        "chat",
        "/v1/chat/completions",
        {"authorization": "Bearer key"},
        lambda root, http: OpenAICompatibleAdapter("key", base_url=f"{root}/v1", http_client=http),
        lambda turns: {"model": MODEL, "messages": [{"role": role, "content": text} for role, text in turns]},
        lambda answer: answer["choices"][0]["message"]["content"],
        lambda event: event["choices"][0]["delta"].get("content") if event["choices"] else None,
    ),
    Protocol(
        "responses",
        "/v1/responses",
        {"authorization": "Bearer key"},
        lambda root, http: OpenAIAdapter("key", base_url=f"{root}/v1", http_client=http),
        responses_body,
        lambda answer: answer["output"][0]["content"][0]["text"],
        lambda event: event["delta"] if event["type"] == "response.output_text.delta" else None,
    ),
    Protocol(
        "gemini",
        f"/v1beta/models/{MODEL}:generateContent",
        {"x-goog-api-key": "key"},
        lambda root, http: GeminiAdapter("key", base_url=root, http_client=http),
        gemini_body,
        lambda answer: answer["candidates"][0]["content"]["parts"][0]["text"],
        lambda event: event["candidates"][0]["content"]["parts"][0]["text"],
        stream_path=f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
    ),
]


# What a caller may send through; the limits are those that our own clients have.
LIBRARIES: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
    "httpx": lambda: httpx.AsyncClient(limits=httpx.Limits(**LIMITS), timeout=60),
    "httpx2": lambda: httpx2.AsyncClient(limits=httpx2.Limits(**LIMITS), timeout=60),
    "aiohttp": lambda: aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)),
}
LIMITS: Any = {"max_connections": None, "max_keepalive_connections": 256}


class Ours:
    """A client as a user has it."""

    def __init__(self, protocol: Protocol, root: str, http: Any) -> None:
        self.client = Client({"p": protocol.adapter(root, http)}, default_provider="p")

    def prepare(self, turns: Turns) -> Request:
        return Request(model=MODEL, messages=[Message(role=Role(role), content=text) for role, text in turns])

    async def call(self, request: Request) -> str:
        return (await self.client.complete(request)).text

    async def stream(self, request: Request) -> AsyncIterator[str]:
        async for event in self.client.stream(request):
            if event.delta is not None:
                yield event.delta


class Raw:
    """httpx, json, and the least that reads server-sent events."""

    def __init__(self, protocol: Protocol, root: str, http: httpx.AsyncClient) -> None:
        self.protocol = protocol
        self.call_url = root + protocol.path
        self.stream_url = root + (protocol.stream_path or protocol.path)
        self.client = http

    def prepare(self, turns: Turns) -> Turns:
        return turns

    async def call(self, turns: Turns) -> str:
        answer = await self.client.post(self.call_url, json=self.protocol.body(turns), headers=self.protocol.headers)
        answer.raise_for_status()
        return self.protocol.text(json.loads(answer.content))

    async def stream(self, turns: Turns) -> AsyncIterator[str]:
        rest = b""
        body = {**self.protocol.body(turns), "stream": True}
        async with self.client.stream("POST", self.stream_url, json=body, headers=self.protocol.headers) as answer:
            answer.raise_for_status()
            async for data in answer.aiter_bytes():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: ") and line != b"data: [DONE]":
                        delta = self.protocol.delta(json.loads(line[6:]))
                        if delta:
                            yield delta


Contestant = Ours | Raw
Work = Callable[[Contestant, Any], Awaitable[object]]


async def call(contestant: Contestant, prepared: Any) -> None:
    assert len(await contestant.call(prepared)) == 1000


async def read(contestant: Contestant, prepared: Any) -> None:
    async for _ in contestant.stream(prepared):
        pass


def at_once(work: Work, count: int) -> Work:
    async def run(contestant: Contestant, prepared: Any) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(work, contestant, prepared)

    return run


def repeated(work: Work, count: int) -> Work:
    async def run(contestant: Contestant, prepared: Any) -> None:
        for _ in range(count):
            await work(contestant, prepared)

    return run


async def compare(
    protocol: Protocol, root: str, turns: Turns, work: Work, units: int, ours: str = "httpx", raw: str = "httpx"
) -> tuple[float, float]:
    """Milliseconds of our CPU per unit of the work, and how much that is of the raw client's; each works `units`.

    `ours` and `raw` name the libraries that the two send through.
    """
    costs: list[list[float]] = [[], []]
    async with LIBRARIES[raw]() as raw_http, LIBRARIES[ours]() as our_http:
        contestants: list[Contestant] = [Raw(protocol, root, raw_http), Ours(protocol, root, our_http)]
        prepared = [contestant.prepare(turns) for contestant in contestants]
        for turn in range(-2, ROUNDS):
            for index in (0, 1) if turn % 2 else (1, 0):
                gc.collect()
                begun = time.process_time()
                await work(contestants[index], prepared[index])
                # The first turns open connections and build validators.
                if turn >= 0:
                    costs[index].append((time.process_time() - begun) * 1000 / units)
    ratios = [our_cost / raw_cost for raw_cost, our_cost in zip(*costs, strict=True)]
    return statistics.median(costs[1]), statistics.median(ratios)


def memory() -> float:
    """Megabytes that this process holds now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2


async def grow_over_a_long_stream(root: str) -> float:
    """Megabytes by which the last 90,000 of 100,000 events grow the process. Their text is 0.45 MB of it."""
    async with LIBRARIES["httpx"]() as http:
        client = Ours(PROTOCOLS[0], f"{root}/100000", http)
        seen, begun, ended = 0, 0.0, 0.0
        async for _ in client.stream(client.prepare(SMALL)):
            seen += 1
            if seen == 10_000:
                begun = memory()
            elif seen == 100_000:
                ended = memory()
    return ended - begun


async def leave_behind(root: str) -> tuple[float, int]:
    """Megabytes by which 1,000 cancelled streams grow the process, and how many connections they leave open."""
    http = LIBRARIES["httpx"]()
    client = Ours(PROTOCOLS[0], f"{root}/20/held", http)

    async def cancel(streams: int) -> None:
        for _ in range(streams // 50):
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(read, client, client.prepare(SMALL))
                await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()

    async with http:
        await cancel(200)
        begun = memory()
        await cancel(1000)
        grown = memory() - begun
        async with httpx.AsyncClient() as other:
            for _ in range(100):
                # This connection is one; the provider may take a moment to see that ours are gone.
                left = int((await other.get(f"{root}/connections")).content) - 1
                if not left:
                    break
                await anyio.sleep(0.01)
    return grown, left


@contextmanager
def running_provider() -> Iterator[str]:
    """The address of a provider that runs meanwhile."""
    command = [sys.executable, str(Path(__file__).with_name("provider_server.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate()


def rows() -> Iterator[Row]:
    """Each protocol beside the raw client, then what only needs one of them."""
    with running_provider() as root:
        # First, as long as nothing that was freed hides what grows.
        if sys.platform == "linux":
            yield "llm: memory for 90,000 more events", anyio.run(grow_over_a_long_stream, root), "MB", None, 8.0
            grown, left = anyio.run(leave_behind, root)
            yield "llm: memory after 1,000 cancelled streams", grown, "MB", None, 1.0
            yield "llm: connections left by them", float(left), "", None, 0.0
        for protocol in PROTOCOLS:
            name = f"llm, {protocol.name}"
            cost, ratio = anyio.run(compare, protocol, f"{root}/1", SMALL, repeated(call, 20), 20)
            yield f"{name}: CPU per call", cost, "ms", ratio, 1.15
            cost, ratio = anyio.run(compare, protocol, f"{root}/1", HISTORY, repeated(call, 10), 10)
            yield f"{name}: CPU per call, 80 KB of history", cost, "ms", ratio, 1.15
            cost, ratio = anyio.run(compare, protocol, f"{root}/2000", SMALL, read, 2000)
            yield f"{name}: CPU per chunk of a stream", cost * 1000, "us", ratio, 1.3
        for library, limit in (("httpx2", 1.0), ("aiohttp", 0.5)):
            name = f"llm, through {library}"
            cost, ratio = anyio.run(compare, PROTOCOLS[0], f"{root}/1", SMALL, repeated(call, 20), 20, library)
            yield f"{name}: CPU per call", cost, "ms", ratio, limit
            cost, ratio = anyio.run(compare, PROTOCOLS[0], f"{root}/2000", SMALL, read, 2000, library)
            yield f"{name}: CPU per chunk of a stream", cost * 1000, "us", ratio, 1.3 * limit
        # The pool of httpx takes time that grows with the square of what is open: httpx2 is the measure for many.
        for library, limit in (("httpx2", 1.15), ("aiohttp", 0.5)):
            name = f"llm, through {library}, beside raw httpx2"
            cost, ratio = anyio.run(
                compare, PROTOCOLS[0], f"{root}/1/later", SMALL, at_once(call, 64), 64, library, "httpx2"
            )
            yield f"{name}: CPU per call, 64 at once", cost, "ms", ratio, limit
            cost, ratio = anyio.run(
                compare, PROTOCOLS[0], f"{root}/50/later", SMALL, at_once(read, 200), 200, library, "httpx2"
            )
            yield f"{name}: CPU per stream of 50 chunks, 200 at once", cost, "ms", ratio, 1.3 * limit
