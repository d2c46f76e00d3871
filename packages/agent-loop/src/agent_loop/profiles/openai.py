"""GPT models (section 3.4): changes as patches."""

from collections.abc import Mapping
from typing import Any

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.apply_patch import APPLY_PATCH
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP
from agent_loop.tools.shell import shell_tool
from agent_loop.tools.subagents import SUBAGENT_TOOLS


def create_openai_profile(
    model: str = "gpt-5.2-codex",
    *,
    openai_options: Mapping[str, Any] | None = None,
    context_window_size: int | None = None,
) -> ProviderProfile:
    """The session's `reasoning_effort` becomes `reasoning.effort` of the Responses API. `openai_options` go there as
    `provider_options["openai"]`. `context_window_size` is the catalog's unless given.
    """
    return ProviderProfile(
        id="openai",
        model=model,
        tool_registry=ToolRegistry([READ_FILE, APPLY_PATCH, WRITE_FILE, shell_tool(), GREP, GLOB, *SUBAGENT_TOOLS]),
        base_instructions=load_prompt("openai"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, ".codex/instructions.md"),
        fallback_context_window=400_000,
        options={"openai": dict(openai_options)} if openai_options else {},
        facts={} if context_window_size is None else {"context_window_size": context_window_size},
    )
