"""A Kubernetes pod as an execution environment (section 4.3), by the `kubectl` command."""

from collections.abc import Mapping, Sequence

from agent_loop.environments.remote.environment import RemoteEnvironment
from agent_loop.environments.remote.transport import CommandLineTransport, Transport
from agent_loop.environments.variables import EnvironmentPolicy


class KubernetesExecutionEnvironment(RemoteEnvironment):
    """Files and commands of a running pod, relative to `working_dir` in it. The pod is neither made nor removed.

    `namespace`, `container` and `context` are what kubectl calls them, with its own defaults; `kubectl` is the command,
    with options such as `--kubeconfig`. The user needs the right to `pods/exec`. See RemoteEnvironment for the other
    parameters. Tested against a stand-in for kubectl, so far on no real cluster.
    """

    def __init__(
        self,
        pod: str,
        *,
        namespace: str | None = None,
        container: str | None = None,
        context: str | None = None,
        working_dir: str = "/workspace",
        kubectl: Sequence[str] = ("kubectl",),
        policy: EnvironmentPolicy = EnvironmentPolicy.FILTERED,
        variables: Mapping[str, str] | None = None,
        writable_roots: Sequence[str] = (),
        allow_outside: bool = False,
    ) -> None:
        given = {"context": context, "namespace": namespace, "container": container}
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        super().__init__(
            _Pod(pod, [*kubectl, "exec", "--stdin", *options, pod, "--"]),
            working_dir,
            policy=policy,
            variables=variables,
            writable_roots=writable_roots,
            allow_outside=allow_outside,
        )


class _Pod:
    """Is there already, and stays."""

    ends_processes = False

    def __init__(self, name: str, prefix: Sequence[str]) -> None:
        self._transport = CommandLineTransport(f"the pod {name}", prefix)

    async def start(self) -> Transport:
        return self._transport

    async def stop(self) -> None:
        pass
