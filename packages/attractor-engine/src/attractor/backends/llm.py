"""One call to a model per stage, through unified_llm."""

from typing import Any

from unified_llm import Client, generate

from attractor.backends.model_choice import choose_model
from attractor.backends.usage import report_usage
from attractor.graph import Node, to_int
from attractor.outcome import Outcome
from attractor.state.context import Context


class LlmBackend:
    """Sends the stage's prompt to a model and returns its answer.

    `choose_model()` tells which model that is; `model` and `provider` are for stages and graphs that name none.
    `client` is the caller's to close; by default the module-wide one of unified_llm. A node's `max_tokens`
    bounds its answer, by default `max_tokens` does.

    Raises what unified_llm raises. Transient errors of a call are retried `max_retries` times, as the provider hints;
    what is left of them is for the stage's own policy.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        model: str = "",
        provider: str = "",
        system: str | None = None,
        max_tokens: int | None = None,
        max_retries: int = 2,
    ) -> None:
        self._client = client
        self._model = model
        self._provider = provider
        self._system = system
        self._max_tokens = max_tokens
        self._max_retries = max_retries

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
            max_retries=self._max_retries,
            **options,
        )
        report_usage(context, result.total_usage, model)
        return _judge(node, result.text, result.finish_reason.reason)

    def resolve_model(self, node: Node, context: Context) -> tuple[str, str]:
        """Model and provider for a stage; an empty provider leaves the choice to the client."""
        return choose_model(node, context, self._client, model=self._model, provider=self._provider)


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
