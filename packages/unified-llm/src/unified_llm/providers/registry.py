"""Which providers the environment can configure (section 2.2): one entry a provider, imported only when used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from unified_llm.spec.adapter import ProviderAdapter

Variables = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """A provider's name, its adapter as "module:Class", and the variables that fill the adapter's keyword arguments.

    A provider is registered when every `required` argument has a value. Of several variables the first that is set
    to something other than white space counts.
    """

    name: str
    adapter: str
    required: Mapping[str, Variables]
    optional: Mapping[str, Variables] = field(default_factory=dict)

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        """Whether the environment names everything that the provider needs."""
        return all(_value(environ, variables) for variables in self.required.values())

    def create(self, environ: Mapping[str, str]) -> ProviderAdapter:
        """Import and construct the adapter. Raises ConfigurationError where the adapter's own checks fail."""
        module, _, class_name = self.adapter.partition(":")
        arguments = {
            argument: value
            for argument, variables in {**self.required, **self.optional}.items()
            if (value := _value(environ, variables))
        }
        adapter: ProviderAdapter = getattr(import_module(module), class_name)(**arguments)
        return adapter


def _value(environ: Mapping[str, str], variables: Variables) -> str | None:
    # A key out of a file often brings the file's last line end along.
    return next((value for variable in variables if (value := environ.get(variable, "").strip())), None)


# The order is the order of preference: the first configured provider becomes the default.
PROVIDERS: tuple[ProviderEntry, ...] = (
    ProviderEntry(
        "openai",
        "unified_llm.providers.openai.adapter:OpenAIAdapter",
        {"api_key": ("OPENAI_API_KEY",)},
        {
            "base_url": ("OPENAI_BASE_URL",),
            "organization": ("OPENAI_ORG_ID",),
            "project": ("OPENAI_PROJECT_ID",),
        },
    ),
    ProviderEntry(
        "anthropic",
        "unified_llm.providers.anthropic.adapter:AnthropicAdapter",
        {"api_key": ("ANTHROPIC_API_KEY",)},
        {"base_url": ("ANTHROPIC_BASE_URL",)},
    ),
    ProviderEntry(
        "gemini",
        "unified_llm.providers.gemini.adapter:GeminiAdapter",
        {"api_key": ("GEMINI_API_KEY", "GOOGLE_API_KEY")},
        {"base_url": ("GEMINI_BASE_URL",)},
    ),
    ProviderEntry(
        "openai_compatible",
        "unified_llm.providers.openai_compatible.adapter:OpenAICompatibleAdapter",
        {"base_url": ("OPENAI_COMPATIBLE_BASE_URL",)},
        {"api_key": ("OPENAI_COMPATIBLE_API_KEY",)},
    ),
    ProviderEntry(
        "local",
        "unified_llm.providers.local:LocalAdapter",
        {"model_path": ("UNIFIED_LLM_LOCAL_MODEL",)},
    ),
)


def adapters_from_env(environ: Mapping[str, str]) -> dict[str, ProviderAdapter]:
    """An adapter for every configured provider, in order of preference."""
    return {entry.name: entry.create(environ) for entry in PROVIDERS if entry.is_configured(environ)}


def required_variables() -> str:
    """Which variables configure which provider, for messages that tell a user what is missing."""
    ways = [
        f"{' and '.join(' or '.join(variables) for variables in entry.required.values())} for {entry.name}"
        for entry in PROVIDERS
    ]
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"
