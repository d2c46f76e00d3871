"""Claude models (section 3.5): edit by old and new string, and a patient shell."""

from collections.abc import Sequence

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.edit import EDIT_FILE
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP
from agent_loop.tools.shell import shell_tool

SHELL_TIMEOUT_MS = 120_000


def create_anthropic_profile(
    model: str = "claude-opus-4-6", *, beta_headers: Sequence[str] = (), context_window_size: int = 200_000
) -> ProviderProfile:
    """`beta_headers` are sent as `anthropic-beta`; with one for a longer context, say so in `context_window_size`."""
    return ProviderProfile(
        id="anthropic",
        model=model,
        tool_registry=ToolRegistry([READ_FILE, WRITE_FILE, EDIT_FILE, shell_tool(SHELL_TIMEOUT_MS), GREP, GLOB]),
        base_instructions=load_prompt("anthropic"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, "CLAUDE.md"),
        context_window_size=context_window_size,
        options={"anthropic": {"beta_headers": list(beta_headers)}} if beta_headers else {},
    )
