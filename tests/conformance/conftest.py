"""Servers that tests of environments start for themselves."""

import os
import pwd
import shutil
import socket
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
    address = f"unix://{folder}/s"
    log = folder / "log"
    options = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"]
    places = [
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
        f"--host={address}",
    ]
    with log.open("wb") as output:
        daemon = subprocess.Popen(["dockerd", *places, *options], stdout=output, stderr=output)
    docker = Docker(["docker", f"--host={address}"], "kept")

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


@dataclass(frozen=True)
class SshServer:
    """OpenSSH's server on the loopback interface, for this user and a key made for the test."""

    port: int
    username: str
    client_key: Path
    known_hosts: Path
    pid: int


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no SSH: there is no sshd or no ssh-keygen here")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    settings = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host", "PidFile none", "StrictModes no"]
    settings += [f"AuthorizedKeysFile {folder}/client.pub", "PasswordAuthentication no", "UsePAM no", "MaxStartups 100"]
    # What the user's own start-up files do, and how long it takes, is no part of the test.
    settings += [f"SetEnv HOME={folder}"]
    (folder / "config").write_text("\n".join(settings) + "\n")
    if os.geteuid() == 0:
        # Where it locks up the part of it that has no rights.
        Path("/run/sshd").mkdir(exist_ok=True)
    log = folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "config")], stdout=output, stderr=output)

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(answers, server, log, 10)
    name = pwd.getpwuid(os.geteuid()).pw_name
    yield SshServer(port, name, folder / "client", folder / "known_hosts", server.pid)
    server.terminate()
    server.wait(10)
