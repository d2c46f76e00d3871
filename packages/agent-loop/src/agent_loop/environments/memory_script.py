"""One command of the shell in memory: followed while it runs in a thread, and stopped for certain.

The shell looks whether it shall stop between two commands. What could keep it longer, a `sleep` or a program of jq, is
done here instead, so that it can be cut short.
"""

import math
import pickle
import posixpath
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread

from agent_loop.environments.base import ExecResult, OutputCallback
from agent_loop.environments.memory_process import Answer, Query, arguments

# How long the shell may take over stopping. A thousandth of that is usual.
_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_TERMINATED = 128 + 15
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Script:
    """A command that is run once. `make_shell(builtins)` returns a shell of its own for it."""

    def __init__(
        self, make_shell: Callable[[Mapping[str, Any]], Any], command: str, on_output: OutputCallback | None
    ) -> None:
        self._shell = make_shell({"sleep": self._sleep, "jq": self._jq})
        self._command = command
        self._on_output = on_output
        self._stdout, self._stderr = bytearray(), bytearray()
        # Filled by the shell's thread, emptied by the event loop's.
        self._pending: deque[str] = deque()
        self._result: Any = None
        self._ended = anyio.Event()
        self._stopping = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    async def run(self, timeout_seconds: float) -> ExecResult:
        """To the end, or until the time is over. On timeout and cancellation the script is stopped first."""
        started = anyio.current_time()
        abandon = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._execute, abandon)
            try:
                with anyio.move_on_after(timeout_seconds):
                    await self._follow()
            finally:
                timed_out = not self._ended.is_set()
                if timed_out:
                    self._stop()
                    with anyio.CancelScope(shield=True), anyio.move_on_after(_GRACE_SECONDS):
                        await self._ended.wait()
                abandon.cancel()
        self._report()
        return self._exec_result(timed_out, round((anyio.current_time() - started) * 1000))

    async def _execute(self, abandon: anyio.CancelScope) -> None:
        with abandon:
            self._result = await anyio.to_thread.run_sync(
                lambda: self._shell.execute_sync(self._command, self._take), abandon_on_cancel=True
            )
        self._ended.set()

    async def _follow(self) -> None:
        """Report output until the end."""
        if self._on_output is None:
            await self._ended.wait()
        while not self._ended.is_set():
            self._report()
            with anyio.move_on_after(_POLL_SECONDS):
                await self._ended.wait()

    def _take(self, stdout: str, stderr: str) -> None:
        """Called by the shell, in its thread."""
        self._stdout += stdout.encode()
        self._stderr += stderr.encode()
        if self._on_output is not None:
            self._pending.append(stdout + stderr)

    def _report(self) -> None:
        text = "".join(self._pending.popleft() for _ in range(len(self._pending)))
        if self._on_output is not None and text:
            self._on_output(text)

    def _stop(self) -> None:
        self._stopping.set()
        self._shell.cancel()
        with self._lock:
            for child in self._children:
                child.kill()

    def _exec_result(self, timed_out: bool, duration_ms: int) -> ExecResult:
        stdout, stderr = self._stdout.decode(), self._stderr.decode()
        exit_code = _TERMINATED
        if not timed_out:
            exit_code = self._result.exit_code
            if self._result.error is None:
                stdout, stderr = self._result.stdout, self._result.stderr
            else:
                # Of a shell that gave up only the reason is in the result.
                stderr += f"{self._result.error}\n"
            if self._result.stdout_truncated or self._result.stderr_truncated:
                stderr += "[... the shell in memory keeps no more output than this ...]\n"
        return ExecResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=exit_code,
            timed_out=timed_out,
            duration_ms=duration_ms,
            output_bytes=len(stdout.encode()) + len(stderr.encode()),
        )

    def _sleep(self, call: Any) -> Any:
        """The command `sleep`, which ends when the script is stopped."""
        try:
            seconds = sum(_seconds(argument) for argument in call.argv)
        except ValueError as error:
            return _failure(f"sleep: invalid time interval {error}")
        if not call.argv:
            return _failure("sleep: missing operand")
        self._stopping.wait(min(seconds, threading.TIMEOUT_MAX))
        return ""

    def _jq(self, call: Any) -> Any:
        """The command `jq`, in a process that is killed when the script is stopped."""
        files = {}
        for argument in call.argv:
            path = posixpath.normpath(posixpath.join(call.cwd, argument))
            # What is no file may be an option or a filter; of one that can't be read, jq will say so.
            with suppress(RuntimeError):
                files[path] = call.fs.read_file(path)
        task = Query(arguments=call.argv, directory=call.cwd, stdin=call.stdin, files=files)
        child = subprocess.Popen(arguments(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
        with self._lock:
            self._children.add(child)
            if self._stopping.is_set():
                child.kill()
        output, _ = child.communicate(pickle.dumps(task))
        with self._lock:
            self._children.discard(child)
        if child.returncode != 0:
            return _failure("jq: it was ended")
        answer: Answer = pickle.loads(output)
        return _result(answer.stdout, answer.stderr, answer.exit_code)


def _seconds(argument: str) -> float:
    """GNU's: a number with a unit, or "infinity". Raises ValueError, with the argument."""
    if argument in ("inf", "infinity"):
        return math.inf
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([smhd]?)", argument)
    if found is None:
        raise ValueError(repr(argument))
    return float(found[1]) * _UNITS[found[2]]


def _failure(message: str) -> Any:
    return _result("", f"{message}\n", 1)


def _result(stdout: str, stderr: str, exit_code: int) -> Any:
    # Whoever gets here has it; the import is for those who haven't.
    from bashkit import BuiltinResult

    return BuiltinResult(stdout=stdout, stderr=stderr, exit_code=exit_code)
