"""Gemini models (section 3.6)."""

from collections.abc import Mapping
from typing import Any

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.edit import EDIT_FILE
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP, LIST_DIR
from agent_loop.tools.shell import shell_tool


def create_gemini_profile(
    model: str = "gemini-3.1-pro-preview",
    *,
    gemini_options: Mapping[str, Any] | None = None,
    context_window_size: int = 1_048_576,
) -> ProviderProfile:
    """`gemini_options` go to the API as `provider_options["gemini"]`: safety settings, grounding, cached content."""
    return ProviderProfile(
        id="gemini",
        model=model,
        tool_registry=ToolRegistry([READ_FILE, WRITE_FILE, EDIT_FILE, shell_tool(), GREP, GLOB, LIST_DIR]),
        base_instructions=load_prompt("gemini"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, "GEMINI.md"),
        context_window_size=context_window_size,
        options={"gemini": dict(gemini_options)} if gemini_options else {},
    )
