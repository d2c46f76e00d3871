"""What a child session takes over from its parent (section 7.3), and what it gets instead."""

import posixpath
from dataclasses import replace

from agent_loop.config import SessionConfig
from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.environments.subdirectory import SubdirectoryEnvironment
from agent_loop.errors import ToolError
from agent_loop.profiles.base import ProviderProfile
from agent_loop.session_record import SessionRecord
from agent_loop.subagents import SpawnRequest
from agent_loop.tools.subagents import SUBAGENT_TOOLS

_ROLE = (
    "You are working as a subagent for another agent. Your final message is all that it gets to read: report what you "
    "found or did, completely and briefly. Nobody can answer questions while you work."
)


def inherit_profile(parent: SessionRecord, request: SpawnRequest) -> ProviderProfile:
    """The parent's profile with tools of its own, and without those for subagents where no deeper level is allowed."""
    depth, deepest = parent.depth + 1, parent.config.max_subagent_depth
    if depth > deepest:
        raise ToolError(f"subagents may not be nested deeper than {deepest}; do this yourself")
    profile = parent.provider_profile.for_model(request.model or parent.provider_profile.model)
    profile.base_instructions = f"{profile.base_instructions.rstrip()}\n\n{_ROLE}"
    if depth == deepest:
        for tool in SUBAGENT_TOOLS:
            if profile.tool_registry.get(tool.definition.name) is tool:
                profile.tool_registry.unregister(tool.definition.name)
    return profile


async def inherit_environment(parent: SessionRecord, request: SpawnRequest) -> ExecutionEnvironment:
    """The parent's environment, or its subdirectory. Raises ToolError for a directory elsewhere or nowhere."""
    outer = parent.execution_env
    root = outer.working_directory()
    directory = posixpath.normpath(posixpath.join(root, request.working_dir or "."))
    if directory == root:
        return outer
    if not directory.startswith(root.rstrip("/") + "/"):
        raise ToolError(f"working_dir must be a subdirectory of {root}, but is {request.working_dir}")
    # Lists it only to learn whether it is a directory.
    await outer.list_directory(directory, 1)
    return SubdirectoryEnvironment(outer, directory)


def inherit_config(parent: SessionRecord, request: SpawnRequest) -> SessionConfig:
    """The parent's settings, with a limit of turns for the child alone."""
    return replace(parent.config, max_turns=request.max_turns or parent.config.subagent_max_turns)
