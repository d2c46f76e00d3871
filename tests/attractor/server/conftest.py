"""Servers for tests: in a thread of this process, and as a process of their own; both through real sockets."""

import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from attractor.server import Launcher, create_app
from attractor.server.connection import BoundedProtocol

HELLO = 'digraph hello { start [shape=Mdiamond]; exit [shape=Msquare]; say [prompt="Greet"]; start -> say -> exit }'
GATE = """digraph gate { start [shape=Mdiamond]; exit [shape=Msquare]
    before [shape=parallelogram, tool_command="echo once >> COUNT"]; gate [shape=hexagon, label="Ship it?"]
    start -> before -> gate; gate -> ship [label="[Y] Yes"]; gate -> mend [label="[N] No, reject"]
    ship [prompt="Ship"]; mend [prompt="Mend"]; ship -> exit; mend -> exit }"""


def command_pipeline(command: str) -> str:
    """A pipeline of one stage, which runs a command."""
    return (
        "digraph one { start [shape=Mdiamond]; exit [shape=Msquare]; "
        f"build [shape=parallelogram, tool_command={json.dumps(command, ensure_ascii=False)}]; "
        "start -> build -> exit }"
    )


@dataclass(frozen=True)
class SentEvent:
    """One server-sent event."""

    id: int
    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Served:
    """A server that runs, and a client of it."""

    client: httpx.Client
    root: Path

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    @property
    def port(self) -> int:
        port = self.client.base_url.port
        assert port is not None
        return port

    def submit(self, source: str, **more: Any) -> str:
        answer = self.client.post("/pipelines", json={"dot_source": source, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["pipeline_id"])

    def get(self, run_id: str, what: str = "") -> Any:
        answer = self.client.get(f"/pipelines/{run_id}{what}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_for(self, run_id: str, *statuses: str, seconds: float = 30.0) -> dict[str, Any]:
        """The run, once it has one of these statuses."""
        deadline = time.monotonic() + seconds
        while (run := self.get(run_id))["status"] not in statuses:
            assert time.monotonic() < deadline, f"{run['status']} instead of {statuses}: {run['failure_reason']}"
            time.sleep(0.02)
        return dict(run)

    def wait_for_question(self, run_id: str) -> dict[str, Any]:
        self.wait_for(run_id, "waiting")
        return dict(self.get(run_id, "/questions")["questions"][0])

    def answer(self, run_id: str, question_id: str, value: Any) -> httpx.Response:
        return self.client.post(f"/pipelines/{run_id}/questions/{question_id}/answer", json={"value": value})

    def events(self, run_id: str, query: str = "", **headers: str) -> list[SentEvent]:
        """The events of a stream up to its end."""
        with self.stream(run_id, query, **headers) as events:
            return list(events)

    @contextmanager
    def stream(self, run_id: str, query: str = "", **headers: str) -> Iterator[Iterator[SentEvent]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.client.stream("GET", f"/pipelines/{run_id}/events{query}", headers=named) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield read_events(answer.iter_lines())


def read_events(lines: Iterator[str]) -> Iterator[SentEvent]:
    """Events as a browser would see them, from the lines of a stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        else:
            if "data" in fields:
                yield SentEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves runs from a thread of this process: `serve(launcher, token=...)`."""
    running: list[tuple[uvicorn.Server, threading.Thread, httpx.Client]] = []

    def begin(
        launcher: Launcher | None = None,
        *,
        root: Path = tmp_path / "runs",
        protocol: type[BoundedProtocol] = BoundedProtocol,
        **options: Any,
    ) -> Served:
        app = create_app(root, launcher, **options)
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        server = uvicorn.Server(
            uvicorn.Config(app, http=protocol, loop="asyncio", log_config=None, timeout_graceful_shutdown=5)
        )
        server.end_streams = app.state.stop  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = httpx.Client(base_url=url, timeout=30, trust_env=False)
        running.append((server, thread, client))
        return Served(client, root)

    yield begin
    for server, thread, client in running:
        client.close()
        server.end_streams()  # type: ignore[attr-defined]
        server.should_exit = True
        thread.join()


@dataclass(frozen=True)
class ServedProcess(Served):
    """A server in a process of its own."""

    process: "subprocess.Popen[str]"


@pytest.fixture
def serve_process(start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts `attractor serve` on a free port: `serve_process("--simulate")`."""
    clients: list[httpx.Client] = []

    def begin(*arguments: str, root: Path = tmp_path / "runs", **environment: str) -> ServedProcess:
        process = start("serve", "--port", "0", "--logs", root, "--workdir", tmp_path, *arguments, **environment)
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"http://(\S+:\d+)", told)
        assert found, told + process.stderr.read()
        client = httpx.Client(base_url=f"http://{found[1]}", timeout=30, trust_env=False)
        clients.append(client)
        served = ServedProcess(client, root, process)
        wait_until_served(client)
        return served

    yield begin
    for client in clients:
        client.close()


def wait_until_served(client: httpx.Client) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
