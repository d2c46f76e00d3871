"""Scripts of environments that lie elsewhere, run here: what happens when something breaks off."""

import subprocess
from pathlib import Path

import pytest
from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.program import run_program, shell_arguments
from agent_loop.environments.remote.transport import CommandLineTransport
from agent_loop.errors import ExecutionEnvironmentError

RUN_HEAD = ["token", "environment.token", "/", "", "0"]


def write(target: Path, size: int, data: bytes) -> int:
    arguments = shell_arguments(scripts.WRITE, str(target), str(size), "token", str(target.parent))
    return subprocess.run(arguments, input=data, check=False).returncode


@pytest.mark.parametrize("existing", [None, b"as it was"])
def test_half_a_file_is_not_written(tmp_path: Path, existing: bytes | None) -> None:
    target = tmp_path / "dir/file"
    if existing is not None:
        target.parent.mkdir()
        target.write_bytes(existing)
    assert write(target, 10, b"half") == scripts.INCOMPLETE
    assert (target.read_bytes() if target.exists() else None) == existing
    assert write(target, 4, b"half") == 0
    assert target.read_bytes() == b"half"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_hard_links_stay_one_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert write(tmp_path / "one", 3, b"new") == 0
    assert (tmp_path / "two").read_bytes() == b"new"


def test_a_command_whose_caller_has_gone_never_begins(tmp_path: Path) -> None:
    arguments = shell_arguments(scripts.RUN, *RUN_HEAD, "touch", str(tmp_path / "begun"))
    done = subprocess.run(arguments, input=b"", capture_output=True, check=False)
    assert (done.stdout, (tmp_path / "begun").exists()) == (b"", False)


def test_a_command_whose_caller_goes_is_ended() -> None:
    arguments = shell_arguments(scripts.RUN, *RUN_HEAD, "sleep", "1000")
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as guard:
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.write(b"\n")
        guard.stdin.flush()
        begun = guard.stdout.read1(100)
        guard.stdin.close()
        assert b"start" in begun
        assert guard.stdout.read() == b"\x1etoken:exit 143\x1e"


async def test_what_a_place_says_that_does_not_answer_is_told() -> None:
    """A login's start-up file that waits for something, say."""
    slow = CommandLineTransport("the container web", ["sh", "-c", "echo no lock yet >&2; exec sleep 60"])
    with pytest.raises(
        ExecutionEnvironmentError, match=r"does not answer for 0\.5 seconds; so far it says: no lock yet"
    ):
        await run_program(slow, shell_arguments("true"), seconds=0.5)
