"""The process that runs Python within WebAssembly, so that it can be killed: a program of its own.

It gets what to do as JSON: `search_path` to import from, `module` (a compiled file, made from `source` if it isn't
there), and, unless it shall only be compiled, `arguments`, `variables`, `directories` (path here, path there, whether
writable), `stdin` (text), `scratch` (a directory), `memory_bytes` and `seconds`.
"""

import json
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_TRAPPED = 134


def main() -> None:
    """Exits as Python in there does, or with 134 if WebAssembly stops it."""
    task = json.loads(sys.argv[1])
    sys.path[:] = task["search_path"]
    # Optional, and this process's path is known only now.
    import wasmtime

    engine = wasmtime.Engine()
    compiled = Path(task["module"])
    if not compiled.exists():
        compile_module(wasmtime, engine, Path(task["source"]), compiled)
    if "arguments" not in task:
        return
    threading.Thread(target=end_after, args=(task["seconds"],), daemon=True).start()
    run(wasmtime, engine, wasmtime.Module.deserialize_file(engine, str(compiled)), task)


def compile_module(wasmtime: Any, engine: Any, source: Path, target: Path) -> None:
    """Takes seconds. The file appears whole."""
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(wasmtime.Module.from_file(engine, str(source)).serialize())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def run(wasmtime: Any, engine: Any, module: Any, task: dict[str, Any]) -> None:
    """Exits this process."""
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    store = wasmtime.Store(engine)
    store.set_limits(memory_size=task["memory_bytes"])
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["python", *task["arguments"]]
    wasi.env = list(task["variables"].items())
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    stdin = tempfile.NamedTemporaryFile(dir=task["scratch"])  # noqa: SIM115 - it goes with the directory at the latest
    stdin.write(task["stdin"].encode())
    stdin.flush()
    wasi.stdin_file = stdin.name
    for here, there, is_writable in task["directories"]:
        wasi.preopen_dir(here, there, is_writable)
    store.set_wasi(wasi)
    try:
        linker.instantiate(store, module).exports(store)["_start"](store)
    except wasmtime.ExitTrap as exit_trap:
        stdin.close()
        leave(exit_trap.code)
    except wasmtime.WasmtimeError as error:
        sys.stderr.write(f"WebAssembly stopped it: {error}\n")
        leave(_TRAPPED)
    leave(0)


def end_after(seconds: float) -> None:
    """End this process, whatever it does, also when no one is left who would."""
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def leave(code: int) -> None:
    """At once: nothing here needs to be taken down first."""
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
