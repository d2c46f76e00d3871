"""The tool loop as a stage of pipelines written in DOT."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unified_llm import Client

from attractor.backends.model_choice import choose_model
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node, to_count
from attractor.handlers.child_run import ChildResult
from attractor.handlers.codergen import RESPONSE_NAME, begin_stage, build_prompt, shorten, write_text
from attractor.handlers.command_tools import COMMANDS, CommandTool, parse_command_tools
from attractor.outcome import Outcome
from attractor.prebuilt.command_tools import open_tools
from attractor.prebuilt.composition import run_graph
from attractor.prebuilt.node_context import Stage
from attractor.prebuilt.run_record import extract_state
from attractor.prebuilt.tool_loop import ModelFunction, ToolLoopStatus, tool_loop
from attractor.prebuilt.tools import Tool
from attractor.state.context import Context
from attractor.state.run_directory import STAGE_DIR_VARIABLE, stage_path
from attractor.suspension import Suspend

MAX_TURNS = 10


class ToolLoopHandler:
    """Runs nodes of type `tool_loop`: the node's prompt to a model, with tools that the host gives here.

        PipelineRunner(handlers={"tool_loop": ToolLoopHandler([search, read], client=client)})

    A node has tools of its own in `tool_loop.commands`: shell commands, a line each, that run in `working_dir` and find
    the model's arguments in variables. `tool_loop.tools` of a node names those it may call, of either kind, by default
    all; `tool_loop.max_turns` bounds its turns. The
    model is the one that the node or its graph names, else `model`, which may be a function as for `tool_loop()`.

    A loop that completed is a success, whose notes are the last answer; any other end is a failure that names it. The
    context has `<node id>.status` and `<node id>.turns`. Each turn is a step of a run within the stage, so retries and
    resumptions go on behind the last one, and a tool that waits for a value suspends the pipeline.
    """

    is_external = True

    def __init__(
        self,
        tools: Sequence[Tool] = (),
        *,
        model: str | ModelFunction = "",
        client: Client | None = None,
        provider: str = "",
        system: str = "",
        options: Mapping[str, Any] | None = None,
        working_dir: str | Path | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._model = model
        self._client = client
        self._provider = provider
        self._system = system
        self._options = options
        self._working_dir = Path(working_dir or ".")

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        stage_dir = stage_path(logs_root, node.id)
        prompt = build_prompt(node, context, graph)
        begin_stage(stage_dir, prompt)
        variables = {"goal": graph.goal, "ATTRACTOR_NODE_ID": node.id, STAGE_DIR_VARIABLE: str(stage_dir)}
        async with open_tools(read_commands(node), context.run.working_dir or self._working_dir, variables) as own:
            tools = self._select(node, own)
            result = await self._run(prompt, tools, Stage(node, context, graph, logs_root))
        if result.waiting:
            raise Suspend(nested=True)
        if not result.status.is_success:
            return Outcome.fail(f"the tool loop of {node.id!r} failed: {result.failure_reason}")
        return _conclude(node, extract_state(result.context), stage_dir)

    async def _run(self, prompt: str, tools: Sequence[Tool], stage: Stage) -> ChildResult:
        node = stage.node
        model, provider = self._model, self._provider
        if isinstance(model, str):
            model, provider = choose_model(node, stage.context, self._client, model=model, provider=provider)
        loop = tool_loop(
            model,
            tools,
            client=self._client,
            provider=provider or None,
            system=self._system,
            max_turns=to_count(node.attrs.get("tool_loop.max_turns")) or MAX_TURNS,
            options=self._options,
        )
        values = {"messages": [{"role": "user", "content": prompt}]}
        return await run_graph(loop, stage, values)

    def _select(self, node: Node, own: Sequence[Tool]) -> list[Tool]:
        """The tools that the node may call; raises PipelineConfigurationError for one that isn't there, or twice."""
        tools = {**self._tools, **{tool.name: tool for tool in own}}
        if twice := [tool.name for tool in own if tool.name in self._tools]:
            raise PipelineConfigurationError(
                f"node {node.id!r} has a command for the tool {twice[0]}, which its ToolLoopHandler has already"
            )
        names = [name.strip() for name in node.text("tool_loop.tools").split(",") if name.strip()]
        unknown = [name for name in names if name not in tools]
        if unknown:
            known = ", ".join(tools) or "none"
            raise PipelineConfigurationError(
                f"node {node.id!r} names the tools {', '.join(unknown)}; it and its ToolLoopHandler have only: {known}"
            )
        return [tools[name] for name in names] if names else list(tools.values())


def read_commands(node: Node) -> list[CommandTool]:
    """The node's own tools; raises PipelineConfigurationError."""
    try:
        return parse_command_tools(node.text(COMMANDS))
    except ValueError as error:
        raise PipelineConfigurationError(f"{COMMANDS} of {node.id!r}: {error}") from error


def _conclude(node: Node, state: Mapping[str, Any], stage_dir: Path) -> Outcome:
    status = state.get("status", "")
    answers = [message["content"] for message in state.get("messages", ()) if message["role"] == "assistant"]
    text = answers[-1] if answers else ""
    write_text(stage_dir / RESPONSE_NAME, text)
    updates = {
        f"{node.id}.status": status,
        f"{node.id}.turns": state.get("turns", 0),
        "last_stage": node.id,
        "last_response": shorten(text),
    }
    if status == ToolLoopStatus.COMPLETED:
        return Outcome.success(text, context_updates=updates)
    why = f": {state['error']}" if state.get("error") else ""
    return Outcome.fail(f"the tool loop of {node.id!r} ended with {status}{why}", context_updates=updates)
