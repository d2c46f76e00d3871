"""The conformance suite for environments, run on the ones that lie elsewhere, each for real but Kubernetes."""

import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from agent_loop.environments import (
    DockerExecutionEnvironment,
    EnvironmentPolicy,
    ExecutionEnvironmentError,
    KubernetesExecutionEnvironment,
    PathNotFoundError,
    SSHExecutionEnvironment,
)
from conformance import environment as suite

every_check = pytest.mark.parametrize("check", suite.ALL_CHECKS, ids=lambda check: check.__name__)
pytestmark = pytest.mark.slow
one_docker = pytest.mark.xdist_group("docker")


@pytest.fixture
async def in_docker(docker: Any) -> AsyncIterator[Any]:
    """In a directory of its own of a container that others use too."""
    directory = f"/checks/{uuid.uuid4().hex}/dir"
    docker.run("exec", docker.container, "mkdir", "-p", directory)
    environment = DockerExecutionEnvironment(container=docker.container, docker=docker.command, working_dir=directory)
    await environment.initialize()
    yield suite.Subject(environment=environment)
    await environment.cleanup()


@one_docker
@every_check
async def test_docker(in_docker: Any, check: Any) -> None:
    await suite.run(check, in_docker)


@one_docker
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_docker_starts_and_removes_its_own(docker: Any, tmp_path: Path) -> None:
    environment = DockerExecutionEnvironment(
        "busybox",
        docker=docker.command,
        mount=tmp_path,
        run_arguments=["--network=none", "--env=A_TOKEN=secret", "--env=KEPT=yes"],
        variables={"GIVEN": "here"},
    )
    before = docker.run("ps", "--all", "--quiet").split()
    await environment.initialize()
    try:
        await environment.write_file("dir/file", "from inside")
        assert (tmp_path / "dir/file").read_text() == "from inside"
        result = await environment.exec_command('pwd; echo "$A_TOKEN $KEPT $GIVEN"; sleep 1000 &', 5_000)
        assert result.stdout == "/workspace\n yes here\n"
        assert "Linux" in environment.os_version()
        assert len(docker.run("ps", "--all", "--quiet").split()) == len(before) + 1
    finally:
        await environment.cleanup()
    assert docker.run("ps", "--all", "--quiet").split() == before


@one_docker
@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (EnvironmentPolicy.FILTERED, ["yes", ""]),
        (EnvironmentPolicy.ALL, ["yes", "secret"]),
        (EnvironmentPolicy.CORE, ["", ""]),
        (EnvironmentPolicy.NONE, ["", ""]),
    ],
)
async def test_docker_variables_by_policy(docker: Any, policy: EnvironmentPolicy, seen: list[str]) -> None:
    arguments = ["--network=none", "--env=A_TOKEN=secret", "--env=KEPT=yes"]
    environment = DockerExecutionEnvironment("busybox", docker=docker.command, run_arguments=arguments, policy=policy)
    await environment.initialize()
    try:
        assert (await environment.exec_command('echo "$KEPT,$A_TOKEN"; ls / >/dev/null', 5_000)).stdout == ",".join(
            seen
        ) + "\n"
        with pytest.raises(ExecutionEnvironmentError, match="A-B"):
            await environment.exec_command("true", 5_000, None, {"A-B": "1"})
    finally:
        await environment.cleanup()


@one_docker
async def test_docker_says_what_is_wrong(docker: Any, tmp_path: Path) -> None:
    async def fails(match: str, **arguments: Any) -> None:
        environment = DockerExecutionEnvironment(**{"docker": docker.command, **arguments})
        with pytest.raises(ExecutionEnvironmentError, match=match):
            await environment.initialize()
        await environment.cleanup()

    await fails("No such container: none", container="none")
    await fails(
        "docker run failed: .*nothing-of-this-name", image="nothing-of-this-name", run_arguments=["--pull=never"]
    )
    await fails("working directory /nowhere does not exist in the container", container="kept", working_dir="/nowhere")
    await fails("can't run no-docker", container="kept", docker=["no-docker"])
    await fails("daemon", container="kept", docker=["docker", f"--host=unix://{tmp_path}/none"])
    with pytest.raises(ValueError, match="one of the two"):
        DockerExecutionEnvironment()
    with pytest.raises(ExecutionEnvironmentError, match="not initialized"):
        await DockerExecutionEnvironment("busybox").read_file("file")


@one_docker
async def test_docker_whose_container_dies(docker: Any) -> None:
    """A command in it ends with an error that says so, and what is left can still be cleaned up."""
    docker.run("run", "--detach", "--name=dying", "--network=none", "busybox", "sleep", "1000")
    environment = DockerExecutionEnvironment(container="dying", docker=docker.command, working_dir="/tmp")
    await environment.initialize()
    begun: list[str] = []
    kill = anyio.Event()

    def on_output(text: str) -> None:
        begun.append(text)
        kill.set()

    async with anyio.create_task_group() as tasks:

        async def end() -> None:
            await kill.wait()
            await anyio.to_thread.run_sync(lambda: docker.run("rm", "--force", "dying"))

        tasks.start_soon(end)
        with pytest.raises(ExecutionEnvironmentError, match="the container dying was lost while the command ran"):
            await environment.exec_command("echo begun; sleep 1000", 60_000, on_output=on_output)
    assert begun == ["begun\n"]
    with pytest.raises(ExecutionEnvironmentError, match="No such container"):
        await environment.cleanup()


ABANDONED = """
import anyio, json, sys
from agent_loop.environments import DockerExecutionEnvironment

async def main():
    environment = DockerExecutionEnvironment(**json.loads(sys.argv[1]))
    await environment.initialize()
    await environment.exec_command(sys.argv[2], 600_000, on_output=lambda text: print(text, flush=True))

anyio.run(main)
"""


@one_docker
async def test_docker_when_the_program_is_killed(docker: Any) -> None:
    """The command under way ends although nobody is left to end it."""
    mark = f"1{uuid.uuid4().int % 10**8:08}"
    arguments = json.dumps({"container": docker.container, "docker": docker.command, "working_dir": "/tmp"})
    command = f"trap '' TERM; echo begun; sleep {mark}; sleep {mark}; sleep {mark}"
    program = await anyio.open_process([sys.executable, "-c", ABANDONED, arguments, command], stderr=None)
    assert program.stdout is not None
    async with program:
        assert b"begun" in await program.stdout.receive()
        assert await suite.count_on_host(mark) > 0
        program.kill()
    with anyio.fail_after(10):
        while await suite.count_on_host(mark):
            await anyio.sleep(0.05)


one_sshd = pytest.mark.xdist_group("sshd")


def over_ssh(sshd: Any, directory: Path, **arguments: Any) -> SSHExecutionEnvironment:
    known = {"port": sshd.port, "username": sshd.username, "known_hosts": sshd.known_hosts}
    keys = {"client_keys": [sshd.client_key], "options": {"config": None, "agent_path": None}}
    return SSHExecutionEnvironment("127.0.0.1", str(directory), **{**known, **keys, **arguments})


@pytest.fixture
async def by_ssh(sshd: Any, tmp_path: Path) -> AsyncIterator[Any]:
    directory = tmp_path / "work"
    directory.mkdir()
    environment = over_ssh(sshd, directory)
    await environment.initialize()
    yield suite.Subject(environment=environment)
    await environment.cleanup()


@one_sshd
@every_check
async def test_ssh(by_ssh: Any, check: Any) -> None:
    await suite.run(check, by_ssh)


@one_sshd
async def test_ssh_trusts_and_is_trusted(sshd: Any, tmp_path: Path) -> None:
    async def fails(match: str, **arguments: Any) -> None:
        environment = over_ssh(sshd, tmp_path, **arguments)
        with pytest.raises(ExecutionEnvironmentError, match=match):
            await environment.initialize()
        await environment.cleanup()

    empty = tmp_path / "known_hosts"
    empty.touch()
    await fails("is not trusted: .*known_hosts", known_hosts=empty)
    await fails("refuses the login", client_keys=[], options={"config": None, "agent_path": None, "client_keys": []})
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        await fails("can't be reached: .*Connect call failed", port=unused.getsockname()[1])
    missing = over_ssh(sshd, tmp_path / "missing")
    with pytest.raises(PathNotFoundError, match="missing does not exist in the host"):
        await missing.initialize()


@one_sshd
async def test_ssh_more_programs_than_a_connection_takes(sshd: Any, tmp_path: Path) -> None:
    environment = over_ssh(sshd, tmp_path)
    await environment.initialize()
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(environment.exec_command, "sleep 1000", 1_000)
    finally:
        await environment.cleanup()


def connections(sshd: Any) -> list[int]:
    """Processes of the server that hold a connection."""
    return [int(pid) for pid in Path(f"/proc/{sshd.pid}/task/{sshd.pid}/children").read_text().split()]


@one_sshd
async def test_ssh_connection_lost(sshd: Any, tmp_path: Path) -> None:
    """The call says so, its command ends, and the next call connects anew."""
    environment = over_ssh(sshd, tmp_path)
    await environment.initialize()
    mark = f"1{uuid.uuid4().int % 10**8:08}"

    def cut(text: str) -> None:
        for pid in connections(sshd):
            os.kill(pid, signal.SIGKILL)

    try:
        with pytest.raises(
            ExecutionEnvironmentError, match=r"the host 127\.0\.0\.1 was lost while the command ran: .+"
        ):
            await environment.exec_command(f"echo begun; sleep {mark}; :", 60_000, on_output=cut)
        with anyio.fail_after(5):
            while await suite.count_on_host(mark):
                await anyio.sleep(0.05)
        assert (await environment.exec_command("echo again", 5_000)).stdout == "again\n"
        cut("")
        assert (await environment.exec_command("echo again", 5_000)).stdout == "again\n"
    finally:
        await environment.cleanup()
    with anyio.fail_after(5):
        while connections(sshd):
            await anyio.sleep(0.05)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_ssh_is_for_asyncio() -> None:
    with pytest.raises(ExecutionEnvironmentError, match="asyncio only"):
        await SSHExecutionEnvironment("127.0.0.1", "/tmp").initialize()


async def test_ssh_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with pytest.raises(ExecutionEnvironmentError, match=r"agent-loop\[ssh\]"):
        await SSHExecutionEnvironment("127.0.0.1", "/tmp").initialize()


def in_pod(directory: Path, **arguments: Any) -> KubernetesExecutionEnvironment:
    kubectl = [sys.executable, "-S", str(Path(__file__).with_name("kubectl.py"))]
    return KubernetesExecutionEnvironment(
        **{"pod": "web", "working_dir": str(directory), "kubectl": kubectl, **arguments}
    )


@pytest.fixture
async def in_kubernetes(tmp_path: Path) -> AsyncIterator[Any]:
    directory = tmp_path / "work"
    directory.mkdir()
    environment = in_pod(directory)
    await environment.initialize()
    yield suite.Subject(environment=environment)
    await environment.cleanup()


@every_check
async def test_kubernetes(in_kubernetes: Any, check: Any) -> None:
    await suite.run(check, in_kubernetes)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"pod": "none"}, 'the pod none can\'t be used: .*pods "none" not found'),
        ({"context": "unreachable"}, "the connection to the server .* was refused"),
        ({"context": "elsewhere"}, 'context "elsewhere" does not exist'),
        ({"namespace": "other"}, "forbidden"),
        ({"container": "none"}, "container none is not valid for pod web"),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
async def test_kubernetes_says_what_is_wrong(tmp_path: Path, arguments: dict[str, str], match: str) -> None:
    environment = in_pod(tmp_path, **arguments)
    with pytest.raises(ExecutionEnvironmentError, match=f"(?i){match}"):
        await environment.initialize()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_kubernetes_names_everything(tmp_path: Path) -> None:
    """Nor does what kubectl itself says, or keeps in the pod's variables, get into a command's output."""
    for arguments in ({"namespace": "default", "container": "main", "context": "here"}, {}):
        environment = in_pod(tmp_path, **arguments)
        await environment.initialize()
        result = await environment.exec_command('echo "$POD_NAME$POD_TOKEN"; exit 7', 5_000)
        assert (result.stdout, result.stderr, result.exit_code) == ("web\n", "", 7)
        await environment.cleanup()


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("name", ["check_a_timeout_leaves_no_process", "check_a_cancelled_call_leaves_no_process"])
async def test_kubernetes_on_trio(in_kubernetes: Any, name: str) -> None:
    await suite.run(getattr(suite, name), in_kubernetes)
