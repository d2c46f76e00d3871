"""Telling the engine what a stage's calls to a model used."""

from unified_llm import Usage, cost_of

from attractor.state.context import Context
from attractor.state.usage import TokenUsage


def report_usage(context: Context, usage: Usage, model: str) -> None:
    """Add to what the stage used so far, at the model's list price where that is known."""
    if usage.total_tokens:
        context.run.add_usage(
            TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost_of(usage, model))
        )
