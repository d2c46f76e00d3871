"""The local machine: files, processes, variables (sections 4.2, 5.4 and 9.4)."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from agent_loop import EnvironmentPolicy, ExecResult, ExecutionEnvironment, LocalExecutionEnvironment
from agent_loop.environments.output import STDERR, STDOUT, OutputCapture
from agent_loop.environments.variables import filter_variables
from agent_loop.errors import BinaryFileError, ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError
from agent_loop.tools.files import read_file
from agent_loop.tools.shell import describe_result

Environment = LocalExecutionEnvironment
BOTH_BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def read_pid(path: Path) -> int:
    with anyio.fail_after(5):
        while not (found := path.read_text().strip() if path.exists() else ""):
            await anyio.sleep(0.01)
    return int(found)


def test_it_keeps_the_contract(tmp_path: Path) -> None:
    assert isinstance(LocalExecutionEnvironment(tmp_path), ExecutionEnvironment)


@BOTH_BACKENDS
async def test_output_exit_code_and_duration(environment: Environment) -> None:
    result = await environment.exec_command("echo out; echo err >&2; exit 3", 5_000)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert not result.timed_out
    assert result.output_bytes == 8
    assert 0 <= result.duration_ms < 5_000


async def test_a_signal_is_told_as_a_shell_tells_it(environment: Environment) -> None:
    assert (await environment.exec_command("kill -KILL $$", 5_000)).exit_code == 128 + signal.SIGKILL
    assert (await environment.exec_command("no-such-command-here", 5_000)).exit_code == 127


async def test_directory_and_variables_of_a_call(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    result = await environment.exec_command("pwd; echo $GREETING", 5_000, "sub", {"GREETING": "hello"})
    assert result.stdout == f"{tmp_path / 'sub'}\nhello\n"
    with pytest.raises(PathNotFoundError, match="missing"):
        await environment.exec_command("pwd", 5_000, "missing")


@BOTH_BACKENDS
@pytest.mark.parametrize(
    "command",
    [
        "echo child-done; (sleep 30) &",
        "echo child-done; sleep 30 & disown",
        "echo child-done; setsid sleep 30 &",
        "echo child-done; nohup sleep 30 2>/dev/null >&2 &",
    ],
)
async def test_background_children_are_not_waited_for_but_end_with_the_environment(
    environment: Environment, tmp_path: Path, command: str
) -> None:
    result = await environment.exec_command(f"{command}\necho $! > pid", 5_000)
    assert (result.stdout, result.exit_code, result.timed_out) == ("child-done\n", 0, False)
    assert result.duration_ms < 3_000
    pid = await read_pid(tmp_path / "pid")
    assert is_alive(pid)
    await environment.cleanup()
    assert not is_alive(pid)


async def test_a_flooding_background_child_does_not_hold_the_call(environment: Environment) -> None:
    result = await environment.exec_command("yes & echo started", 5_000)
    assert not result.timed_out
    assert "started" in result.stdout


@pytest.mark.parametrize(
    "command", ["cat", "read x; echo done", f"{sys.executable} -c 'import sys; print(repr(sys.stdin.read()))'"]
)
async def test_stdin_is_empty(environment: Environment, command: str) -> None:
    assert not (await environment.exec_command(command, 5_000)).timed_out


async def test_output_that_is_not_utf8(environment: Environment) -> None:
    assert (await environment.exec_command(r"printf 'head\xff\xe4tail\n'", 5_000)).stdout == "head��tail\n"
    assert "ELF" in (await environment.exec_command("head -c 200 /bin/ls", 5_000)).stdout


@BOTH_BACKENDS
async def test_timeout_terminates_the_group_and_keeps_the_output(environment: Environment, tmp_path: Path) -> None:
    result = await environment.exec_command("echo before; sleep 60 & echo $! > pid; wait", 200)
    assert result.timed_out
    assert result.stdout == "before\n"
    assert result.exit_code == 128 + signal.SIGTERM
    assert result.duration_ms < 1_500
    assert not is_alive(await read_pid(tmp_path / "pid"))


async def test_timeout_kills_what_ignores_sigterm(environment: Environment, tmp_path: Path) -> None:
    result = await environment.exec_command("trap 'echo term' TERM; echo $$ > pid; while :; do sleep 0.1; done", 200)
    assert result.timed_out
    assert "term" in result.stdout
    assert result.exit_code == 128 + signal.SIGKILL
    assert 2_000 <= result.duration_ms < 3_500
    assert not is_alive(await read_pid(tmp_path / "pid"))


@BOTH_BACKENDS
async def test_cancellation_kills_the_group(environment: Environment, tmp_path: Path) -> None:
    started = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(environment.exec_command, "sleep 300 & echo $! > pid; wait", 600_000)
        pid = await read_pid(tmp_path / "pid")
        tasks.cancel_scope.cancel()
    assert time.monotonic() - started < 3
    assert not is_alive(pid)


async def test_pieces_of_output_are_reported_as_they_come(environment: Environment, tmp_path: Path) -> None:
    pieces: list[str] = []

    def on_output(text: str) -> None:
        pieces.append(text)
        (tmp_path / "seen").touch()

    command = "echo é; until [ -e seen ]; do sleep 0.02; done; printf '\\xc3'; sleep 0.05; printf '\\xa9'"
    result = await environment.exec_command(command, 5_000, on_output=on_output)
    assert not result.timed_out
    assert pieces[0] == "é\n"
    assert "".join(pieces) == result.stdout == "é\né"


async def test_a_flood_is_bounded_in_memory_and_whole_on_disk(environment: Environment) -> None:
    size = 40 * 1024 * 1024
    result = await environment.exec_command(f"echo first; yes | head -c {size}; echo last", 60_000)
    assert result.output_bytes == size + 11
    assert len(result.stdout) < 17 * 1024 * 1024
    assert result.stdout.startswith("first\n")
    assert result.stdout.endswith("last\n")
    assert result.output_file is not None
    assert f"all output is in {result.output_file}" in result.stdout
    assert Path(result.output_file).stat().st_size == size + 11
    await environment.cleanup()
    assert not Path(result.output_file).exists()


FLOOD = """
import anyio, sys
from agent_loop.environments import LocalExecutionEnvironment

async def main():
    environment = LocalExecutionEnvironment(sys.argv[1])
    await environment.initialize()
    result = await environment.exec_command("yes | head -c 1000000000", 300_000)
    # Of this program alone; what getrusage knows is its parent's, too.
    [peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
    await environment.cleanup()
    print(result.output_bytes, result.exit_code, len(result.stdout), peak)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks of memory are read from /proc")
def test_a_gigabyte_of_output_takes_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FLOOD, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    output_bytes, exit_code, kept, peak_kilobytes = map(int, done.stdout.split())
    assert (output_bytes, exit_code) == (1_000_000_000, 0)
    assert kept < 17 * 1024 * 1024
    assert peak_kilobytes < 200 * 1024


def test_capture_keeps_head_and_tail_of_both_streams(tmp_path: Path) -> None:
    capture = OutputCapture(lambda: str(tmp_path), limit=20)
    for number in range(10):
        capture.write(STDOUT, b"o%d " % number)
        capture.write(STDERR, b"e%d " % number)
    capture.close()
    assert capture.total_bytes == 60
    assert capture.file_name is not None
    assert Path(capture.file_name).read_bytes() == b"".join(b"o%d e%d " % (number, number) for number in range(10))
    note = f"bytes left out here; all output is in {capture.file_name} ...]\n"
    assert capture.text(STDOUT) == f"o0 o1 \n[... 20 {note} o9 "
    assert capture.text(STDERR) == f"e0 e\n[... 20 {note}e8 e9 "


def test_a_file_that_holds_only_the_beginning_is_said_to(tmp_path: Path) -> None:
    capture = OutputCapture(lambda: str(tmp_path), limit=20, file_limit=30)
    for number in range(10):
        capture.write(STDOUT, b"line %d\n" % number)
    capture.close()
    assert (capture.total_bytes, capture.file_bytes) == (70, 30)
    assert f"bytes left out here; the first 30 bytes of output are in {capture.file_name} ...]" in capture.text(STDOUT)
    cut = ExecResult(stdout="", stderr="", exit_code=0, output_file="/f", output_bytes=70, output_file_bytes=30)
    assert "[The first 30 of 70 bytes of output are in /f]" in describe_result(cut, 1)
    whole = ExecResult(stdout="", stderr="", exit_code=0, output_file="/f", output_bytes=70)
    assert "[All 70 bytes of output are in /f]" in describe_result(whole, 1)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "github_token",
        "DB_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "X_SECRET",
        "A_CREDENTIAL",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "TOKEN",
    ],
)
def test_secrets_are_left_out(name: str) -> None:
    assert filter_variables({name: "x"}, EnvironmentPolicy.FILTERED) == {}
    assert filter_variables({name: "x"}, EnvironmentPolicy.CORE) == {}
    assert filter_variables({name: "x"}, EnvironmentPolicy.ALL) == {name: "x"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "LC_ALL", "GOPATH", "CARGO_HOME", "NVM_DIR", "TMPDIR"])
def test_core_is_always_there_but_for_the_clean_start(name: str) -> None:
    for policy in (EnvironmentPolicy.FILTERED, EnvironmentPolicy.ALL, EnvironmentPolicy.CORE):
        assert filter_variables({name: "x", "OTHER": "y"}, policy)[name] == "x"
    assert filter_variables({name: "x"}, EnvironmentPolicy.NONE) == {}


async def test_commands_see_what_the_policy_lets_through(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"], "MY_API_KEY": "secret", "EDITOR": "vi"}
    seen = {}
    for policy in EnvironmentPolicy:
        local = LocalExecutionEnvironment(tmp_path, policy=policy, variables=variables)
        seen[policy] = (await local.exec_command('echo "[$MY_API_KEY] [$EDITOR]"', 5_000)).stdout.strip()
    assert seen == {
        EnvironmentPolicy.FILTERED: "[] [vi]",
        EnvironmentPolicy.ALL: "[secret] [vi]",
        EnvironmentPolicy.CORE: "[] []",
        EnvironmentPolicy.NONE: "[] []",
    }


async def test_what_is_not_a_regular_file_is_refused_at_once(environment: Environment, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with anyio.fail_after(2):
            for path in ("fifo", "/dev/zero", "dir", "socket"):
                with pytest.raises(PathNotAllowedError, match="not a regular file"):
                    await environment.read_file(path)
            for path in ("fifo", "dir", "socket"):
                with pytest.raises((PathNotAllowedError, OSError)):
                    await environment.write_file(path, "x")


async def test_reading_parts_of_a_file(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    assert await environment.read_file("file") == "one\r\ntwo\r\nthree"
    assert await environment.read_file("file", 2, 1) == "two\r\n"
    assert await environment.read_file("file", 3) == "three"
    assert await environment.read_file("file", 9) == ""
    assert await read_file({"file_path": "file", "offset": 2}, environment) == "2 | two\n3 | three"
    assert "offset=3" in str(await read_file({"file_path": "file", "limit": 2}, environment))


async def test_binary_files_are_not_shown_as_text(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\1\2")
    with pytest.raises(BinaryFileError, match="not a text file"):
        await environment.read_file("file")


async def test_writing_makes_directories_and_honours_the_umask(environment: Environment, tmp_path: Path) -> None:
    await environment.write_file("a/b/file", "é\r\n")
    assert (tmp_path / "a/b/file").read_bytes() == "é\r\n".encode()
    (tmp_path / "plain").touch()
    assert (tmp_path / "a/b/file").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert await environment.file_exists("a/b")
    assert not await environment.file_exists("a/c")


async def test_listing(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "b/c").mkdir(parents=True)
    (tmp_path / "b/c/deep").touch()
    (tmp_path / "a").write_text("12345")
    (tmp_path / "b/loop").symlink_to(tmp_path)
    assert [(entry.name, entry.is_dir) for entry in await environment.list_directory(".", 2)] == [
        ("a", False),
        ("b", True),
        ("b/c", True),
        ("b/loop", False),
    ]
    assert (await environment.list_directory("."))[0].size == 5
    with pytest.raises(PathNotFoundError):
        await environment.list_directory("missing")


async def test_descriptors_are_given_back(environment: Environment) -> None:
    await environment.exec_command("true", 5_000)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await environment.exec_command("true", 5_000)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_no_child_outlives_the_interpreter(tmp_path: Path) -> None:
    """`cleanup` is what ends background processes; a session calls it, and this is that, seen from outside."""
    script = """
import sys, anyio
from agent_loop import LocalExecutionEnvironment

async def main():
    environment = LocalExecutionEnvironment(sys.argv[1])
    await environment.initialize()
    await environment.exec_command("nohup sleep 300 >/dev/null 2>&1 & echo $! > pid", 5000)
    await environment.cleanup()

anyio.run(main)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=30)
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_lines_of_a_file_too_big_to_be_read_whole(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("".join(f"line {number} {'x' * 90}\n" for number in range(1, 200_000)))
    assert (await environment.read_file("big", 150_000, 2)).splitlines() == [
        f"line {number} {'x' * 90}" for number in (150_000, 150_001)
    ]
    assert await environment.read_file("big", 300_000, 2) == ""


@BOTH_BACKENDS
async def test_without_process_descriptors_commands_run_just_as_well(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on systems other than Linux.
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert (await environment.exec_command("exit 3", 5_000)).exit_code == 3
    result = await environment.exec_command("echo part; sleep 300", 200)
    assert (result.stdout, result.timed_out, result.exit_code) == ("part\n", True, 143)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="daemons are found through /proc")
async def test_cleanup_finds_daemons_that_are_just_starting(environment: Environment) -> None:
    result = await environment.exec_command("for i in $(seq 60); do setsid sleep 300 & echo $!; done", 10_000)
    await environment.cleanup()
    pids = [int(line) for line in result.stdout.split()]
    assert len(pids) == 60
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.parametrize("name", ["~$report.txt", "~nobody-of-this-name", "n" * 255, "ü" * 127])
async def test_unusual_names_are_names_like_any_other(environment: Environment, tmp_path: Path, name: str) -> None:
    await environment.write_file(name, "first")
    await environment.write_file(name, "second")
    assert await environment.read_file(name) == "second"
    assert [path.name for path in tmp_path.iterdir()] == [name]


async def test_a_file_bigger_than_the_memory_is_never_held_whole(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"first\n")
    os.truncate(tmp_path / "huge", 1 << 40)
    assert await environment.read_file("huge", 1, 1) == "first\n"
    with pytest.raises(BinaryFileError):
        await environment.read_file("huge", 1, 2)
    with pytest.raises(ExecutionEnvironmentError, match="too big to be read whole"):
        await environment.read_bytes("huge")


async def test_a_long_line_of_a_big_file_counts_as_one(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (17 << 20) + b"\nsecond\nthird")
    assert await environment.read_file("big", 2, 1) == "second\n"
    assert await environment.read_file("big", 3, 5) == "third"
    assert len(await environment.read_file("big", 1, 3)) == 16 << 20


async def test_a_command_that_is_too_long_says_what_to_do(environment: Environment) -> None:
    with pytest.raises(ExecutionEnvironmentError, match="write it to a file"):
        await environment.exec_command("echo " + "x" * (4 << 20), 5_000)
