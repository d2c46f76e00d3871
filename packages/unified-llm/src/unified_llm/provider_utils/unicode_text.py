"""Text as a provider's JSON may hold it, and no Python string that is to be encoded can. Pure."""

from unified_llm.spec.record import whole_characters

__all__ = ["whole_characters"]
