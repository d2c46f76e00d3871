"""OpenAI's Responses API."""

from unified_llm.providers.openai.adapter import OpenAIAdapter

__all__ = ["OpenAIAdapter"]
