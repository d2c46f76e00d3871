"""Claude models (section 3.5): edit by old and new string, and a patient shell."""

from collections.abc import Sequence

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.edit import EDIT_FILE
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP
from agent_loop.tools.shell import shell_tool
from agent_loop.tools.subagents import SUBAGENT_TOOLS

SHELL_TIMEOUT_MS = 120_000


def create_anthropic_profile(
    model: str = "claude-opus-4-6", *, beta_headers: Sequence[str] = (), context_window_size: int | None = None
) -> ProviderProfile:
    """`beta_headers` are sent as `anthropic-beta`; with one that makes the context longer, say so in
    `context_window_size`, which is the catalog's otherwise.
    """
    return ProviderProfile(
        id="anthropic",
        model=model,
        tool_registry=ToolRegistry(
            [READ_FILE, WRITE_FILE, EDIT_FILE, shell_tool(SHELL_TIMEOUT_MS), GREP, GLOB, *SUBAGENT_TOOLS]
        ),
        base_instructions=load_prompt("anthropic"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, "CLAUDE.md"),
        fallback_context_window=200_000,
        options={"anthropic": {"beta_headers": list(beta_headers)}} if beta_headers else {},
        facts={} if context_window_size is None else {"context_window_size": context_window_size},
    )
