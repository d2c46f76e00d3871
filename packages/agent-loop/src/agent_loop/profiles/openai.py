"""GPT models (section 3.4)."""

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.apply_patch import APPLY_PATCH
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP
from agent_loop.tools.shell import shell_tool


def create_openai_profile(model: str = "gpt-5.2-codex", *, context_window_size: int = 400_000) -> ProviderProfile:
    """The session's `reasoning_effort` becomes `reasoning.effort` of the Responses API."""
    return ProviderProfile(
        id="openai",
        model=model,
        tool_registry=ToolRegistry([READ_FILE, APPLY_PATCH, WRITE_FILE, shell_tool(), GREP, GLOB]),
        base_instructions=load_prompt("openai"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, ".codex/instructions.md"),
        context_window_size=context_window_size,
    )
