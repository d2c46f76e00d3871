"""What keeps strangers, other sites and long requests out, and the server's files in."""

import http.client
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from attractor.server import Hosts
from attractor.server.auth import COOKIE, SESSION_SECONDS, Authority
from starlette.requests import HTTPConnection
from starlette.responses import Response

from .conftest import HELLO, Serve, Served, command_pipeline

TOKEN = "correct horse battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_without_a_token_a_public_address_is_refused(attractor: Callable[..., Any]) -> None:
    finished = attractor("serve", "--host", "0.0.0.0", "--port", "0")
    assert (finished.code, "--token" in finished.err) == (2, True)
    assert "run commands here" in finished.err


@pytest.mark.parametrize("path", ["/pipelines", "/pipelines/x/events", "/metrics", "/openapi.json", "/static/app.js"])
def test_everything_needs_the_token(serve: Serve, path: str) -> None:
    client = serve(token=TOKEN).client
    wrong = [{"Authorization": text} for text in ("", "Bearer wrong", f"Basic {TOKEN}")]
    for headers in (*wrong, {"Cookie": f"{COOKIE}=1.x"}):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    assert client.get(path, headers=BEARER).status_code != 401
    assert client.get(f"{path}?token={TOKEN}").status_code == 401
    assert client.get("/health").status_code == 200


def test_a_browser_logs_in_once_and_streams_with_its_cookie(serve: Serve) -> None:
    served = serve(token=TOKEN)
    client = served.client
    page = client.get("/")
    assert (page.status_code, "password" in page.text) == (401, True)
    assert client.get("/?token=wrong").status_code == 401
    given = client.get("/", params={"token": TOKEN})
    assert (given.status_code, given.headers["location"]) == (303, "/")
    cookie = given.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.cookies[COOKIE]
    run_id = served.submit(HELLO)
    assert served.events(run_id)[-1].name == "PipelineCompleted"
    assert client.post("/logout").status_code == 204
    assert client.get("/pipelines").status_code == 401


@pytest.mark.parametrize("as_form", [False, True])
def test_the_login_takes_json_and_a_form(serve: Serve, as_form: bool) -> None:
    client = serve(token=TOKEN).client

    def log_in(token: str) -> httpx.Response:
        return client.post("/login", data={"token": token}) if as_form else client.post("/login", json={"token": token})

    assert log_in("wrong").status_code == 401
    assert log_in(TOKEN).status_code == (303 if as_form else 204)
    assert client.get("/pipelines").status_code == 200


def test_a_cookie_ends_with_its_time_and_with_its_token() -> None:
    now = 1_000_000.0
    response = Response()
    Authority("one", lambda: now).give_cookie(response, secure=True)
    cookie = response.headers["set-cookie"]
    assert "Secure" in cookie
    headers = [(b"cookie", f"other=1; {cookie.partition(';')[0]}".encode())]
    connection = HTTPConnection({"type": "http", "headers": headers})
    assert Authority("one", lambda: now + SESSION_SECONDS - 1).admits(connection)
    assert not Authority("one", lambda: now + SESSION_SECONDS + 1).admits(connection)
    assert not Authority("two", lambda: now).admits(connection)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", ""])
def test_a_name_that_is_rebound_to_this_address_is_refused(serve: Serve, host: str) -> None:
    served = serve()
    for path in ("/", "/health", "/pipelines"):
        connection = http.client.HTTPConnection("127.0.0.1", served.port)
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.read()[:1]) in ((403, b"{"), (400, b"I")), path
        connection.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:7777"])
def test_its_own_names_are_known(serve: Serve, host: str) -> None:
    assert serve().client.get("/health", headers={"Host": host}).status_code == 200


def test_hosts_of_a_public_server() -> None:
    hosts = Hosts(names=("localhost", "box.example"), addresses=True)
    assert all(map(hosts.allow, ["box.example:7777", "192.0.2.7", "[2001:db8::1]:80", "localhost"]))
    assert not any(map(hosts.allow, ["evil.example", "192.0.2.7.evil.example", ""]))
    assert hosts.allow_origin("https://box.example", "127.0.0.1:7777")
    assert not hosts.allow_origin("http://localhost:3000", "localhost:7777")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_sites_change_nothing_and_read_no_stream(serve: Serve, headers: dict[str, str]) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    for answer in (
        served.client.post("/pipelines", json={"dot_source": HELLO}, headers=headers),
        served.client.post(f"/pipelines/{run_id}/cancel", headers=headers),
        served.client.get(f"/pipelines/{run_id}/events", headers=headers),
        served.client.post("/login", json={"token": ""}, headers=headers),
    ):
        assert answer.status_code == 403
    assert served.client.get("/pipelines").json()["total"] == 1


def test_the_page_itself_may_ask(serve: Serve) -> None:
    served = serve()
    headers = {"Origin": served.url, "Sec-Fetch-Site": "same-origin"}
    assert served.client.post("/pipelines", json={"dot_source": HELLO}, headers=headers).status_code == 201


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_could_send_is_refused(serve: Serve, kind: str) -> None:
    served = serve()
    content = json.dumps({"dot_source": HELLO})
    for body in (content, iter([content.encode()])):
        answer = served.client.post("/pipelines", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415
    assert served.client.get("/pipelines").json()["total"] == 0


def test_a_long_body_is_refused_without_being_read(serve: Serve) -> None:
    served = serve(max_body=10_000)
    head = "POST /pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(f"{head}Content-Length: 1000000000\r\n\r\n".encode())
        connection.settimeout(5)
        told = connection.recv(65_536)
        assert told.startswith(b"HTTP/1.1 413 ")
        while connection.recv(65_536):
            pass
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        connection.settimeout(5)
        for _ in range(3):
            connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
    assert served.client.post("/pipelines", json={"dot_source": HELLO}).status_code == 201


def test_no_path_leaves_the_directory_of_runs(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    run_id = served.submit(
        command_pipeline(
            f"ln -s {tmp_path} $ATTRACTOR_STAGE_DIR/out; ln -s {tmp_path}/secret "
            "$ATTRACTOR_STAGE_DIR/link; mkfifo $ATTRACTOR_STAGE_DIR/pipe"
        )
    )
    served.wait_for(run_id, "completed")
    (tmp_path / "secret").write_text("TOP SECRET")
    (tmp_path / "manifest.json").write_text('{"name": "outside"}')
    os.symlink(tmp_path, served.root / "linked")
    paths = [
        "/pipelines/..",
        "/pipelines/%2e%2e/checkpoint",
        "/pipelines/%2e%2e%2f",
        "/pipelines/linked",
        "/pipelines/.",
        f"/pipelines/{run_id}%2f..%2f..",
        f"/pipelines/{run_id}/stages/build/files/link",
        f"/pipelines/{run_id}/stages/build/files/pipe",
        f"/pipelines/{run_id}/stages/build/files/out%2fsecret",
        f"/pipelines/{run_id}/stages/build/files/%2e%2e%2f%2e%2e%2fsecret",
        f"/pipelines/{run_id}/stages/../files/manifest.json",
        f"/pipelines/{run_id}/stages/%2e%2e/files/secret",
        f"/pipelines/{run_id}/stages/build%2fout/files/secret",
        f"/pipelines/{run_id}/stages/build%00/files/secret",
        f"/pipelines/{run_id}/artifacts/%2e%2e%2fmanifest.json",
        f"/pipelines/{run_id}/artifacts/..%5c..",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/app.py",
    ]
    for path in paths:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status in (400, 404), (path, answer.status, body)
        assert b"SECRET" not in body
        connection.close()
    listed = served.client.get(f"/pipelines/{run_id}/stages/build/files").json()["files"]
    assert {"link", "out", "pipe"}.isdisjoint(file["name"] for file in listed)
    os.symlink(tmp_path, served.root / run_id / "artifacts")
    assert served.get(run_id, "/artifacts") == {"files": []}
    assert served.client.get(f"/pipelines/{run_id}/artifacts/secret").status_code == 404
    assert [run["pipeline_id"] for run in served.client.get("/pipelines").json()["pipelines"]] == [run_id]


def test_ids_cannot_be_guessed(serve: Serve) -> None:
    served = serve()
    tails = {served.submit(HELLO).rpartition("-")[2] for _ in range(5)}
    assert len(tails) == 5
    assert all(len(tail) >= 32 and int(tail, 16) for tail in tails)


def test_answers_keep_browsers_careful(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    for path in ("/", "/health", "/nowhere", f"/pipelines/{run_id}", f"/pipelines/{run_id}/graph"):
        headers = served.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers or "python" not in headers["server"].lower()
    policy = served.client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "sandbox" in served.client.get(f"/pipelines/{run_id}/graph").headers["content-security-policy"]


def test_a_file_that_a_stage_wrote_is_never_a_page(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(command_pipeline("echo '<script>alert(1)</script>' > $ATTRACTOR_STAGE_DIR/page.html"))
    served.wait_for(run_id, "completed")
    answer = served.client.get(f"/pipelines/{run_id}/stages/build/files/page.html")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_the_memory_stands_behind_the_same_guard(serve_process: Callable[..., Served], tmp_path: Path) -> None:
    served = serve_process("--simulate", "--memory", str(tmp_path / "m.json"), ATTRACTOR_TOKEN=TOKEN)
    client = served.client
    assert client.get("/api/attractor/state").status_code == 401
    assert client.get("/api/attractor/state", headers=BEARER).status_code == 404
    seed = {"basins": [{"label": "Planning", "description": "thinks first"}]}
    assert client.post("/api/attractor/seed", json=seed, headers=BEARER).status_code == 201
    assert client.get("/api/attractor/state", headers={**BEARER, "Host": "evil.example"}).status_code == 403
    assert client.get("/pipelines").status_code == 401


def test_no_other_token_is_accepted() -> None:
    authority = Authority(TOKEN)
    assert not any(map(authority.accepts, ["", "x", TOKEN[:-1], TOKEN + "x", "x" * 10_000, "é"]))
    assert authority.accepts(TOKEN)
    assert not Authority("").accepts("")
