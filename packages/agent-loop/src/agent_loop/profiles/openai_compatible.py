"""Any model behind a server that speaks Chat Completions, a local one among them."""

from agent_loop.profiles.base import ProviderProfile, load_prompt
from agent_loop.tools.edit import EDIT_FILE
from agent_loop.tools.files import READ_FILE, WRITE_FILE
from agent_loop.tools.registry import ToolRegistry
from agent_loop.tools.search import GLOB, GREP
from agent_loop.tools.shell import shell_tool
from agent_loop.tools.subagents import SUBAGENT_TOOLS


def create_openai_compatible_profile(
    model: str,
    *,
    provider: str = "openai_compatible",
    context_window_size: int = 0,
    supports_reasoning: bool = False,
    supports_parallel_tool_calls: bool = True,
    subagents: bool = True,
) -> ProviderProfile:
    """`provider` is the adapter's name in the Client, such as "openai_compatible" or "local". Without `subagents` the
    model isn't offered their four tools, whose descriptions a small context may not have room for.
    """
    tools = [READ_FILE, WRITE_FILE, EDIT_FILE, shell_tool(), GREP, GLOB]
    return ProviderProfile(
        id=provider,
        model=model,
        tool_registry=ToolRegistry([*tools, *SUBAGENT_TOOLS] if subagents else tools),
        base_instructions=load_prompt("openai_compatible"),
        supports_parallel_tool_calls=supports_parallel_tool_calls,
        facts={"context_window_size": context_window_size, "supports_reasoning": supports_reasoning},
    )
