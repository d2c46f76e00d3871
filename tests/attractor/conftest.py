"""The command line for tests: in this process, as a process of its own, and at a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attractor.cli import main

COMMAND = [sys.executable, "-m", "attractor"]


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment without keys, whose state directory is the test's own."""
    keep = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR")
    return {name: os.environ[name] for name in keep if name in os.environ} | {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONWARNINGS": "error",
    }


@pytest.fixture
def attractor(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """Runs a command in this process, which is quick: `attractor("lint", file)`."""
    for name in os.environ.keys() - environment.keys():
        if name.endswith(("_API_KEY", "_BASE_URL", "_LOCAL_MODEL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", environment["XDG_STATE_HOME"])

    def call(*arguments: str | Path) -> Finished:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Finished(ended.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a command as a process of its own, in its own process group; what still runs in the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str | Path, **more_environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | more_environment,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@dataclass
class Terminal:
    """A command at a pseudo-terminal: what it showed so far, and keys pressed."""

    pid: int
    descriptor: int
    shown: str = ""
    _status: list[int] = field(default_factory=list)

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        """Read until `text` has been shown."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} did not appear in:\n{self.shown}"
            assert self._read(0.1), f"ended without showing {text!r}:\n{self.shown}"

    def press(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def resize(self, columns: int) -> None:
        termios.tcsetwinsize(self.descriptor, (24, columns))

    def stays_silent(self, seconds: float) -> bool:
        """Whether nothing is shown for so long."""
        return not select.select([self.descriptor], [], [], seconds)[0]

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self.descriptor)
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def wait(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + 60.0
        while self._read(30.0):
            assert time.monotonic() < deadline, f"did not end:\n{self.shown[-2000:]}"
        if not self._status:
            self._status.append(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))
        return self._status[0]

    def _read(self, seconds: float) -> bool:
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65_536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Starts a command at a pseudo-terminal of its own."""
    opened: list[Terminal] = []

    def begin(*arguments: str | Path, columns: int = 100, **more_environment: str) -> Terminal:
        outside, inside = pty.openpty()
        termios.tcsetwinsize(inside, (24, columns))
        variables = environment | {"TERM": "xterm-256color"} | more_environment
        pid = os.fork()
        if pid == 0:
            os.close(outside)
            os.login_tty(inside)
            os.execve(COMMAND[0], [*COMMAND, *map(str, arguments)], variables)
        os.close(inside)
        opened.append(Terminal(pid, outside))
        return opened[-1]

    yield begin
    for one in opened:
        if not one._status:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        os.close(one.descriptor)


@dataclass
class ChatServer:
    """A scripted Chat Completions server: what it answers, first the `calls` of tools, and what it was asked."""

    url: str
    answer: str = "Blue light is scattered most."
    status: int = 200
    error: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, object]]] = field(default_factory=list)


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """A server on loopback, with real sockets."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            script.requests.append({"path": self.path, "authorization": self.headers["authorization"], **body})
            if script.status != 200:
                self._reply({"error": {"message": script.error, "type": "error", "code": None}})
                return
            message: dict[str, object] = {"role": "assistant", "content": script.answer}
            if script.calls:
                name, arguments = script.calls.pop(0)
                function = {"name": name, "arguments": json.dumps(arguments)}
                message = {"role": "assistant", "tool_calls": [{"id": "t1", "type": "function", "function": function}]}
            usage = {"prompt_tokens": 17, "completion_tokens": 6, "total_tokens": 23}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._reply(
                {"id": "c1", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage}
            )

        def _reply(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(script.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    script = ChatServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield script
    server.shutdown()
    thread.join()
    server.server_close()
