"""A server as users start it, and a browser before it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-quic", "--no-first-run"]
PATIENCE_SECONDS = 20
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


class PageServer:
    """`attractor serve` in a process of its own; after `kill()`, `start()` serves the same runs at the same address."""

    def __init__(self, folder: Path, *arguments: str, token: str = "") -> None:
        self.folder = folder
        self.url = ""
        self._arguments = arguments
        self._token = token
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> "PageServer":
        (self.folder / "work").mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "attractor",
            "serve",
            "--port",
            self._port,
            "--logs",
            str(self.folder / "runs"),
        ]
        environment = {**os.environ, "HOME": str(self.folder), "ATTRACTOR_TOKEN": self._token}
        self._process = subprocess.Popen(
            [*command, *self._arguments],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder / "work",
            env=environment,
        )
        assert self._process.stderr
        told = self._process.stderr.readline()
        found = re.search(r"http://[\d.]+:(\d+)", told)
        assert found, told + self._process.stderr.read()
        self.url, self._port = found[0], found[1]
        return self

    def kill(self) -> None:
        """As a power cut would."""
        self._stop(signal.SIGKILL)

    def close(self) -> None:
        self._stop(signal.SIGTERM)

    def _stop(self, number: signal.Signals) -> None:
        if self._process is not None:
            with self._process as process:
                process.send_signal(number)
            self._process = None


# Playwright holds a running event loop, beside which async tests can't run. Without an __init__.py a package's fixture
# would last for the session, so this one ends with its module.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine (on Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """Shared by tests that don't stop it."""
    server = PageServer(tmp_path_factory.mktemp("server"), "--simulate").start()
    yield server
    server.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Callable[..., PageServer]]:
    """Makes servers that a test may kill."""
    servers = []

    def make(*arguments: str, token: str = "") -> PageServer:
        servers.append(PageServer(tmp_path, *arguments, token=token).start())
        return servers[-1]

    yield make
    for server in servers:
        server.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens a path of a server in a window of its own. What the page logs as an error fails the test."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_one(server: PageServer, path: str = "/#/", **options: object) -> Page:
        context = chromium.new_context(base_url=server.url, **options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
        page.goto(path)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def submit(chromium: Browser) -> Callable[[PageServer, str], str]:
    """Starts a pipeline over HTTP; its id."""

    def post(server: PageServer, source: str) -> str:
        context = chromium.new_context(base_url=server.url)
        answer = context.request.post("/pipelines", data={"dot_source": source, "simulate": True})
        assert answer.status == 201, answer.text()
        run_id = str(answer.json()["pipeline_id"])
        context.close()
        return run_id

    return post
