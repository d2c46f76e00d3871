"""Files and commands in memory. What every environment does, tests/conformance/test_environments.py has."""

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop import GrepOptions
from agent_loop.environments import (
    ExecutionEnvironmentError,
    MemoryExecutionEnvironment,
    PathNotAllowedError,
    PathNotFoundError,
)

pytest.importorskip("bashkit", reason="the package bashkit is not installed (the extra agent-loop[memory])")

BOTH_BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
ENDLESS = {
    "sleep": "sleep 300",
    "sleep in the background": "sleep 300 & wait",
    "sleep of xargs": "echo 300 | xargs sleep",
    "loop": "while :; do :; done",
    "recursion of jq": "jq -n 'def f: f; f'",
    "range of jq": "echo '[1]' | jq 'last(range(1e12))'",
    "loops of awk": "awk 'BEGIN { for (i = 0; i < 999999; i++) for (j = 0; j < 999999; j++) x++ }'",
    "fork bomb": ":() { :|:& }; :",
    "a pipeline": "while :; do echo y; done | while read -r x; do :; done",
}


def children() -> set[str]:
    """Processes of this one, by their command lines."""
    tasks = Path("/proc/self/task")
    ids = {pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
    return {Path("/proc", pid, "cmdline").read_text() for pid in ids if Path("/proc", pid).exists()}


async def run(environment: MemoryExecutionEnvironment, command: str, **options: Any) -> tuple[str, str, int]:
    result = await environment.exec_command(command, 20_000, **options)
    assert not result.timed_out
    return result.stdout, result.stderr, result.exit_code


async def test_files_from_the_beginning() -> None:
    environment = MemoryExecutionEnvironment(
        {"src/main.py": "print('é')\n", "data": b"\0\xff", "/srv/app/absolute": "x"}, working_dir="/srv/app"
    )
    assert await environment.read_file("src/main.py") == "print('é')\n"
    assert await environment.read_bytes("data") == b"\0\xff"
    assert (await run(environment, "pwd; ls; cat src/main.py"))[0] == "/srv/app\nabsolute\ndata\nsrc\nprint('é')\n"
    with pytest.raises(PathNotAllowedError, match="outside the working directory"):
        MemoryExecutionEnvironment({"../escape": "x"})


async def test_nothing_of_the_machine_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    (tmp_path / "file").write_text("of this machine")
    environment = MemoryExecutionEnvironment(variables={"GREETING": "hello"})
    assert not await environment.file_exists(str(tmp_path / "file"))
    with pytest.raises(PathNotFoundError):
        await environment.read_file("/etc/passwd")
    assert (await run(environment, f"cat {tmp_path}/file; cat /etc/passwd"))[2] != 0
    stdout, _, _ = await run(environment, "env; python3 -c 'print(1)'")
    assert "secret" not in stdout
    assert "GREETING=hello" in stdout
    assert "HOME=/home/user" in stdout
    assert (await run(environment, "curl -s http://127.0.0.1:1/"))[2] != 0


@BOTH_BACKENDS
@pytest.mark.parametrize("command", ENDLESS.values(), ids=ENDLESS)
async def test_whatever_never_ends_is_stopped(command: str) -> None:
    environment = MemoryExecutionEnvironment()
    result = await environment.exec_command(f"echo before; {command}", 300)
    assert (result.stdout, result.timed_out, result.exit_code) == ("before\n", True, 143)
    assert result.duration_ms < 1_500
    started = time.monotonic()
    with anyio.move_on_after(0.3):
        await environment.exec_command(command, 60_000)
    assert time.monotonic() - started < 1.5
    assert not [line for line in children() if "memory_process" in line]
    assert await run(environment, "echo still here") == ("still here\n", "", 0)


async def test_jq_is_as_the_shells_own() -> None:
    environment = MemoryExecutionEnvironment({"data.json": '{"a": [1, 2]}', "dir/filter.jq": ".a | add"})
    assert await run(environment, "jq -c .a data.json") == ("[1,2]\n", "", 0)
    assert await run(environment, "cat data.json | jq '.a[1]'") == ("2\n", "", 0)
    assert await run(environment, "cd dir && jq -f filter.jq ../data.json") == ("3\n", "", 0)
    assert await run(environment, "jq -r '.b // \"é\"' < data.json > out; cat out") == ("é\n", "", 0)
    _, stderr, code = await run(environment, "jq .a missing.json")
    assert code != 0
    assert "missing.json" in stderr


@pytest.mark.parametrize(("argument", "seconds"), [("0.1", 0.1), (".1s", 0.1), ("0 0.1", 0.1), ("0m", 0)])
async def test_sleep(argument: str, seconds: float) -> None:
    started = time.monotonic()
    assert await run(MemoryExecutionEnvironment(), f"sleep {argument}; echo done") == ("done\n", "", 0)
    assert time.monotonic() - started >= seconds


async def test_sleep_knows_what_is_no_time() -> None:
    assert (await run(MemoryExecutionEnvironment(), "sleep soon"))[1:] == ("sleep: invalid time interval 'soon'\n", 1)
    assert (await run(MemoryExecutionEnvironment(), "sleep"))[2] == 1


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo a; echo b >&2; echo c", "a\nb\nc\n"),
        ("seq 3 | tac", "3\n2\n1\n"),
        ("x=$(echo hidden); echo shown", "shown\n"),
        ("{ echo hidden; echo too; } > file; (echo shown)", "shown\n"),
        (
            "f() { echo in f; }; f | cat; ls /none; exit 2",
            "in f\nls: cannot access '/none': No such file or directory\n",
        ),
    ],
)
async def test_what_is_reported_is_what_is_returned(command: str, output: str) -> None:
    pieces: list[str] = []
    stdout, stderr, _ = await run(MemoryExecutionEnvironment(), command, on_output=pieces.append)
    assert "".join(pieces) == output
    assert sorted((stdout + stderr).splitlines()) == sorted(output.splitlines())


async def test_limits_are_told() -> None:
    environment = MemoryExecutionEnvironment()
    with pytest.raises(ExecutionEnvironmentError, match="big can't be written: file too large"):
        await environment.write_bytes("big", bytes(11_000_000))
    for number in range(10):
        await environment.write_bytes(f"file{number}", bytes(9_900_000))
    with pytest.raises(ExecutionEnvironmentError, match="filesystem full"):
        await environment.write_bytes("one-more", bytes(9_900_000))
    _, stderr, code = await run(environment, "echo before; f() { f; }; f")
    assert code != 0
    assert "maximum function depth exceeded" in stderr


async def test_commands_leave_nothing_but_files_behind() -> None:
    environment = MemoryExecutionEnvironment()
    assert (await run(environment, "cd /tmp; export LEFT=over; alias l=ls; echo x > kept; mkdir /made"))[2] == 0
    assert (await run(environment, "echo [$LEFT]; pwd; cat /tmp/kept; ls -d /made"))[0] == "[]\n/workspace\nx\n/made\n"
    await environment.cleanup()
    assert await environment.read_file("/tmp/kept") == "x\n"


async def test_a_search_that_never_ends_can_be_cancelled() -> None:
    environment = MemoryExecutionEnvironment({"file": "a" * 40 + "b\n"})
    started = time.monotonic()
    with anyio.move_on_after(0.5) as scope:
        await environment.grep(r"^(a|a)+$", ".", GrepOptions())
    assert scope.cancelled_caught
    assert time.monotonic() - started < 2
    assert not [line for line in children() if "memory_process" in line]


async def test_links_in_circles() -> None:
    environment = MemoryExecutionEnvironment()
    assert (await run(environment, "ln -s b a; ln -s a b; mkdir d; ln -s ../d d/d"))[2] == 0
    with pytest.raises(ExecutionEnvironmentError, match="too many symlinks"):
        await environment.read_file("a")
    assert await environment.glob("**/*", ".") == []
    assert await environment.file_exists("a")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bashkit", None)
    with pytest.raises(ExecutionEnvironmentError, match=r"needs the package bashkit.*install agent-loop\[memory\]"):
        MemoryExecutionEnvironment()
