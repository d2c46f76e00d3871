"""The blocking facade."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from unified_llm import AbortController, AbortError, Message, OpenAICompatibleAdapter, Request, ServerError, Tool
from unified_llm import Client as AsyncClient
from unified_llm.sync import Client, generate, generate_object, stream, stream_object
from unified_llm.testing import ScriptedAdapter, respond

ASK = Request(model="m", messages=[Message.user("hi")])
BODY = b"""{"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
"message": {"role": "assistant", "content": "hello"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}"""


@pytest.fixture
def server_url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_the_second_call_works_over_a_real_connection(server_url: str) -> None:
    with Client({"s": OpenAICompatibleAdapter(base_url=server_url)}, "s") as client:
        assert [generate("m", "hi", client=client).text for _ in range(3)] == ["hello"] * 3
        assert client.complete(ASK).text == "hello"


def test_calls_from_several_threads_share_the_loop(server_url: str) -> None:
    with Client({"s": OpenAICompatibleAdapter(base_url=server_url)}, "s") as client, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: generate("m", "hi", client=client).text, range(16)))
    assert answers == ["hello"] * 16


def test_generate_runs_tools_and_takes_an_async_client() -> None:
    tool = Tool(name="ping", description="ping", execute=lambda: "pong")
    with ScriptedAdapter(respond(tool_calls=[("ping", {})]), "done") as adapter:
        result = generate("m", "go", tools=[tool], client=AsyncClient({"s": adapter}, "s"))
    assert result.text == "done"
    assert result.steps[0].tool_results[0].content == "pong"


def test_a_stream_is_an_iterator() -> None:
    with ScriptedAdapter("Hello, world", "Hello, world", "Hello, world") as adapter:
        client = Client({"s": adapter}, "s")
        result = stream("m", "hi", client=client)
        assert [event.type for event in result][-1] == "finish"
        assert result.response().text == "Hello, world"
        assert result.total_usage == result.steps[0].usage
        assert list(stream("m", "hi", client=client).text_stream) == ["Hello, w", "orld"]
        assert [event.type for event in client.stream(ASK)][-1] == "finish"


def test_leaving_a_stream_early_releases_the_connection() -> None:
    adapter = ScriptedAdapter("Hello, world", "Hello, world")
    client = Client({"s": adapter}, "s")
    with stream("m", "hi", client=client) as result:
        next(result)
        assert adapter.open_streams == 1
    assert adapter.open_streams == 0
    with client.stream(ASK) as events:
        next(events)
    assert adapter.open_streams == 0
    client.close()
    assert adapter.closed


def test_objects() -> None:
    with ScriptedAdapter('{"a": 1}', '{"a": 1}') as adapter:
        client = Client({"s": adapter}, "s")
        assert generate_object("m", "?", schema={"type": "object"}, client=client).output == {"a": 1}
        with stream_object("m", "?", schema={"type": "object"}, client=client) as result:
            assert list(result)[-1] == {"a": 1}
            assert result.object() == {"a": 1}
            assert result.response().text == '{"a": 1}'


def test_errors_arrive_in_the_calling_thread() -> None:
    with ScriptedAdapter(ServerError("down"), ServerError("down")) as adapter:
        client = Client({"s": adapter}, "s")
        with pytest.raises(ServerError, match="down"):
            generate("m", "hi", max_retries=0, client=client)
        with pytest.raises(ServerError, match="down"):
            client.complete(ASK)


def test_an_abort_from_the_calling_side_ends_the_call() -> None:
    controller = AbortController()

    async def abort_elsewhere() -> None:
        import anyio

        threading.Thread(target=controller.abort).start()
        await anyio.sleep_forever()

    with ScriptedAdapter([abort_elsewhere]) as adapter, pytest.raises(AbortError):
        generate("m", "hi", abort_signal=controller.signal, client=Client({"s": adapter}, "s"))


def test_from_env() -> None:
    with Client.from_env({"OPENAI_COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1"}) as client:
        assert client.wrapped.default_provider == "openai_compatible"


def test_a_script_ends_when_its_last_line_is_done() -> None:
    script = """
from unified_llm.sync import Client, generate, stream
from unified_llm.testing import ScriptedAdapter
client = Client({"s": ScriptedAdapter("one", "two")}, "s")
print(generate("m", "hi", client=client).text, next(stream("m", "hi", client=client)).type)
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "one stream_start\n"
    assert done.stderr == ""
