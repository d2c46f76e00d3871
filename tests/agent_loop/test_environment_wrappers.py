"""Environments around others (section 4.4)."""

import logging
from pathlib import Path

import anyio
import pytest
from agent_loop import DirEntry, GrepOptions, LocalExecutionEnvironment
from agent_loop.environments import (
    EnvironmentWrapper,
    LoggingExecutionEnvironment,
    PathNotAllowedError,
    PathNotFoundError,
    ReadOnlyExecutionEnvironment,
)
from agent_loop.environments.redaction import redact_command

LOGGER = "agent_loop.environment"


async def test_commands_are_logged_as_they_begin_and_end(
    environment: LocalExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    ticks = iter([1.0, 1.25])
    logged = LoggingExecutionEnvironment(environment, clock=lambda: next(ticks))
    await logged.exec_command("echo secret-output; exit 3", 5_000, None, {"B": "secret-value", "A": "1"})
    directory = environment.working_directory()
    call = f"exec_command 'echo secret-output; exit 3' in {directory} with A, B"
    assert caplog.messages == [f"{call}: started", f"{call}: exit code 3 in 250 ms"]
    assert "secret-value" not in caplog.text
    record = caplog.records[-1]
    assert (record.levelno, record.name) == (logging.INFO, LOGGER)
    assert (record.__dict__["env_call"], record.__dict__["env_seconds"]) == ("exec_command", 0.25)


async def test_each_call_has_its_level_and_outcome(
    environment: LocalExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    logged = LoggingExecutionEnvironment(environment)
    caplog.set_level(logging.DEBUG, LOGGER)
    await logged.write_file("file", "the content")
    await logged.write_bytes("data", b"the content")
    await logged.read_file("file")
    await logged.move_file("file", "other")
    await logged.delete_file("other")
    with pytest.raises(PathNotFoundError):
        await logged.read_file("file")
    await logged.exec_command("sleep 30", 100)
    with anyio.move_on_after(0.1):
        await logged.exec_command("sleep 30", 60_000)
    shown = [
        (record.levelname, f"{record.__dict__['env_call']} {record.__dict__['env_outcome']}")
        for record in caplog.records
        if hasattr(record, "env_call")
    ]
    assert shown == [
        ("INFO", "write_file ok"),
        ("INFO", "write_bytes ok"),
        ("DEBUG", "read_file ok"),
        ("INFO", "move_file ok"),
        ("INFO", "delete_file ok"),
        ("WARNING", "read_file PathNotFoundError"),
        ("WARNING", "exec_command timed out"),
        ("INFO", "exec_command cancelled"),
    ]
    assert "the content" not in caplog.text
    assert "write_file file (11 characters): ok" in caplog.text


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("OPENAI_API_KEY=abc EDITOR=vi make", "OPENAI_API_KEY=[redacted] EDITOR=vi make"),
        ("export DB_PASSWORD='a b' && run", "export DB_PASSWORD=[redacted] && run"),
        ('export TOKEN="a \\" b"; run', "export TOKEN=[redacted]; run"),
        ("mysql --password=abc --user=me", "mysql --password=[redacted] --user=me"),
        ("login --token abc -v", "login --token [redacted] -v"),
        ("curl -H 'Authorization: Basic abc' x", "curl -H 'Authorization: [redacted]' x"),
        ("curl -H 'X-Api-Key: abc' x", "curl -H 'X-Api-Key: [redacted]' x"),
        ("git clone https://me:abc@host/repo", "git clone https://me:[redacted]@host/repo"),
        ("echo sk-abcdefghijklmnop1234", "echo [redacted]"),
        ("echo ghp_abcdefghijklmnopqrstuvwx", "echo [redacted]"),
        ("grep -n 'token = 3' src | head --lines=5", "grep -n 'token = 3' src | head --lines=5"),
        ("ls -la; PATH=/bin env", "ls -la; PATH=/bin env"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_commands(command: str, shown: str) -> None:
    assert redact_command(command) == shown


async def test_read_only_refuses_whatever_changes_a_file(
    environment: LocalExecutionEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("text")
    guarded = ReadOnlyExecutionEnvironment(environment)
    for call, what in (
        (guarded.write_file("file", "x"), "file was not written"),
        (guarded.write_bytes("new", b"x"), "new was not written"),
        (guarded.delete_file("file"), "file was not deleted"),
        (guarded.move_file("file", "new"), "file was not moved"),
    ):
        with pytest.raises(PathNotAllowedError, match=f"^{what}: write operations are disabled in read-only mode$"):
            await call
    assert await guarded.read_file("file") == "text"
    assert await guarded.list_directory(".") == [DirEntry("file", False, 4)]
    assert await guarded.grep("t", ".", GrepOptions()) == "file:1:text"


async def test_read_only_runs_commands_unless_told_otherwise(environment: LocalExecutionEnvironment) -> None:
    assert (await ReadOnlyExecutionEnvironment(environment).exec_command("echo hi", 5_000)).stdout == "hi\n"
    strict = ReadOnlyExecutionEnvironment(environment, allow_commands=False)
    with pytest.raises(PathNotAllowedError, match=r"^the command was not run: write operations are disabled"):
        await strict.exec_command("echo hi > file", 5_000)
    assert not await strict.file_exists("file")


async def test_wrappers_wrap_wrappers(environment: LocalExecutionEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    both = ReadOnlyExecutionEnvironment(LoggingExecutionEnvironment(EnvironmentWrapper(environment)))
    assert (await both.exec_command("echo hi", 5_000)).stdout == "hi\n"
    with pytest.raises(PathNotAllowedError):
        await both.write_file("file", "x")
    assert len(caplog.messages) == 1
    assert both.platform() == environment.platform()
    assert both.os_version() == environment.os_version()
