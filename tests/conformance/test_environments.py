"""The conformance suite for environments, run on the ones that need nothing but this machine."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_loop import ExecResult, LocalExecutionEnvironment
from agent_loop.environments import (
    EnvironmentWrapper,
    ExecutionEnvironmentError,
    LoggingExecutionEnvironment,
    MemoryExecutionEnvironment,
    ReadOnlyExecutionEnvironment,
    SandboxExecutionEnvironment,
)
from conformance import environment as suite

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


class Leaky(EnvironmentWrapper):
    async def cleanup(self) -> None:
        pass


class Forgetful(EnvironmentWrapper):
    async def exec_command(self, command: str, timeout_ms: int, *others: Any, **options: Any) -> ExecResult:
        return await self._inner.exec_command(command, timeout_ms)


class Careless(EnvironmentWrapper):
    async def write_file(self, path: str, content: str) -> None:
        Path(self.working_directory(), path).write_bytes(content.encode())


class Oldest(EnvironmentWrapper):
    async def glob(self, pattern: str, path: str) -> list[str]:
        return (await self._inner.glob(pattern, path))[::-1]


FAULTS = [
    (Leaky, "check_background_processes_end_with_the_environment"),
    (Forgetful, "check_directory_and_variables"),
    (Careless, "check_writing_outside_is_refused"),
    (Careless, "check_no_symlink_leads_outside"),
    (Oldest, "check_glob_has_the_newest_first"),
]


@pytest.mark.parametrize(("faulty", "check"), FAULTS, ids=lambda value: getattr(value, "__name__", value))
async def test_the_suite_notices(local: Any, faulty: type[EnvironmentWrapper], check: str) -> None:
    with pytest.raises((AssertionError, OSError)):
        await suite.run(getattr(suite, check), suite.Subject(environment=faulty(local.environment)))
    # For the one that initialized and didn't mean its own cleanup.
    await local.environment.cleanup()


async def test_what_is_declared_as_lacking_must_be(local: Any) -> None:
    subject = suite.Subject(environment=local.environment, lacks={suite.Feature.SYMLINKS: "none, it says"})
    with pytest.raises(AssertionError, match=r"declared as lacking .*symbolic links.* and yet check_symlinks passes"):
        await suite.run(suite.check_symlinks, subject)


def test_every_check_is_run() -> None:
    assert [value for name, value in vars(suite).items() if name.startswith("check_")] == suite.ALL_CHECKS
