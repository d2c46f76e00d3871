"""The conformance suite for environments, run on the ones that need nothing but this machine."""

import importlib.util
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_loop import LocalExecutionEnvironment
from agent_loop.environments import (
    ExecutionEnvironmentError,
    LoggingExecutionEnvironment,
    MemoryExecutionEnvironment,
    ReadOnlyExecutionEnvironment,
    SandboxExecutionEnvironment,
)

_spec = importlib.util.spec_from_file_location("environment_suite", Path(__file__).with_name("environment.py"))
assert _spec is not None
assert _spec.loader is not None
suite: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = suite
_spec.loader.exec_module(suite)

every_check = pytest.mark.parametrize("check", suite.ALL_CHECKS, ids=lambda check: check.__name__)


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Any]:
    directory = tmp_path / "work"
    directory.mkdir()
    environment = LocalExecutionEnvironment(directory)
    await environment.initialize()
    yield suite.Subject(environment=environment)
    await environment.cleanup()


@every_check
async def test_local(local: Any, check: Any) -> None:
    await suite.run(check, local)


@every_check
async def test_logging(local: Any, check: Any) -> None:
    logger = logging.getLogger("test")
    await suite.run(check, suite.Subject(environment=LoggingExecutionEnvironment(local.environment, logger)))


@every_check
async def test_read_only(local: Any, check: Any) -> None:
    subject = suite.Subject(
        environment=ReadOnlyExecutionEnvironment(local.environment),
        seed=local.environment.write_bytes,
        lacks={suite.Feature.WRITES: "that is what it is for"},
    )
    await suite.run(check, subject)


@pytest.fixture(params=["bubblewrap", "landlock"])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    directory = tmp_path / "work"
    directory.mkdir()
    environment = SandboxExecutionEnvironment(directory, backend=request.param)
    try:
        await environment.initialize()
    except ExecutionEnvironmentError as error:
        pytest.skip(str(error))
    lacks = {suite.Feature.OUTSIDE: "only the system's directories and those that are named can be read"}
    yield suite.Subject(environment=environment, lacks=lacks)
    await environment.cleanup()


@every_check
async def test_sandbox(sandbox: Any, check: Any) -> None:
    await suite.run(check, sandbox)


@pytest.fixture
async def memory() -> AsyncIterator[Any]:
    pytest.importorskip("bashkit", reason="the package bashkit is not installed (the extra agent-loop[memory])")
    environment = MemoryExecutionEnvironment()
    await environment.initialize()
    yield suite.Subject(
        environment=environment,
        # Its `yes` prints no more than 10,000 lines.
        commands=suite.Commands(endless="while :; do echo 'flood of output'; done"),
        lacks={
            suite.Feature.PROCESSES: "the shell and its commands run in a thread, and background jobs are waited for",
            suite.Feature.LINE_BREAKS: "bashkit refuses them",
            suite.Feature.FLOODS: "bashkit keeps the first 10 MB and counts no further",
        },
    )
    await environment.cleanup()


@every_check
async def test_memory(memory: Any, check: Any) -> None:
    await suite.run(check, memory)
