"""The server behind nginx, which buffers unless it is told otherwise (docs/deploying.md)."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from attractor.server import Hosts

from .conftest import GATE, Serve, read_events

PAGE = Path(__file__).parents[3] / "docs/deploying.md"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
CONFIGURATION = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {server}
}}
"""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[[int], str]]:
    if NGINX is None:
        pytest.skip("no nginx on this machine")
    running: list[subprocess.Popen[bytes]] = []

    def begin(target: int) -> str:
        """Starts nginx with the configuration of the documentation, without TLS; its address."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        snippet = re.search(r"```text\n(server \{.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        assert snippet
        server = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", snippet[1])
        server = re.sub(r"^.*ssl_certificate.*\n", "", server, flags=re.MULTILINE)
        server = server.replace("127.0.0.1:7777", f"127.0.0.1:{target}")
        (tmp_path / "nginx.conf").write_text(CONFIGURATION.format(folder=tmp_path, server=server))
        command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                assert running[-1].poll() is None, (tmp_path / "error.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    yield begin
    for process in running:
        process.terminate()
        process.wait()


def test_events_pass_a_buffering_proxy_as_they_happen(serve: Serve, proxy: Callable[[int], str]) -> None:
    served = serve(token="a-long-token", hosts=Hosts(names=("attractor.example",)))
    url = proxy(served.port)
    headers = {
        "Host": "attractor.example",
        "Authorization": "Bearer a-long-token",
        "Origin": "https://attractor.example",
    }
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=20) as client:
        answer = client.post("/pipelines", json={"dot_source": GATE.replace("COUNT", "/dev/null")})
        assert answer.status_code == 201, answer.text
        run_id = answer.json()["pipeline_id"]
        with client.stream("GET", f"/pipelines/{run_id}/events") as stream:
            names = []
            for event in read_events(stream.iter_lines()):
                names.append(event.name)
                if event.name == "InterviewStarted":
                    # Had the proxy kept anything back, nobody would know the question to answer.
                    said = client.post(f"/pipelines/{run_id}/questions/{event.data['qid']}/answer", json={"value": "Y"})
                    assert said.status_code == 200
        assert names[-1] == "PipelineCompleted"
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/pipelines", headers={"Authorization": ""}).status_code == 401
