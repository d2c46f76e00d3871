"""Anthropic's Messages API."""

from unified_llm.providers.anthropic.adapter import AnthropicAdapter

__all__ = ["AnthropicAdapter"]
