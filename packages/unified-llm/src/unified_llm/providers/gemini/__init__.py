"""Google's Gemini API."""

from unified_llm.providers.gemini.adapter import GeminiAdapter

__all__ = ["GeminiAdapter"]
