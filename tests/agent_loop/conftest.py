"""What tests of the agent share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_loop import LocalExecutionEnvironment


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[LocalExecutionEnvironment]:
    """The local environment in a directory of its own, cleaned up at the end."""
    local = LocalExecutionEnvironment(tmp_path)
    await local.initialize()
    yield local
    await local.cleanup()
