"""One profile a model family (section 3)."""

from agent_loop.profiles.anthropic import create_anthropic_profile
from agent_loop.profiles.base import ProviderProfile
from agent_loop.profiles.gemini import create_gemini_profile
from agent_loop.profiles.openai import create_openai_profile
from agent_loop.profiles.openai_compatible import create_openai_compatible_profile

__all__ = [
    "ProviderProfile",
    "create_anthropic_profile",
    "create_gemini_profile",
    "create_openai_compatible_profile",
    "create_openai_profile",
]
