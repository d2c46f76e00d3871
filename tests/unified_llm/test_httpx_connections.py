"""Connections of our own: taken, given back, let go and never left behind, against a server on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import httpx
import httpx2
import pytest
from unified_llm.provider_utils.httpx_client import HttpxClient, keep_client
from unified_llm.provider_utils.httpx_connections import IDLE_SECONDS, MAX_IDLE, Connections
from unified_llm.spec.request import AdapterTimeout

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
both_libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


class Server:
    """Answers `{}` once `width` requests wait for it."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self.url = ""
        self.connections = self.open = self.waiting = 0
        self.requests: list[bytes] = []
        self._full = anyio.Event()

    async def handle(self, connection: anyio.abc.SocketStream) -> None:
        self.connections += 1
        self.open += 1
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            async with connection:
                while True:
                    self.requests.append(await connection.receive())
                    self.waiting += 1
                    if self.waiting == self.width:
                        self._full.set()
                        self._full, self.waiting = anyio.Event(), 0
                    else:
                        await self._full.wait()
                    await connection.send(ANSWER)
        self.open -= 1


@asynccontextmanager
async def serving(width: int = 1) -> AsyncIterator[Server]:
    server = Server(width)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.handle)
        yield server
        tasks.cancel_scope.cancel()


def connections_of(library, clock=lambda: 0.0) -> Connections:
    return Connections(library, lambda: library.AsyncHTTPTransport(verify=False), clock)


async def call(connections: Connections, library, url: str) -> None:
    client = HttpxClient(connections, library)
    answer = await client.post(url, b"{}", {"x-api-key": "k"}, AdapterTimeout(), 100)
    assert (answer.status, answer.content) == (200, b"{}")


async def until(condition) -> None:
    with anyio.fail_after(5):
        while not condition():
            await anyio.lowlevel.checkpoint()


@both_libraries
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_calls_at_once_have_a_connection_each_and_later_calls_use_them_again(library):
    connections = connections_of(library)
    async with serving(width=40) as server:
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                for _ in range(40):
                    tasks.start_soon(call, connections, library, server.url)
        assert server.connections == 40
        await connections.aclose()
        assert connections.is_closed


@both_libraries
async def test_calls_one_after_the_other_use_one_connection(library):
    connections = connections_of(library)
    async with serving() as server:
        for _ in range(5):
            await call(connections, library, server.url)
        assert server.connections == 1
        await connections.aclose()


@both_libraries
async def test_a_request_has_the_headers_of_the_librarys_client(library):
    connections = connections_of(library)
    async with serving() as server:
        await call(connections, library, server.url)
        async with library.AsyncClient() as client:
            await client.post(server.url, content=b"{}", headers={"x-api-key": "k"})
        await connections.aclose()
        ours, theirs = (sorted(request.lower().split(b"\r\n")) for request in server.requests)
        assert ours == theirs


async def test_a_header_of_the_callers_takes_the_place_of_the_librarys_however_it_is_written():
    connections = connections_of(httpx)
    request = connections.build_request("POST", "http://x", content=b"", headers={"User-Agent": "mine"}, extensions={})
    assert [value for name, value in request.headers.multi_items() if name == "user-agent"] == ["mine"]


@both_libraries
async def test_a_connection_that_was_idle_for_long_is_closed(library):
    now = [0.0]
    connections = connections_of(library, lambda: now[0])
    async with serving(width=3) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call, connections, library, server.url)
        server.width = 1
        now[0] = IDLE_SECONDS - 1
        await call(connections, library, server.url)
        assert server.open == 3
        now[0] = IDLE_SECONDS + 1
        await call(connections, library, server.url)
        await until(lambda: server.open == 1)
        assert server.connections == 3
        await connections.aclose()


@both_libraries
async def test_no_more_connections_are_kept_than_may_be(library, monkeypatch):
    assert MAX_IDLE >= 200
    monkeypatch.setattr("unified_llm.provider_utils.httpx_connections.MAX_IDLE", 2)
    connections = connections_of(library)
    async with serving(width=5) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(call, connections, library, server.url)
        await until(lambda: server.open == 2)
        await connections.aclose()
        await until(lambda: server.open == 0)


@both_libraries
async def test_a_call_that_is_cancelled_twice_leaves_no_connection_behind(library):
    connections = connections_of(library)
    async with serving(width=9) as server:
        tasks = [asyncio.create_task(call(connections, library, server.url)) for _ in range(8)]
        await until(lambda: server.waiting == 8)
        for _ in range(3):  # the second and third meet the clearing up after the first
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        server._full.set()
        await until(lambda: server.open == 0)
        await connections.aclose()


async def test_closing_ends_calls_that_are_under_way():
    connections = connections_of(httpx2)
    async with serving(width=2) as server:
        client = HttpxClient(connections, httpx2)

        async def fail() -> None:
            with pytest.raises(client.errors):
                await client.post(server.url, b"{}", {}, AdapterTimeout(), 100)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
                await until(lambda: server.waiting == 1)
                await connections.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await connections.send(None, stream=True)


@pytest.mark.parametrize(
    ("proxy", "url", "ours"),
    [
        (None, "http://127.0.0.1:1", True),
        ("http://127.0.0.1:2", "http://127.0.0.1:1", False),
        (None, "http://user:word@127.0.0.1:1", False),
    ],
    ids=["plain", "proxy", "user"],
)
async def test_proxies_and_users_in_addresses_are_left_to_the_librarys_client(proxy, url, ours, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
    async with contextlib.aclosing(keep_client(url)) as clients:
        client = await anext(clients)
        assert isinstance(client._client, Connections) is ours
