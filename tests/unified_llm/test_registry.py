"""Which providers the environment configures (section 2.2), and that each adapter is given what is meant for it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from unified_llm.providers.registry import PROVIDERS, adapters_from_env, required_variables
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request

ANY_ANSWER = {"output": [], "content": [], "candidates": [{"finishReason": "STOP"}], "choices": [{"message": {}}]}
SENT = {
    "openai": (
        "/openai/v1/responses",
        {"authorization": "Bearer sk-o", "openai-organization": "org", "openai-project": "proj"},
    ),
    "anthropic": ("/anthropic/v1/messages", {"x-api-key": "sk-a"}),
    "gemini": ("/gemini/v1beta/models/m:generateContent", {"x-goog-api-key": "sk-g"}),
    "openai_compatible": ("/chat/v1/chat/completions", {"authorization": "Bearer sk-c"}),
}


def everything(host: str) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "sk-o",
        "OPENAI_BASE_URL": f"{host}/openai/v1",
        "OPENAI_ORG_ID": "org",
        "OPENAI_PROJECT_ID": "proj",
        "ANTHROPIC_API_KEY": "sk-a",
        "ANTHROPIC_BASE_URL": f"{host}/anthropic",
        "GEMINI_API_KEY": "sk-g",
        "GEMINI_BASE_URL": f"{host}/gemini",
        "OPENAI_COMPATIBLE_BASE_URL": f"{host}/chat/v1",
        "OPENAI_COMPATIBLE_API_KEY": "sk-c",
    }


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """Answers every call on loopback, and keeps the path and headers of each."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(ANY_ANSWER).encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", seen
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("name", SENT)
async def test_every_variable_reaches_the_wire(name: str, server: tuple[str, list[Any]]) -> None:
    host, seen = server
    adapter: Any = adapters_from_env(everything(host))[name]
    await adapter.complete(Request(model="m", messages=[Message.user("hi")]))
    await adapter.close()
    path, headers = SENT[name]
    assert [call[0] for call in seen] == [path]
    found = {key.lower(): value for key, value in seen[0][1].items()}
    assert {key: found[key] for key in headers} == headers


def test_the_order_is_that_of_preference() -> None:
    assert list(adapters_from_env(everything("http://x"))) == ["openai", "anthropic", "gemini", "openai_compatible"]
    assert list(adapters_from_env({"GOOGLE_API_KEY": "g", "ANTHROPIC_API_KEY": "a"})) == ["anthropic", "gemini"]


def test_only_what_is_configured_is_there() -> None:
    assert adapters_from_env({}) == {}
    assert adapters_from_env({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "http://x"}) == {}


def test_what_is_missing_can_be_said() -> None:
    assert "GEMINI_API_KEY or GOOGLE_API_KEY for gemini" in required_variables()
    assert len({entry.name for entry in PROVIDERS}) == len(PROVIDERS)
