"""Shell commands around the tool calls of an agent: `tool_hooks.pre` and `tool_hooks.post` (section 9.7)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from agent_loop import (
    Allow,
    ApprovalRequest,
    Deny,
    EnvironmentPolicy,
    EventKind,
    EventsLostError,
    ExecResult,
    ExecutionEnvironmentError,
    LocalExecutionEnvironment,
    Session,
    SessionEvent,
)
from anyio.abc import TaskGroup

from attractor.graph import Node, to_seconds, to_text
from attractor.state.context import Context
from attractor.state.json_values import encode_json, to_bytes
from attractor.state.run_directory import STAGE_DIR_VARIABLE
from attractor.state.stage_files import append_to, write_file

HOOKS_NAME = "tool_hooks"
LOG_NAME = "tool_hooks.jsonl"
TIMEOUT_SECONDS = 60.0
_REASON_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCommands:
    """The commands of a stage, each empty for none, and how many seconds one may take."""

    pre: str = ""
    post: str = ""
    timeout: float = TIMEOUT_SECONDS

    @classmethod
    def of_node(cls, node: Node, context: Context) -> "HookCommands":
        """The node's attributes, each else the graph's."""
        graph = context.run.graph
        outer = graph.attrs if graph else {}

        def value(name: str) -> Any:
            return node.attrs.get(name) if node.text(name) else outer.get(name)

        limits = (to_seconds(attrs.get("tool_hooks.timeout")) for attrs in (node.attrs, outer))
        return cls(
            pre=to_text(value("tool_hooks.pre")).strip(),
            post=to_text(value("tool_hooks.post")).strip(),
            timeout=next(filter(None, limits), TIMEOUT_SECONDS),
        )


class ToolHooks:
    """Runs the hooks of one stage's session, and of its subagents, in `working_dir`.

    A hook reads the call as JSON from stdin: `hook`, `run_id`, `node`, `session_id`, `call_id`, `tool`, `arguments`;
    after the call also `output` and `is_error`. The node and the tool are in ATTRACTOR_NODE_ID and ATTRACTOR_TOOL_NAME
    too, the stage's directory in ATTRACTOR_STAGE_DIR. What a hook was given lies in `tool_hooks/` there, what became
    of it in `tool_hooks.jsonl`.

    `approve` is the session's approver: a pre-hook that exits with anything but 0, or that can't be run in time, skips
    the call, and the model reads what it printed. `follow` runs the post-hooks in the order in which the calls ended,
    while the session goes on; the stage waits for the last one. Their failures are recorded, no more.
    """

    def __init__(
        self, commands: HookCommands, node: Node, context: Context, stage_dir: Path, working_dir: Path
    ) -> None:
        self._commands = commands
        self._context = context
        self._stage_dir = stage_dir
        self._environment = LocalExecutionEnvironment(working_dir, policy=EnvironmentPolicy.ALL)
        self._facts = {"run_id": context.run.run_id, "node": node.id}
        self._goal = context.run.graph.goal if context.run.graph else ""
        self._numbers = count(1)
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}
        self._followed: set[str] = set()

    async def start(self) -> None:
        """Must come first; `close` must come last."""
        (self._stage_dir / HOOKS_NAME).mkdir(parents=True, exist_ok=True)
        await self._environment.initialize()

    async def close(self) -> None:
        """End what hooks left running."""
        with anyio.CancelScope(shield=True):
            await self._environment.cleanup()

    async def approve(self, request: ApprovalRequest) -> Allow | Deny:
        """Run the pre-hook, if there is one."""
        call = {"call_id": request.call_id, "tool": request.tool_name, "arguments": dict(request.arguments)}
        call = {"session_id": request.session_id, **call}
        if self._commands.pre:
            reason = await self._run("pre", self._commands.pre, call)
            if reason:
                self._context.append_log(f"{self._facts['node']}: {request.tool_name} was skipped: {reason}")
                return Deny(reason)
        self._calls[request.session_id, request.call_id] = call
        return Allow()

    async def follow(self, session: Session, tasks: TaskGroup) -> None:
        """Run the post-hooks of a session, and of those that it spawns, until it has ended."""
        if not self._commands.post:
            return
        self._followed.add(session.id)
        try:
            async for event in session.events():
                for handle in session.subagents.handles.values():
                    if isinstance(handle.session, Session) and handle.session.id not in self._followed:
                        self._followed.add(handle.session.id)
                        tasks.start_soon(self.follow, handle.session, tasks)
                if event.kind is EventKind.TOOL_CALL_END:
                    await self._after(event)
        except EventsLostError as error:
            self._record({"hook": "post", "failure": str(error)})

    async def _after(self, event: SessionEvent) -> None:
        call = self._calls.pop((event.session_id, event.data["call_id"]), None)
        if call is None:
            return  # It was never executed: skipped, unknown, or with arguments that don't fit.
        text = event.data.get("output", event.data.get("error", ""))
        reason = await self._run(
            "post", self._commands.post, {**call, "output": text, "is_error": event.data["is_error"]}
        )
        if reason:
            self._context.append_log(f"{self._facts['node']}: the hook after {call['tool']} failed: {reason}")

    async def _run(self, hook: str, command: str, call: Mapping[str, Any]) -> str:
        """Run a hook and record how it went; why it failed, empty if it did not."""
        number = next(self._numbers)
        given = self._stage_dir / HOOKS_NAME / f"{number}-{hook}.json"
        write_file(given, to_bytes(json.dumps({"hook": hook, **self._facts, **call}, default=str) + "\n"))
        variables = {
            "goal": self._goal,
            "ATTRACTOR_HOOK": hook,
            "ATTRACTOR_HOOK_INPUT": str(given),
            "ATTRACTOR_NODE_ID": self._facts["node"],
            "ATTRACTOR_TOOL_NAME": call["tool"],
            "ATTRACTOR_TOOL_CALL_ID": call["call_id"],
            STAGE_DIR_VARIABLE: str(self._stage_dir),
        }
        shell = "{ " + command + '\n} < "$ATTRACTOR_HOOK_INPUT"'
        record = {"hook": hook, "number": number, "tool": call["tool"], "call_id": call["call_id"]}
        try:
            result = await self._environment.exec_command(
                shell, round(self._commands.timeout * 1000), env_vars=variables
            )
        except (ExecutionEnvironmentError, OSError, ValueError) as error:
            reason = f"the {hook}-hook could not be run: {error}"
            self._record({**record, "failure": reason})
            return reason
        reason = _find_failure(hook, result, self._commands.timeout)
        output = {"stdout": result.stdout, "stderr": result.stderr}
        self._record({**record, "exit_code": result.exit_code, **output, "failure": reason})
        return reason

    def _record(self, record: Mapping[str, Any]) -> None:
        append_to(self._stage_dir / LOG_NAME, to_bytes(encode_json(record) + "\n"))


def _find_failure(hook: str, result: ExecResult, seconds: float) -> str:
    if result.timed_out:
        return f"the {hook}-hook took longer than {seconds:g} s"
    if result.exit_code == 0:
        return ""
    said = (result.stderr.strip() or result.stdout.strip())[-_REASON_CHARACTERS:]
    return f"the {hook}-hook exited with code {result.exit_code}" + (f": {said}" if said else "")
