"""The memory over HTTP, through real sockets: closed unless the right token is presented."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn
from agent_loop.personalization import ClientEngine, JsonFileStore, MemoryStore
from attractor.server.memory import create_memory_app, is_authorized, token_from_environment
from unified_llm import Client, ServerError
from unified_llm.testing import ScriptedAdapter

ROUTES = [
    ("GET", "state"),
    ("GET", "context"),
    ("GET", "history"),
    ("POST", "seed"),
    ("POST", "ingest"),
    ("POST", "consolidate"),
]
SEED = {"basins": [{"label": "Planning", "description": "thinks before acting"}]}
GROW = json.dumps({"basin_updates": [{"id": "planning", "weight_delta": 0.1}]})
SUMMARY = json.dumps({"summary": "They planned a move.", "vibes": ["calm"]})
RIGHT = {"Authorization": "Bearer s3cret"}

Serve = Callable[..., httpx.Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application on loopback; gives a client of it."""
    running: list[tuple[uvicorn.Server, threading.Thread, httpx.Client]] = []

    def begin(app: object) -> httpx.Client:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/attractor/"
        client = httpx.Client(base_url=url, timeout=30, trust_env=False)
        running.append((server, thread, client))
        return client

    yield begin
    for server, thread, client in running:
        client.close()
        server.should_exit = True
        thread.join()


def scripted(*answers: object) -> ClientEngine:
    return ClientEngine(Client({"scripted": ScriptedAdapter(*answers)}, "scripted"))


def create(store: object = None, *answers: object, token: str | None = "s3cret") -> object:
    return create_memory_app(store or MemoryStore(), scripted(*answers), lambda: token, model="m")


@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_every_route_is_500(serve: Serve, token: str | None) -> None:
    client = serve(create(token=token))
    for method, path in [*ROUTES, ("GET", ""), ("DELETE", "nothing/of/the/kind")]:
        for headers in ({}, RIGHT, {"Authorization": "Bearer"}):
            answer = client.request(method, path, headers=headers)
            assert (answer.status_code, "ATTRACTOR_TOKEN is not set" in answer.text) == (500, True), path


@pytest.mark.parametrize(
    "header",
    [
        "",
        "s3cret",
        "Bearer",
        "Bearer wrong",
        "Bearer s3cre",
        "Bearer s3cretx",
        "Basic s3cret",
        "Bearer S3CRET",
    ],
)
def test_a_wrong_token_is_401_on_every_route(serve: Serve, header: str) -> None:
    client = serve(create())
    for method, path in [*ROUTES, ("PUT", "state"), ("GET", "nothing")]:
        answer = client.request(method, path, headers={"Authorization": header} if header else {})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path


def test_the_right_token_works(serve: Serve) -> None:
    client = serve(create(None, GROW, SUMMARY, GROW, '{"keywords": ["order"]}'))
    client.headers = RIGHT
    assert client.get("state").status_code == 404
    assert client.get("context").status_code == 404
    assert client.get("history").json() == {"history": []}
    assert client.post("seed", json=SEED).status_code == 201
    ingested = client.post("ingest", json={"summary": "They planned.", "vibes": ["calm"]}).json()
    assert ingested["state"]["basins"][0]["weight"] == pytest.approx(0.6)
    assert ingested["update"]["basin_updates"][0]["weight_delta"] == 0.1
    assert client.post("ingest", json={"conversation": "Person: hello"}).status_code == 200
    assert client.get("state").json()["update_count"] == 2
    assert "Planning [70% ↑]" in client.get("context").json()["context"]
    assert [entry["by"]["action"] for entry in client.get("history").json()["history"]] == ["seed", "ingest", "ingest"]
    assert client.post("consolidate").json() == {"consolidated": []}
    assert client.get("state", headers={"Authorization": "bearer  s3cret"}).status_code == 200


def test_seed_never_wipes_without_force(serve: Serve) -> None:
    client = serve(create(None, GROW))
    client.headers = RIGHT
    client.post("seed", json=SEED)
    client.post("ingest", json={"summary": "They planned."})
    other = {"basins": [{"label": "Other"}]}
    for body in (other, {**other, "force": False}):
        answer = client.post("seed", json=body)
        assert (answer.status_code, "only force" in answer.text) == (409, True)
    for force in ("true", 1, None):
        assert client.post("seed", json={**other, "force": force}).status_code == 400
    assert client.get("state").json()["update_count"] == 1
    assert client.post("seed", json={**other, "force": True}).json()["basins"][0]["id"] == "other"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("seed", "{", 400, "not JSON"),
        ("seed", "[]", 400, "must be a JSON object"),
        ("seed", '{"basins": {}}', 400, "basins must be a list"),
        ("seed", '{"basins": [1]}', 400, "basin 1 needs a label"),
        ("ingest", "{}", 400, "summary must be a text"),
        ("ingest", '{"summary": "x", "vibes": "calm"}', 400, "vibes must be a list"),
        ("ingest", '{"summary": " "}', 400, "summary is empty"),
        ("ingest", '{"summary": "x"}', 502, "scripted gave no answer: down"),
        ("consolidate", '{"basins": ["nobody"]}', 400, "no basin 'nobody'"),
        ("seed", '{"basins": ["' + "x" * 1_000_000 + '"]}', 413, "larger than 1,000,000 bytes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_said(serve: Serve, path: str, body: str, status: int, message: str) -> None:
    client = serve(create(None, ServerError("down", retryable=False)))
    client.headers = RIGHT
    client.post("seed", json=SEED)
    answer = client.post(path, content=body)
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text


def test_a_damaged_memory_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text("{")
    client = serve(create(JsonFileStore(tmp_path / "memory.json")))
    client.headers = RIGHT
    for answer in (client.get("state"), client.post("seed", json={**SEED, "force": True})):
        assert (answer.status_code, "is damaged" in answer.text) == (500, True)
    assert (tmp_path / "memory.json").read_text() == "{"


def test_requests_at_once_lose_no_update(serve: Serve, tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path / "memory.json")
    client = serve(create(store, *[GROW] * 8))
    client.headers = RIGHT
    client.post("seed", json=SEED)
    threads = [
        threading.Thread(target=client.post, args=("ingest",), kwargs={"json": {"summary": "x"}}) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = anyio.run(store.load)
    assert state is not None
    assert state.update_count == 8


def test_the_token_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTRACTOR_TOKEN", "t")
    assert token_from_environment() == "t"
    monkeypatch.delenv("ATTRACTOR_TOKEN")
    assert token_from_environment() is None


@pytest.mark.parametrize(
    ("header", "expected"), [("Bearer tökén", True), ("Bearer x", False), ("Bearer " + "x" * 9999, False), ("", False)]
)
def test_tokens_are_compared_whole(header: str, expected: bool) -> None:
    assert is_authorized(header, "tökén") is expected
