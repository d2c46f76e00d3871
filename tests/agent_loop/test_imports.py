"""What an import brings along, and that it works where POSIX is missing."""

import subprocess
import sys

import pytest

ELSEWHERE = """
import anyio, anyio.to_thread, http.client, multiprocessing, platform, subprocess, sys, tempfile, unified_llm, uuid
sys.platform = "win32"
for name in ("fcntl", "termios", "pwd", "grp", "resource"):
    sys.modules[name] = None
import agent_loop
for name in agent_loop.__all__:
    getattr(agent_loop, name)
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_does_not_need_posix() -> None:
    run(ELSEWHERE)


@pytest.mark.parametrize(
    "statement",
    [
        "from agent_loop.environments import LocalExecutionEnvironment",
        "from agent_loop import LocalExecutionEnvironment, ExecResult",
    ],
)
def test_environments_come_without_the_rest(statement: str) -> None:
    loaded = run(f"{statement}\nimport sys\nprint(*sys.modules)").split()
    assert "agent_loop.environments.local" in loaded
    assert not {"unified_llm", "pydantic", "jsonschema", "agent_loop.session", "agent_loop.tools"} & set(loaded)
    assert not {"agent_loop.environments.docker", "agent_loop.environments.wasm"} & set(loaded)


def test_names_that_are_not_there_are_said() -> None:
    import agent_loop

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        agent_loop.nonsense
    assert {"Session", "LocalExecutionEnvironment"} <= set(dir(agent_loop))
