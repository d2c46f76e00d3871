"""The conformance suite for environments, run on the ones that lie elsewhere, each for real but Kubernetes."""

import importlib.util
import json
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from agent_loop.environments import DockerExecutionEnvironment, EnvironmentPolicy, ExecutionEnvironmentError

_spec = importlib.util.spec_from_file_location("environment_suite", Path(__file__).with_name("environment.py"))
assert _spec is not None
assert _spec.loader is not None
suite: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = suite
_spec.loader.exec_module(suite)

every_check = pytest.mark.parametrize("check", suite.ALL_CHECKS, ids=lambda check: check.__name__)
one_docker = pytest.mark.xdist_group("docker")


@pytest.fixture
async def in_docker(docker: Any) -> AsyncIterator[Any]:
    """In a directory of its own of a container that others use too."""
    directory = f"/work/{uuid.uuid4().hex}/dir"
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
