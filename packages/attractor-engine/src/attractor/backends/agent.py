"""An agent per stage: a session of agent_loop that works through tools until it is done."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_loop import (
    EnvironmentPolicy,
    ExecutionEnvironment,
    LocalExecutionEnvironment,
    ProviderProfile,
    RegisteredTool,
    Session,
    SessionConfig,
    StopReason,
    SubmitResult,
    ToolDefinition,
    Turn,
    create_anthropic_profile,
    create_gemini_profile,
    create_openai_compatible_profile,
    create_openai_profile,
)
from unified_llm import Client

from attractor.backends.agent_activity import SessionWatch
from attractor.backends.agent_session import work
from attractor.backends.changed_files import CHANGES_NAME, ChangedFiles
from attractor.backends.model_choice import choose_model
from attractor.backends.threads import find_thread
from attractor.backends.tool_hooks import HookCommands, ToolHooks
from attractor.backends.usage import report_usage
from attractor.graph import Graph, Node
from attractor.outcome import Outcome, parse_status_record
from attractor.state.context import Context
from attractor.state.run_directory import STAGE_DIR_VARIABLE
from attractor.state.stage_files import write_file
from attractor.state.steering import SteeringReader

_PROFILES: Mapping[str, Callable[[str], ProviderProfile]] = {
    "anthropic": create_anthropic_profile,
    "gemini": create_gemini_profile,
    "openai": create_openai_profile,
}
_CUT_SHORT = {
    StopReason.ROUND_LIMIT: "reached its limit of tool rounds",
    StopReason.TURN_LIMIT: "reached its limit of turns",
    StopReason.ABORTED: "was aborted",
}


class AgentBackend:
    """Gives the stage's prompt to a coding agent, which works in `working_dir` until it has nothing more to do.

    The agent reports how it went with the tool `report_outcome`, or by writing status.json into the directory that
    ATTRACTOR_STAGE_DIR names. If it does neither, the stage succeeds when the session ended by itself and fails when it
    was cut short. Stages of `full` fidelity and the same thread carry one conversation on. What is written to
    steering.md of the stage's directory while it works is said to it. `tool_hooks.pre` and `tool_hooks.post` of node or
    graph run around its tool calls; see ToolHooks. What an attempt's tools changed in files stands in changes.diff
    there.

    `model` and `provider` are for stages and graphs that name none; see `choose_model()`. `environment` makes another
    place to work in, given the variables that commands shall see beside their own; each session cleans its own up.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        model: str = "",
        provider: str = "",
        working_dir: str | Path | None = None,
        config: SessionConfig | None = None,
        environment: Callable[[Mapping[str, str]], ExecutionEnvironment] | None = None,
    ) -> None:
        self._client = client
        self._model = model
        self._provider = provider
        self._working_dir = Path(working_dir or ".").absolute()
        self._config = config or SessionConfig()
        self._environment = environment
        self._threads: dict[tuple[str, str], list[Turn]] = {}

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        reports: list[Outcome] = []
        stage_dir = context.run.stage_dir
        variables = {STAGE_DIR_VARIABLE: str(stage_dir)} if stage_dir else {}
        thread = find_thread(node, context)
        effort = node.reasoning_effort or self._config.reasoning_effort
        hooks = self._make_hooks(node, context)
        files = ChangedFiles(self._make_environment(variables, context.run.working_dir))
        session = Session(
            self._make_profile(node, context, reports),
            files,
            client=self._client,
            config=replace(self._config, reasoning_effort=effort),
            history=self._threads.get(thread, []) if thread else [],
            approvers=[hooks.approve] if hooks else [],
            listen=SteeringReader(stage_dir).read if stage_dir else None,
        )
        watch = SessionWatch(context, session.provider_profile.model)
        try:
            if hooks:
                await hooks.start()
            result = await work(session, prompt, hooks, watch)
        finally:
            if hooks:
                await hooks.close()
            report_usage(context, session.total_usage, session.provider_profile.model)
            if stage_dir and files.diff:
                write_file(stage_dir / CHANGES_NAME, files.diff.encode("utf-8", "replace"))
        if thread:
            self._threads[thread] = list(session.history)
        if result.error is not None:
            raise result.error
        if stage_dir:
            write_file(stage_dir / "response.md", result.text.encode("utf-8", "replace"))
        if watch.refused and result.stop_reason is StopReason.ABORTED:
            return Outcome.fail(f"stage {node.id!r} was stopped: {watch.refused}", terminal=True, notes=result.text)
        return _judge(node, result, reports)

    def resolve_model(self, node: Node, context: Context) -> tuple[str, str]:
        """Model and provider for a stage; an empty provider leaves the choice to the client."""
        return choose_model(node, context, self._client, model=self._model, provider=self._provider)

    def _make_profile(self, node: Node, context: Context, reports: list[Outcome]) -> ProviderProfile:
        model, provider = self.resolve_model(node, context)
        provider = provider or (self._client.default_provider if self._client else None) or "openai_compatible"
        make = _PROFILES.get(provider)
        profile = make(model) if make else create_openai_compatible_profile(model, provider=provider)
        profile.tool_registry.register(_report_tool(node, context.run.graph, reports))
        return profile

    def _make_hooks(self, node: Node, context: Context) -> ToolHooks | None:
        commands, stage_dir = HookCommands.of_node(node, context), context.run.stage_dir
        if stage_dir is None or not (commands.pre or commands.post):
            return None
        return ToolHooks(commands, node, context, stage_dir, context.run.working_dir or self._working_dir)

    def _make_environment(self, variables: Mapping[str, str], working_dir: Path | None) -> ExecutionEnvironment:
        if self._environment is not None:
            return self._environment(variables)
        return LocalExecutionEnvironment(
            working_dir or self._working_dir,
            policy=EnvironmentPolicy.FILTERED,
            variables={**os.environ, **variables},
            writable_roots=list(variables.values()),
        )


def _judge(node: Node, result: SubmitResult, reports: list[Outcome]) -> str | Outcome:
    """The last report counts, then how the session ended. Prose is never searched for an outcome."""
    if reports:
        last = reports[-1]
        return last if last.notes else replace(last, notes=result.text)
    if reason := _CUT_SHORT.get(result.stop_reason):
        return Outcome.fail(f"stage {node.id!r}: the agent {reason} before it was done", notes=result.text)
    return result.text


def _report_tool(node: Node, graph: Graph | None, reports: list[Outcome]) -> RegisteredTool:
    labels = [edge.label for edge in graph.outgoing_edges(node.id) if edge.label] if graph else []
    conditions = [edge.condition for edge in graph.outgoing_edges(node.id) if edge.condition] if graph else []
    choices = f" Labels of the ways on: {', '.join(labels)}." if labels else ""
    asked = f" What follows depends on: {'; '.join(conditions)}." if conditions else ""
    properties: dict[str, Any] = {
        "outcome": {
            "type": "string",
            "description": "success, partial_success, fail or retry; or another word that the pipeline asks for."
            + asked,
        },
        "status": {
            "type": "string",
            "description": "With a word of another kind: whether it stands for success or fail.",
        },
        "preferred_label": {"type": "string", "description": "Which way the pipeline should go on." + choices},
        "notes": {"type": "string", "description": "What was done, or why it could not be, in a few sentences."},
        "context_updates": {"type": "object", "description": "Values that later stages need."},
    }

    async def execute(arguments: dict[str, Any], environment: ExecutionEnvironment) -> str:
        # A report that makes no sense raises: the agent is told, and reports again.
        reports.append(parse_status_record(arguments))
        return "The outcome is noted. Finish with a short summary."

    return RegisteredTool(
        ToolDefinition(
            name="report_outcome",
            description="Report how this stage of the pipeline went. Call it once, when the work is done.",
            parameters={"type": "object", "properties": properties, "required": ["outcome"]},
        ),
        execute,
    )
