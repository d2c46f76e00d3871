"""One client for every language model provider.

The everyday names are here. Adapters are imported when first used; blocking functions are in `unified_llm.sync`, what
tests need is in `unified_llm.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unified_llm.api.call import CallOptions
from unified_llm.api.generate import GenerateResult, generate
from unified_llm.api.stream import StreamResult, stream
from unified_llm.api.structured import StreamObjectResult, generate_object, stream_object
from unified_llm.api.tool_loop import StepResult
from unified_llm.client.catalog import ModelInfo, cost_of, get_latest_model, get_model_info, list_models
from unified_llm.client.client import Client, get_default_client, set_default_client
from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import Middleware
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.retry import RetryPolicy, retry
from unified_llm.providers.registry import required_variables
from unified_llm.spec.abort import AbortController, AbortSignal
from unified_llm.spec.adapter import ProviderAdapter
from unified_llm.spec.errors import (
    AbortError,
    AccessDeniedError,
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    InvalidToolCallError,
    NetworkError,
    NoObjectGeneratedError,
    NotFoundError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    RequestTimeoutError,
    SDKError,
    ServerError,
    StreamError,
    UnsupportedToolChoiceError,
)
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import (
    AudioData,
    ContentKind,
    ContentPart,
    DocumentData,
    ImageData,
    Message,
    Role,
    ThinkingData,
    ToolCallData,
    ToolResultData,
)
from unified_llm.spec.request import AdapterTimeout, Request, ResponseFormat, TimeoutConfig
from unified_llm.spec.response import FinishReason, RateLimitInfo, Response, Usage, Warning
from unified_llm.spec.tools import Tool, ToolCall, ToolChoice, ToolResult

if TYPE_CHECKING:
    from unified_llm.providers.anthropic.adapter import AnthropicAdapter
    from unified_llm.providers.gemini.adapter import GeminiAdapter
    from unified_llm.providers.local import LocalAdapter
    from unified_llm.providers.openai.adapter import OpenAIAdapter
    from unified_llm.providers.openai_compatible.adapter import OpenAICompatibleAdapter

# Adapters bring the HTTP client with them, which takes longer to import than everything else here.
_ADAPTERS = {
    "AnthropicAdapter": "unified_llm.providers.anthropic.adapter",
    "GeminiAdapter": "unified_llm.providers.gemini.adapter",
    "LocalAdapter": "unified_llm.providers.local",
    "OpenAIAdapter": "unified_llm.providers.openai.adapter",
    "OpenAICompatibleAdapter": "unified_llm.providers.openai_compatible.adapter",
}

__all__ = [
    "AbortController",
    "AbortError",
    "AbortSignal",
    "AccessDeniedError",
    "AdapterTimeout",
    "AnthropicAdapter",
    "AudioData",
    "AuthenticationError",
    "CallOptions",
    "Client",
    "ConfigurationError",
    "ContentFilterError",
    "ContentKind",
    "ContentPart",
    "ContextLengthError",
    "DocumentData",
    "EventStream",
    "FinishReason",
    "GeminiAdapter",
    "GenerateResult",
    "ImageData",
    "InvalidRequestError",
    "InvalidToolCallError",
    "LocalAdapter",
    "Message",
    "Middleware",
    "ModelInfo",
    "NetworkError",
    "NoObjectGeneratedError",
    "NotFoundError",
    "OpenAIAdapter",
    "OpenAICompatibleAdapter",
    "ProviderAdapter",
    "ProviderError",
    "QuotaExceededError",
    "RateLimitError",
    "RateLimitInfo",
    "Request",
    "RequestTimeoutError",
    "Response",
    "ResponseFormat",
    "RetryPolicy",
    "Role",
    "SDKError",
    "ServerError",
    "StepResult",
    "StreamAccumulator",
    "StreamError",
    "StreamEvent",
    "StreamEventType",
    "StreamObjectResult",
    "StreamResult",
    "ThinkingData",
    "TimeoutConfig",
    "Tool",
    "ToolCall",
    "ToolCallData",
    "ToolChoice",
    "ToolResult",
    "ToolResultData",
    "UnsupportedToolChoiceError",
    "Usage",
    "Warning",
    "cost_of",
    "generate",
    "generate_object",
    "get_default_client",
    "get_latest_model",
    "get_model_info",
    "list_models",
    "required_variables",
    "retry",
    "set_default_client",
    "stream",
    "stream_object",
]


def __getattr__(name: str) -> Any:
    if (module := _ADAPTERS.get(name)) is not None:
        return getattr(import_module(module), name)
    if name == "sync":
        return import_module("unified_llm.sync")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
