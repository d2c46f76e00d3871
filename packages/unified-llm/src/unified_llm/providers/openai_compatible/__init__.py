"""Servers that speak OpenAI's Chat Completions: vLLM, Ollama, llama.cpp, Groq, Together, OpenRouter and many more."""

from unified_llm.providers.openai_compatible.adapter import OpenAICompatibleAdapter

__all__ = ["OpenAICompatibleAdapter"]
