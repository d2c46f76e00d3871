"""Gemini models (section 3.6): files read by the handful, and directories listed."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_loop.profiles.base import UNIVERSAL_PROJECT_DOC, ProviderProfile, load_prompt
from agent_loop.tools.edit import EDIT_FILE
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.read_many_files import READ_MANY_FILES
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP, LIST_DIR
from agent_loop.tools.shell import shell_tool
from agent_loop.tools.subagents import SUBAGENT_TOOLS
from agent_loop.tools.web import web_fetch_tool


def create_gemini_profile(
    model: str = "gemini-3.1-pro-preview",
    *,
    safety_settings: Sequence[Mapping[str, str]] = (),
    gemini_options: Mapping[str, Any] | None = None,
    context_window_size: int | None = None,
    web_fetch: bool = False,
) -> ProviderProfile:
    """`safety_settings` are the API's, each with `category` and `threshold`. They and `gemini_options` (cached content,
    for instance) go into the request's body as `provider_options["gemini"]`, under the API's own names.
    `context_window_size` is the catalog's unless given. `web_fetch` adds the tool of that name, which asks servers on
    the internet from this process, wherever the environment runs its commands.
    """
    options = dict(gemini_options or {})
    if safety_settings:
        options["safetySettings"] = [dict(setting) for setting in safety_settings]
    return ProviderProfile(
        id="gemini",
        model=model,
        tool_registry=ToolRegistry(
            [
                READ_FILE,
                READ_MANY_FILES,
                WRITE_FILE,
                EDIT_FILE,
                shell_tool(),
                GREP,
                GLOB,
                LIST_DIR,
                *([web_fetch_tool()] if web_fetch else []),
                *SUBAGENT_TOOLS,
            ]
        ),
        base_instructions=load_prompt("gemini"),
        project_doc_names=(UNIVERSAL_PROJECT_DOC, "GEMINI.md"),
        fallback_context_window=1_048_576,
        options={"gemini": options} if options else {},
        facts={} if context_window_size is None else {"context_window_size": context_window_size},
    )
