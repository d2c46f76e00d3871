"""What a model family needs: its tools, its prompt, its abilities (section 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.system_prompt import GitSnapshot, describe_environment, describe_tools, join_layers
from agent_loop.tools.registry import ToolDefinition, ToolRegistry

UNIVERSAL_PROJECT_DOC = "AGENTS.md"


@dataclass(kw_only=True)
class ProviderProfile:
    """A profile is the session's to read and the host's to change, between any two model calls.

    `id` is also the provider's name in the Client. `context_window_size` is in tokens, 0 if unknown. `options` go to
    the provider as `provider_options`. `base_instructions` is the first layer of the system prompt.
    """

    id: str
    model: str
    tool_registry: ToolRegistry
    base_instructions: str
    project_doc_names: tuple[str, ...] = (UNIVERSAL_PROJECT_DOC,)
    display_name: str = ""
    knowledge_cutoff: str | None = None
    context_window_size: int = 0
    supports_reasoning: bool = True
    supports_streaming: bool = True
    supports_parallel_tool_calls: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def tools(self) -> list[ToolDefinition]:
        """Definitions of all tools."""
        return self.tool_registry.definitions()

    def provider_options(self) -> dict[str, Any] | None:
        """What goes into the request beside the unified fields."""
        return dict(self.options) or None

    def build_system_prompt(
        self,
        environment: ExecutionEnvironment,
        project_docs: str = "",
        *,
        git: GitSnapshot | None = None,
        today: str = "",
        user_instructions: str = "",
    ) -> str:
        """The five layers of section 6.1. `today` is YYYY-MM-DD."""
        return join_layers(
            [
                self.base_instructions,
                describe_environment(
                    environment,
                    git,
                    today=today,
                    model=self.display_name or self.model,
                    knowledge_cutoff=self.knowledge_cutoff,
                ),
                describe_tools(self.tools()),
                project_docs,
                user_instructions,
            ]
        )


def load_prompt(name: str) -> str:
    """Base instructions out of `prompts/NAME.md`."""
    return files("agent_loop.profiles").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
