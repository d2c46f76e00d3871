"""Fixtures that every test may use."""

import os
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
