"""The sandbox: what commands and file tools can't do in it, with either backend."""

import ctypes
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_loop import EnvironmentPolicy, GrepOptions
from agent_loop.environments import ExecutionEnvironmentError, PathNotAllowedError, SandboxExecutionEnvironment
from agent_loop.environments import landlock as landlock_module

Sandbox = SandboxExecutionEnvironment


async def begin(environment: Sandbox) -> Sandbox:
    try:
        await environment.initialize()
    except ExecutionEnvironmentError as error:
        pytest.skip(str(error))
    return environment


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("theirs")
    return tmp_path / "other"


@pytest.fixture
async def sandbox(work: Path, backend: Any) -> AsyncIterator[Sandbox]:
    environment = await begin(Sandbox(work, backend=backend))
    yield environment
    await environment.cleanup()


KEYS = """
import ctypes
library = ctypes.CDLL(None)
number = {"x86_64": 248, "aarch64": 217}[__import__("platform").machine()]
print([library.syscall(number + 1, b"user", b"agent-loop-test", None, 0),
       library.syscall(number, b"user", b"mine", b"text", 4, -3), library.syscall(number + 2, 0, -3, 0)])
"""


@pytest.fixture
def key() -> Any:
    """A key in this process's session keyring, which programs inherit."""
    library = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 248, "aarch64": 217}[platform.machine()]
    serial = library.syscall(number, b"user", b"agent-loop-test", b"secret", 6, -3)
    if serial < 0:
        pytest.skip(f"no keyring here: {os.strerror(ctypes.get_errno())}")
    yield serial
    library.syscall(number + 2, 3, serial)  # KEYCTL_REVOKE


async def run(environment: Sandbox, command: str) -> tuple[str, int]:
    result = await environment.exec_command(command, 20_000)
    assert not result.timed_out
    return result.stdout + result.stderr, result.exit_code


async def test_commands_write_in_the_working_directory_and_nowhere_else(sandbox: Sandbox, other: Path) -> None:
    assert await run(sandbox, "mkdir -p a/b && echo mine > a/b/file && mv a/b a/c && cat a/c/file") == ("mine\n", 0)
    for command in (
        f"echo bad > {other}/file",
        f"echo bad >> {other}/new",
        f"rm -f {other}/file; test ! -e {other}/file && test -d {other}",
        f"mv {other}/file .",
        f"ln -s {other} link && echo bad > link/file",
        f"ln {other}/file hard",
        f"truncate -s 0 {other}/file",
        "echo bad > /etc/made-in-a-sandbox",
        "touch /usr/made-in-a-sandbox",
    ):
        assert (await run(sandbox, command))[1] != 0, command
    assert [path.name for path in other.iterdir()] == ["file"]
    assert (other / "file").read_text() == "theirs"
    assert not Path("/etc/made-in-a-sandbox").exists()


async def test_commands_see_the_system_and_nothing_of_others(sandbox: Sandbox, other: Path) -> None:
    assert (await run(sandbox, "ls /usr/bin >/dev/null && cat /etc/passwd >/dev/null"))[1] == 0
    text, code = await run(sandbox, f"cat {other}/file")
    assert code != 0
    assert "theirs" not in text
    assert (await run(sandbox, f"ls {Path.home()}/.ssh {other}"))[1] != 0


async def test_more_can_be_made_readable_or_writable(work: Path, other: Path, tmp_path: Path, backend: Any) -> None:
    (tmp_path / "cache").mkdir()
    environment = await begin(Sandbox(work, backend=backend, readable=[other], writable_roots=[tmp_path / "cache"]))
    assert await run(environment, f"cat {other}/file") == ("theirs", 0)
    assert await environment.read_file(str(other / "file")) == "theirs"
    assert (await run(environment, f"echo bad > {other}/file"))[1] != 0
    with pytest.raises(PathNotAllowedError):
        await environment.write_file(str(other / "file"), "bad")
    assert (await run(environment, f"echo kept > {tmp_path}/cache/file"))[1] == 0
    await environment.write_file(str(tmp_path / "cache/second"), "kept")
    await environment.cleanup()
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["file", "second"]


async def test_file_tools_are_confined_too(sandbox: Sandbox, work: Path, other: Path) -> None:
    (work / "link").symlink_to(other)
    (work / "file").symlink_to(other / "file")
    for path in ("link/file", "file", str(other / "file"), "../other/file", "~/.ssh/id_rsa"):
        for call in (sandbox.read_file(path), sandbox.read_bytes(path), sandbox.grep("x", path, GrepOptions())):
            with pytest.raises(PathNotAllowedError, match="lies outside what the sandbox lets be read"):
                await call
        with pytest.raises(PathNotAllowedError, match="lies outside what the sandbox lets be written"):
            await sandbox.write_file(path, "bad")
    for listing in (sandbox.list_directory("link"), sandbox.glob("*", "link"), sandbox.list_directory("..")):
        with pytest.raises(PathNotAllowedError):
            await listing
    with pytest.raises(PathNotAllowedError):
        await sandbox.exec_command("pwd", 5_000, str(other))
    assert not await sandbox.file_exists(str(other / "file"))
    assert await sandbox.file_exists("/etc/passwd")
    await sandbox.delete_file("file")
    assert (other / "file").read_text() == "theirs"


# Exchanges two names at once (renameat2), so that there is always something.
SWAP = """
import ctypes
libc = ctypes.CDLL(None)
while libc.renameat2(-100, b"place", -100, b"link", 2) == 0:
    pass
"""


@pytest.mark.skipif(landlock_module.landlock_version() < landlock_module.LEAST_VERSION, reason="no Landlock here")
async def test_no_link_gets_in_between_the_look_and_the_use(sandbox: Sandbox, work: Path, other: Path) -> None:
    """Where a directory was, there is a link to somewhere else, and then not again, while file tools write there."""
    (work / "place").mkdir()
    (work / "link").symlink_to(other)
    refused = 0
    with subprocess.Popen([sys.executable, "-c", SWAP], cwd=work) as attacker:  # noqa: ASYNC220
        for number in range(1_500):
            try:
                await sandbox.write_file(f"place/{number}", "x")
            except (ExecutionEnvironmentError, OSError):
                refused += 1
        assert attacker.poll() is None
        attacker.kill()
    assert [path.name for path in other.iterdir()] == ["file"]
    assert 0 < refused < 1_500


@pytest.mark.parametrize("allowed", [False, True], ids=["cut", "allowed"])
async def test_the_network(work: Path, backend: Any, allowed: bool) -> None:
    environment = await begin(Sandbox(work, backend=backend, allow_network=allowed))
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo connected"
        text, code = await run(environment, command)
    assert ("connected" in text, code == 0) == (allowed, allowed)
    if not allowed:
        assert (await run(environment, "exec 3<>/dev/udp/127.0.0.1/53 && echo x >&3 && sleep 0.1 && echo y >&3"))[1]
    await environment.cleanup()


async def test_temporary_files_are_private_and_go_with_the_environment(sandbox: Sandbox, work: Path) -> None:
    name = f"private-{uuid.uuid4().hex}"
    text, code = await run(sandbox, f'echo kept > "$TMPDIR/{name}" && echo "$TMPDIR" && test "$HOME" = "$TMPDIR"')
    assert code == 0
    directory = Path(text.strip())
    assert await sandbox.read_file(str(directory / name)) == "kept\n"
    await sandbox.write_file(str(directory / "second"), "x")
    assert await run(sandbox, 'cat "$TMPDIR/second"') == ("x", 0)
    if sandbox.backend == "bubblewrap":
        assert await run(sandbox, f"cat /tmp/{name}; echo x > /tmp/{name}-2") == ("kept\n", 0)
    assert not Path("/tmp", name).exists()
    await sandbox.cleanup()
    assert not directory.exists()


async def test_read_only(work: Path, backend: Any) -> None:
    (work / "file").write_text("as it was")
    environment = await begin(Sandbox(work, backend=backend, read_only=True))
    assert await run(environment, "cat file") == ("as it was", 0)
    assert (await run(environment, "echo bad > file; echo bad > new"))[1] != 0
    with pytest.raises(PathNotAllowedError):
        await environment.write_file("file", "bad")
    assert (await run(environment, "echo x > $TMPDIR/x"))[1] == 0
    await environment.cleanup()
    assert {path.name: path.read_text() for path in work.iterdir()} == {"file": "as it was"}


async def test_root_has_no_powers(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "grep CapEff /proc/self/status"))[0].split() == ["CapEff:", "0" * 16]
    for command in ("mknod disk b 8 0", "mount -o remount,rw,bind /usr", "mount -t tmpfs none .", "chroot . true"):
        assert (await run(sandbox, command))[1] != 0, command


async def test_processes_outside_are_out_of_reach(sandbox: Sandbox) -> None:
    if sandbox.backend == "landlock" and landlock_module.landlock_version() < 6:
        pytest.skip("this kernel's Landlock knows nothing of signals")
    with subprocess.Popen(["sleep", "300"]) as process:  # noqa: ASYNC220
        assert (await run(sandbox, f"kill -KILL {process.pid}"))[1] != 0
        assert (await run(sandbox, f"cat /proc/{process.pid}/environ"))[1] != 0
        assert process.poll() is None
        process.kill()


async def test_signals_and_exit_codes_are_as_without(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "kill -KILL $$"))[1] == 128 + signal.SIGKILL
    assert (await run(sandbox, "yes | head -n 1")) == ("y\n", 0)
    assert (await run(sandbox, "cat <(echo one) > /dev/null; echo two > /dev/stderr")) == ("two\n", 0)


@pytest.mark.parametrize("policy", list(EnvironmentPolicy), ids=str)
async def test_the_policy_of_variables_holds(work: Path, backend: Any, policy: EnvironmentPolicy) -> None:
    variables = {"PATH": os.environ["PATH"], "MY_API_KEY": "secret", "EDITOR": "vi"}
    environment = await begin(Sandbox(work, backend=backend, policy=policy, variables=variables))
    text, _ = await run(environment, 'echo "[$MY_API_KEY] [$EDITOR]"')
    assert text == {"filtered": "[] [vi]\n", "all": "[secret] [vi]\n"}.get(policy, "[] []\n")
    await environment.cleanup()


async def test_the_first_choice_is_bubblewrap(work: Path) -> None:
    environment = await begin(Sandbox(work))
    assert environment.backend == ("bubblewrap" if shutil.which("bwrap") else "landlock")
    await environment.cleanup()


async def test_without_any_nothing_is_run(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock_module, "landlock_version", lambda: 0)
    environment = Sandbox(work, variables={"PATH": str(tmp_path / "nowhere")})
    with pytest.raises(ExecutionEnvironmentError, match=r"no sandbox can be had .*bwrap is not installed.*landlock"):
        await environment.initialize()
    with pytest.raises(ExecutionEnvironmentError, match="without one nothing is run"):
        await environment.exec_command("touch ran", 5_000)
    assert not (work / "ran").exists()
    await environment.cleanup()


async def test_a_bubblewrap_that_fails_is_not_trusted(work: Path, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with pytest.raises(ExecutionEnvironmentError, match="No permissions to create new namespace"):
        await Sandbox(work, backend="bubblewrap", variables=variables).initialize()
    environment = await begin(Sandbox(work, variables=variables))
    assert environment.backend == "landlock"
    await environment.cleanup()


def test_what_cannot_be_confined_is_not_run(tmp_path: Path) -> None:
    for rules in (f'{{"read": ["/usr"], "write": ["{tmp_path}/missing"], "network": false}}', "nonsense", "{}"):
        command = [sys.executable, "-I", "-S", landlock_module.__file__, rules, "/bin/touch", str(tmp_path / "ran")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 126
        assert "the command was not run" in done.stderr
    assert not (tmp_path / "ran").exists()


async def test_the_keyrings_of_the_kernel_are_out_of_reach(work: Path, backend: Any, key: int) -> None:
    (work / "keys.py").write_text(KEYS)
    python = os.path.realpath(sys.executable)
    environment = await begin(Sandbox(work, backend=backend, readable=[Path(python).parents[1]]))
    assert await run(environment, f"{python} keys.py") == ("[-1, -1, -1]\n", 0)
    await environment.cleanup()
    outside = subprocess.run([python, work / "keys.py"], capture_output=True, text=True, check=True)  # noqa: ASYNC221
    assert str(key) in outside.stdout, "without a sandbox the key is found"
