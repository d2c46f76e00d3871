"""What readers of events cost a run, and how soon requests are answered while runs go on: two hundred of either."""

import http.client
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

Row = tuple[str, float, str, float | None, float | None]
READERS = 200
STAGES = 150
ROUNDS = 3
RUNS = 200
RATE = 100.0
# Its stages take a fixed time of work each, so that what anything else costs the run shows in how long it takes.
SERVER = f"""
import asyncio, socket, sys, uvicorn
from pathlib import Path
from attractor.server import FixedLauncher, create_app
from attractor.server.connection import BoundedProtocol
# As the command does.
sys.setswitchinterval(0.0005)
class Working:
    async def run(self, node, prompt, context):
        await asyncio.sleep({3 / RATE})
        return "done"
listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
print(listener.getsockname()[1], flush=True)
app = create_app(Path(sys.argv[1]), FixedLauncher(backend=Working()))
config = uvicorn.Config(app, http=BoundedProtocol, loop="asyncio", log_config=None)
uvicorn.Server(config).run([listener])
"""


def rows() -> Iterator[Row]:
    # In turns, and the best of each: what else the machine does hits both.
    rounds = [(_measure(0), _measure(READERS)) for _ in range(ROUNDS)]
    alone, watched = (min(times) for times in zip(*rounds, strict=True))
    yield f"run of {STAGES} stages, 100 events a second", alone, "s", None, None
    yield f"the same with {READERS} readers", watched, "s", watched / alone, 1.1
    idle, busy = _measure_answers(0), _measure_answers(RUNS)
    yield "server: an answer about a run, 99 of 100", idle, "ms", None, None
    yield f"the same while {RUNS} runs go on", busy, "ms", None, 500.0


def _measure_answers(runs: int) -> float:
    """Milliseconds within which 99 of 100 requests about a run are answered, while so many go on."""
    with _serving() as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        ids = [_submit(connection, STAGES) for _ in range(max(runs, 1))]
        times = []
        for number in range(200):
            begun = time.perf_counter()
            connection.request("GET", f"/pipelines/{ids[number % len(ids)]}")
            assert json.loads(connection.getresponse().read())["pipeline_id"]
            times.append((time.perf_counter() - begun) * 1000)
        connection.close()
    return sorted(times)[-2]


def _measure(readers: int) -> float:
    """Seconds that the run takes."""
    with _serving() as port:
        return _run(port, readers)


@contextmanager
def _serving() -> Iterator[int]:
    """A server's port."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([sys.executable, "-c", SERVER, folder], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()
            process.wait()


def _submit(connection: http.client.HTTPConnection, stages: int) -> str:
    """The id of a run of that many stages."""
    names = [f"n{number}" for number in range(stages)]
    nodes = "; ".join(f'{name} [prompt="x"]' for name in names)
    chain = " -> ".join(["start", *names, "exit"])
    source = f"digraph b {{ start [shape=Mdiamond]; exit [shape=Msquare]; {nodes}; {chain} }}"
    body = json.dumps({"dot_source": source})
    connection.request("POST", "/pipelines", body, {"Content-Type": "application/json"})
    return str(json.loads(connection.getresponse().read())["pipeline_id"])


def _run(port: int, readers: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    run_id = _submit(connection, STAGES)
    streams = [_open(port, run_id) for _ in range(readers)]
    reader = threading.Thread(target=_drain, args=(streams,))
    reader.start()
    while True:
        connection.request("GET", f"/pipelines/{run_id}")
        run = json.loads(connection.getresponse().read())
        if run["status"] != "running":
            assert run["status"] == "completed", run
            break
        time.sleep(0.2)
    reader.join()
    connection.close()
    return float(run["elapsed"])


def _open(port: int, run_id: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(f"GET /pipelines/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return stream


def _drain(streams: list[socket.socket]) -> None:
    """Read all streams to the end, and see that each had all of it."""
    with selectors.DefaultSelector() as selector:
        tails = dict.fromkeys(streams, b"")
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                stream = key.fileobj
                assert isinstance(stream, socket.socket)
                data = stream.recv(1 << 20)
                tails[stream] = (tails[stream] + data)[-2000:]
                if not data or b"event: PipelineCompleted" in tails[stream]:
                    selector.unregister(stream)
                    stream.close()
    assert all(b"event: PipelineCompleted" in tail for tail in tails.values()), "a stream ended too soon"
