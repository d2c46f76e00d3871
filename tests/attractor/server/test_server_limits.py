"""What bounds a server: runs at once, slow and long requests; and clocks that nobody else looks at."""

import http.client
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent_loop.personalization import MemoryStore, PersonalMemory
from attractor import QuestionStore
from attractor.server import Hosts, memory_routes
from attractor.server.connection import BoundedProtocol

from .conftest import GATE, HELLO, Serve, Served

TIMED = """digraph timed { start [shape=Mdiamond]; exit [shape=Msquare]
    gate [shape=hexagon, label="Ship it?", timeout="1s", "human.default_choice"="mend"]
    start -> gate; gate -> ship [label="Yes"]; gate -> mend [label="No"]; {ship mend} -> exit }"""


def test_beyond_the_limit_no_run_is_started_and_answers_still_count(serve: Serve) -> None:
    served = serve(max_runs=1)
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    refused = served.client.post("/pipelines", json={"dot_source": HELLO})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert "1 pipelines already" in refused.json()["detail"]
    served.answer(run_id, served.wait_for_question(run_id)["qid"], "Y")
    served.wait_for(run_id, "completed")
    while served.client.post("/pipelines", json={"dot_source": HELLO}).status_code == 503:
        time.sleep(0.01)


def test_a_gate_whose_time_ends_while_nobody_executes_its_run_takes_its_default(serve: Serve, tmp_path: Path) -> None:
    """Its server is stopped before, and the next one finds the question overdue."""
    root = tmp_path / "runs"
    script = f"""
import anyio
from attractor import PipelineRunner, parse_dot
from attractor.interviewers import Answer, AnswerValue
class Defer:
    async def ask(self, question):
        return Answer(value=AnswerValue.DEFERRED)
async def main():
    runner = PipelineRunner(interviewer=Defer(), logs_root={str(root / "timed")!r})
    assert (await runner.run(parse_dot({TIMED!r}))).waiting
anyio.run(main)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [asked.id for asked in QuestionStore(root / "timed").list_open()] == ["q1"]
    served = serve(root=root, poll=0.05)
    assert "mend" in served.wait_for("timed", "completed")["completed_nodes"]


class Impatient(BoundedProtocol):
    head_seconds = 0.2
    head_bytes = 1000


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_who_does_not_end_a_head_is_hung_up_on(serve: Serve, sent: bytes) -> None:
    served = serve(protocol=Impatient)
    with connect(served) as slow:
        slow.sendall(sent)
        assert slow.recv(1000) == b""
    assert served.events(served.submit(HELLO))[-1].name == "PipelineCompleted"


def test_an_endless_head_is_cut_off(serve: Serve) -> None:
    with connect(serve(protocol=Impatient)) as long, pytest.raises(OSError, match=r"reset|[Pp]ipe|abort"):
        send_endless_head(long)


def send_endless_head(connection: socket.socket) -> None:
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
    while True:
        connection.sendall(b"X: " + b"a" * 200 + b"\r\n")
        time.sleep(0.001)


def test_a_stream_outlives_the_time_for_a_head(serve: Serve) -> None:
    served = serve(protocol=Impatient)
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    served.wait_for_question(run_id)
    with served.stream(run_id) as events:
        assert next(events).name == "PipelineStarted"
        time.sleep(0.5)
        served.answer(run_id, "q1", "Y")
        assert [event.name for event in events][-1] == "PipelineCompleted"


class Watched(BoundedProtocol):
    seen: ClassVar[list[Any]] = []

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.seen.append(transport.get_extra_info("socket"))


def test_answers_are_sent_at_once_and_peers_that_vanished_are_noticed(serve: Serve) -> None:
    served = serve(protocol=Watched)
    served.client.get("/health")
    (connection,) = Watched.seen
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


HALF = (
    "POST /{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
    "Authorization: Bearer a-token-for-tests\r\n\r\n{{"
)


@pytest.mark.parametrize("path", ["lint", "login", "api/attractor/seed"])
def test_who_leaves_in_the_middle_of_a_body_is_no_error(
    serve: Serve, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    routes = memory_routes(PersonalMemory(store=MemoryStore()), lambda: "a-token-for-tests")
    served = serve(token="a-token-for-tests", routes=routes)
    with connect(served) as leaving:
        leaving.sendall(HALF.format(path).encode())
        leaving.shutdown(socket.SHUT_WR)
        assert leaving.recv(1000) == b""
    headers = {"Authorization": "Bearer a-token-for-tests"}
    counted = served.client.get("/metrics", headers=headers).text
    assert [line for line in counted.splitlines() if 'method="POST"' in line and line.endswith('status="400"} 1')]
    assert caplog.records == []


def connect(served: Served) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.port))
    connection.settimeout(10)
    return connection


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"dot_source": "a", "dot_source": "b"}', "'dot_source' stands twice"),
        (b'{"dot_source": "a", "context": {"x": NaN}}', "NaN is no JSON value"),
        (b'{"dot_source": "a", "context": {"x": -Infinity}}', "-Infinity is no JSON value"),
        (b'{"a":' * 100_000, "recursion"),
    ],
)
def test_what_other_readers_would_read_otherwise_is_refused(serve: Serve, body: bytes, detail: str) -> None:
    answer = serve().client.post("/pipelines", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, detail in answer.json()["detail"]) == (400, True), answer.text


def test_a_compressed_body_is_refused(serve: Serve) -> None:
    answer = serve().client.post("/lint", json={"dot_source": HELLO}, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, "gzip" in answer.json()["detail"]) == (415, True)


def test_byte_order_marks_are_no_part_of_body_or_source(serve: Serve) -> None:
    served = serve()
    body = b'\xef\xbb\xbf{"dot_source": "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> exit }"}'
    answer = served.client.post("/pipelines", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    assert served.events(served.submit("\ufeff" + HELLO))[-1].name == "PipelineCompleted"


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_a_second_host_or_origin_is_refused(serve: Serve, name: str) -> None:
    served = serve()
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.putrequest("POST", "/logout", skip_host=True)
    connection.putheader("Host", "localhost")
    for value in ("localhost", "evil.example"):
        connection.putheader(name, value if name == "Host" else f"http://{value}")
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, b"more than once" in answer.read()) == (400, True)
    connection.close()


@pytest.mark.parametrize("host", ["[::1", "[::1]evil.example", "localhost:80:evil", "localhost:evil", "[evil]:80"])
def test_what_only_begins_like_a_host_is_none(host: str) -> None:
    assert not Hosts().allow(host)


def test_a_stage_without_a_name_is_no_way_into_the_run_directory(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    for path in ("files", "files/manifest.json"):
        assert served.client.get(f"/pipelines/{run_id}/stages//{path}").status_code == 404


def test_without_its_packages_the_command_names_the_extra() -> None:
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name=name)
sys.meta_path.insert(0, Absent())
from attractor.cli.app import main
sys.argv = ["attractor", "serve"]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'attractor-engine[server]'" in done.stderr
