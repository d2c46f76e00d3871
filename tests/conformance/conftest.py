"""Servers that tests of environments start for themselves."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


def wait_until(is_ready: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path, seconds: float) -> None:
    """Skips, with what the server said, if it ends or isn't ready by then."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            pytest.skip(f"{process.args[0]} does not run here: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


@dataclass(frozen=True)
class Docker:
    """A daemon of the test run's own, with an image `busybox` and a running container of it."""

    command: list[str]
    container: str

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run([*self.command, *arguments], input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()


def busybox_tree(folder: Path) -> bytes:
    """An archive of a file system with nothing but busybox."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    for name in ("bin", "tmp", "proc"):
        (folder / name).mkdir(parents=True)
    shutil.copy(busybox, folder / "bin/busybox")
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            (folder / "bin" / name).symlink_to("busybox")
    return subprocess.run(["tar", "-C", str(folder), "-c", "."], capture_output=True, check=True).stdout


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    for program in ("dockerd", "docker", "busybox"):
        if shutil.which(program) is None:
            pytest.skip(f"no Docker: there is no {program} here")
    if os.geteuid() != 0:
        pytest.skip("no Docker: its daemon needs root")
    # A socket's path may not be long.
    folder = tmp_path_factory.mktemp("docker")
    socket = f"unix://{folder}/s"
    log = folder / "log"
    options = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"]
    places = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", f"--host={socket}"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(["dockerd", *places, *options], stdout=output, stderr=output)
    docker = Docker(["docker", f"--host={socket}"], "kept")

    def answers() -> bool:
        return subprocess.run([*docker.command, "version"], capture_output=True, check=False).returncode == 0

    try:
        wait_until(answers, daemon, log, 30)
        docker.run("import", "--change", "ENV PATH=/bin", "-", "busybox", stdin=busybox_tree(folder / "tree"))
        idle = "while :; do sleep 3600 & wait $!; done"
        docker.run("run", "--detach", "--name=kept", "--network=none", "busybox", "sh", "-c", idle)
        yield docker
        left = docker.run("ps", "--all", "--quiet")
        docker.run("rm", "--force", *left.split())
    finally:
        daemon.terminate()
        daemon.wait(30)
        unmount(folder)


def unmount(folder: Path) -> None:
    """What a daemon leaves mounted below a folder would keep it from being removed."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)
