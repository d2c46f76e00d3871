"""What a stage of a pattern works with: a registered function, a shell command, or a model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.calls import call
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node
from attractor.handlers.codergen import RESPONSE_NAME, ask, begin_stage, build_prompt, write_text
from attractor.handlers.tool import OUTPUT_NAME, ToolHandler
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.state.run_directory import stage_path
from attractor.state.stage_files import read_file
from attractor.state.status_file import read_status

Functions = Mapping[str, Callable[..., Any]]
"""Functions that pipelines may name. Each is called with a copy of the context's values, and may be async."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said: its text, and the outcome that it or its backend reported, if any."""

    text: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Toolkit:
    """What the stages of one run work with.

    A pipeline can only name functions that the host registered: nothing is imported on a pipeline's word.
    """

    backend: CodergenBackend = field(default_factory=SimulatedBackend)
    commands: ToolHandler = field(default_factory=ToolHandler)
    functions: Functions = field(default_factory=dict)
    dry_run: bool = False

    @property
    def is_simulated(self) -> bool:
        """Whether no model is asked."""
        return isinstance(self.backend, SimulatedBackend)

    async def call(self, node: Node, context: Context) -> Any:
        """The result of the function that the node names; raises PipelineConfigurationError if there is none."""
        name = node.text("function")
        function = self.functions.get(name)
        if function is None:
            known = ", ".join(sorted(self.functions)) or "none"
            raise PipelineConfigurationError(
                f"node {node.id!r} names the function {name!r}; registered are: {known}. A host registers them by "
                "PipelineRunner(functions={...})"
            )
        return await call(function, context.snapshot())

    async def run(self, node: Node, context: Context, graph: Graph, logs_root: Path, command: str = "") -> Outcome:
        """What a shell command comes to, by default the node's `tool_command`; see ToolHandler."""
        named = node.with_attrs({"tool_command": command}) if command else node
        return await self.commands.execute(named, context, graph, logs_root)

    async def ask(self, node: Node, context: Context, graph: Graph, logs_root: Path, more: str = "") -> Answer:
        """What a model says to the node's prompt, with `more` behind it; raises what the backend raises."""
        stage_dir = stage_path(logs_root, node.id)
        prompt = build_prompt(node, context, graph) + (f"\n\n{more}" if more else "")
        begin_stage(stage_dir, prompt)
        answer = await ask(self.backend, node, prompt, context)
        text = answer.notes if isinstance(answer, Outcome) else str(answer)
        if not (stage_dir / RESPONSE_NAME).exists():
            write_text(stage_dir / RESPONSE_NAME, text)
        return Answer(text, answer if isinstance(answer, Outcome) else read_status(stage_dir))


def read_output(node: Node, logs_root: Path) -> str:
    """All that the stage's last command wrote."""
    path = stage_path(logs_root, node.id) / OUTPUT_NAME
    try:
        return read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def to_outcome(node: Node, result: Any) -> Outcome:
    """What a function returned: an Outcome, a dict of context values, text for the notes, or nothing."""
    updates = {"last_stage": node.id}
    match result:
        case Outcome():
            return result
        case None:
            return Outcome.success(f"Function completed: {node.text('function')}", context_updates=updates)
        case str():
            return Outcome.success(result, context_updates=updates)
        case Mapping():
            notes = f"Function completed: {node.text('function')}"
            return Outcome.success(notes, context_updates={**updates, **result})
    return Outcome.fail(
        f"node {node.id!r}: function {node.text('function')!r} must return an Outcome, a dict of context values, text "
        f"or None, not {type(result).__name__}",
        terminal=True,
    )


def find_object(text: str, key: str) -> dict[str, Any] | None:
    """The first JSON object in the text that has `key`."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and key in found:
            return found
        at = text.find("{", at + 1)
    return None


class FunctionHandler:
    """Calls the registered function that the node's `function` names. What it raises fails the stage."""

    is_external = True

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        return to_outcome(node, await self._toolkit.call(node, context))


async def do_work(toolkit: Toolkit, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
    """The work of a stage by whichever its node has: `function`, `tool_command` or `prompt`, in this order."""
    if node.text("function"):
        return to_outcome(node, await toolkit.call(node, context))
    if node.text("tool_command"):
        return await toolkit.run(node, context, graph, logs_root)
    if not node.prompt:
        return Outcome.fail(f"node {node.id!r} needs a function, a tool_command or a prompt", terminal=True)
    answer = await toolkit.ask(node, context, graph, logs_root)
    return answer.outcome or Outcome.success(answer.text, context_updates={"last_stage": node.id})
