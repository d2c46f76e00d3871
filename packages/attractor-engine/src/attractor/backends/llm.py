"""One call to a model per stage, through unified_llm."""

from typing import Any

from unified_llm import Client, ConfigurationError, generate, get_latest_model, get_model_info

from attractor.graph import Node, to_int
from attractor.outcome import Outcome
from attractor.state.context import Context


class LlmBackend:
    """Sends the stage's prompt to a model and returns its answer.

    The model is the node's `llm_model`, else that of the graph, else `model`, else the newest of the provider that the
    catalog knows; the provider is the node's `llm_provider`, else that of the graph, else `provider`, else the one that
    the catalog has the model under, else the client's default. `client` is the caller's to close; by default the
    module-wide one of unified_llm. A node's
    `max_tokens` bounds its answer, by default `max_tokens` does.

    Raises what unified_llm raises. Transient errors are retried by the stage's own policy, not in here as well.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        model: str = "",
        provider: str = "",
        system: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self._client = client
        self._model = model
        self._provider = provider
        self._system = system
        self._max_tokens = max_tokens

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        model, provider = self.resolve_model(node, context)
        options: dict[str, Any] = {"reasoning_effort": node.reasoning_effort} if node.reasoning_effort else {}
        result = await generate(
            model,
            prompt,
            client=self._client,
            provider=provider or None,
            system=self._system,
            max_tokens=to_int(node.attrs.get("max_tokens")) or self._max_tokens,
            max_retries=0,
            **options,
        )
        return _judge(node, result.text, result.finish_reason.reason)

    def resolve_model(self, node: Node, context: Context) -> tuple[str, str]:
        """Model and provider for a stage; an empty provider leaves the choice to the client."""
        model = node.llm_model or context.get_string("graph.llm_model") or self._model
        provider = node.llm_provider or context.get_string("graph.llm_provider") or self._provider
        default = self._client.default_provider if self._client else None
        if not model:
            latest = get_latest_model(provider or default or "")
            if latest is None:
                raise ConfigurationError(
                    f"stage {node.id!r} names no model, and none is known for provider {provider or default!r}; "
                    "set llm_model on the node, in the model_stylesheet or on the graph, or give the backend a model"
                )
            return latest.id, provider or latest.provider
        if not provider and (known := get_model_info(model)) and self._serves(known.provider):
            provider = known.provider
        return model, provider

    def _serves(self, provider: str) -> bool:
        return self._client is None or provider in self._client.providers


def _judge(node: Node, text: str, finish_reason: str) -> str | Outcome:
    """An answer that was cut short is a failure, for whatever it says may be the wrong half."""
    match finish_reason:
        case "length":
            return Outcome.fail(f"stage {node.id!r}: the answer was cut off at the model's token limit", notes=text)
        case "content_filter":
            return Outcome.fail(f"stage {node.id!r}: a content filter cut the answer off", notes=text, terminal=True)
        case "error":
            return Outcome.fail(f"stage {node.id!r}: the provider ended the answer with an error", notes=text)
        case _:
            return text
