"""The tool handler: a shell command as a stage (section 4.10)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_loop import EnvironmentPolicy, ExecResult, ExecutionEnvironmentError, LocalExecutionEnvironment

from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.state.run_directory import STAGE_DIR_VARIABLE, stage_path
from attractor.state.stage_files import open_text
from attractor.state.status_file import clear_status, read_status

OUTPUT_NAME = "tool_output.txt"
_CONTEXT_CHARACTERS = 8_000
_REASON_CHARACTERS = 2_000
_NO_TIMEOUT = 10 * 365 * 86400.0


class ToolHandler:
    """Runs the node's `tool_command` in the shell, in `working_dir`, with this process's environment.

    The command finds the pipeline's goal in the variable `goal` (so that `$goal` means it, as data and never as shell
    text), its node's id in ATTRACTOR_NODE_ID, and a directory of its own in ATTRACTOR_STAGE_DIR, where it may write a
    status.json. All output goes to tool_output.txt there as it comes; head and tail of stdout go to the context as
    `tool.output`, the exit code as `tool.exit_code`. A non-zero exit is a FAIL.
    """

    owns_timeout = True

    def __init__(self, working_dir: str | Path | None = None, *, dry_run: bool = False) -> None:
        self._environment = LocalExecutionEnvironment(Path(working_dir or "."), policy=EnvironmentPolicy.ALL)
        self._initialized = False
        self._dry_run = dry_run
        self.is_external = not dry_run

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        command = node.text("tool_command")
        if not command.strip():
            return Outcome.fail(f"tool node {node.id!r} has no tool_command", terminal=True)
        if self._dry_run:
            return _succeed(node, f"[Dry run] not executed: {command}", {})
        stage_dir = stage_path(logs_root, node.id)
        stage_dir.mkdir(parents=True, exist_ok=True)
        clear_status(stage_dir)
        try:
            result = await self._run(command, node, graph.goal, stage_dir)
        except (ExecutionEnvironmentError, OSError, ValueError) as error:
            return Outcome.fail(f"tool node {node.id!r} could not run its command: {error}")
        return _judge(node, result, read_status(stage_dir))

    async def close(self) -> None:
        """End what commands left running in the background. The runner calls it when the run ends."""
        if self._initialized:
            self._initialized = False
            await self._environment.cleanup()

    async def _run(self, command: str, node: Node, goal: str, stage_dir: Path) -> ExecResult:
        if not self._initialized:
            await self._environment.initialize()
            self._initialized = True
        variables = {"goal": goal, "ATTRACTOR_NODE_ID": node.id, STAGE_DIR_VARIABLE: str(stage_dir)}
        seconds = _NO_TIMEOUT if node.timeout is None else node.timeout
        with open_text(stage_dir / OUTPUT_NAME) as output:

            def write(piece: str) -> None:
                output.write(piece)
                output.flush()

            return await self._environment.exec_command(
                command, round(seconds * 1000), env_vars=variables, on_output=write
            )


def _judge(node: Node, result: ExecResult, reported: Outcome | None) -> Outcome:
    """A command that failed fails the stage, whatever it reported; of one that went well the report counts."""
    updates = {"tool.output": keep_ends(result.stdout), "tool.exit_code": result.exit_code}
    if result.timed_out or result.exit_code != 0:
        how = f"exited with code {result.exit_code}"
        if result.timed_out:
            how = f"ran longer than its timeout of {node.text('timeout')}"
        said = (result.stderr.strip() or result.stdout.strip())[-_REASON_CHARACTERS:]
        reason = f"tool node {node.id!r} {how}" + (f": {said}" if said else "")
        word = reported.word if reported and not reported.status.is_success else ""
        return Outcome.fail(reason, context_updates={**updates, "last_stage": node.id}, word=word)
    if reported is None:
        return _succeed(node, f"Tool completed: {node.text('tool_command')}", updates)
    return replace(reported, context_updates={**updates, "last_stage": node.id, **reported.context_updates})


def _succeed(node: Node, notes: str, updates: Mapping[str, Any]) -> Outcome:
    return Outcome.success(keep_ends(notes, 500), context_updates={**updates, "last_stage": node.id})


def keep_ends(text: str, most: int = _CONTEXT_CHARACTERS) -> str:
    """The text, or its first and last half of `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
