"""What a model family needs: its tools, its prompt, its abilities (section 3.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Generic, TypeVar, cast

from unified_llm import ModelInfo, get_model_info

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.system_prompt import GitSnapshot, describe_environment, describe_tools, join_layers
from agent_loop.tools.registry import ToolDefinition, ToolRegistry

UNIVERSAL_PROJECT_DOC = "AGENTS.md"


_Value = TypeVar("_Value")


class _Fact(Generic[_Value]):
    """Something known of the profile's present model: what the host has set, or else what the catalog says."""

    def __init__(self, look_up: "Callable[[ProviderProfile, ModelInfo | None], _Value]") -> None:
        self._look_up = look_up

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, profile: "ProviderProfile", owner: type) -> _Value:
        if self._name in profile.facts:
            return cast("_Value", profile.facts[self._name])
        return self._look_up(profile, get_model_info(profile.model))

    def __set__(self, profile: "ProviderProfile", value: _Value) -> None:
        profile.facts[self._name] = value


@dataclass(kw_only=True)
class ProviderProfile:
    """A profile is the session's to read and the host's to change, between any two model calls.

    `id` is also the provider's name in the Client. `options` go to the provider as `provider_options`.
    `base_instructions` is the first layer of the system prompt. What is known of the model comes from unified_llm's
    catalog and follows when `model` is changed. It can be set, too: in `facts`, by name, or as an attribute.
    """

    id: str
    model: str
    tool_registry: ToolRegistry
    base_instructions: str
    project_doc_names: tuple[str, ...] = (UNIVERSAL_PROJECT_DOC,)
    fallback_context_window: int = 0
    supports_streaming: bool = True
    supports_parallel_tool_calls: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    # What people call the model.
    display_name = _Fact[str](lambda profile, info: info.display_name if info else profile.model)
    # A month or a day; None if unknown.
    knowledge_cutoff = _Fact[str | None](lambda profile, info: info.knowledge_cutoff if info else None)
    # In tokens; 0 if unknown.
    context_window_size = _Fact[int](
        lambda profile, info: info.context_window if info else profile.fallback_context_window
    )
    # Whether it thinks before it answers; models outside the catalog are taken to.
    supports_reasoning = _Fact[bool](lambda profile, info: info.supports_reasoning if info else True)

    def for_model(self, model: str) -> "ProviderProfile":
        """The same profile for a model of the same provider, with a registry of its own that holds the same tools."""
        facts = dict(self.facts) if model == self.model else {}
        return replace(self, model=model, tool_registry=self.tool_registry.copy(), facts=facts)

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
                    environment, git, today=today, model=self.display_name, knowledge_cutoff=self.knowledge_cutoff
                ),
                describe_tools(self.tools()),
                project_docs,
                user_instructions,
            ]
        )


def load_prompt(name: str) -> str:
    """Base instructions out of `prompts/NAME.md`."""
    return files("agent_loop.profiles").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
