"""Middlewares that ship with the library, one file each. `import unified_llm` doesn't import them.

from unified_llm.client.middlewares import BudgetMiddleware, RateLimitMiddleware
"""

from unified_llm.client.middlewares.budget import BudgetMiddleware
from unified_llm.client.middlewares.cache import CacheMiddleware, CacheStore, MemoryCacheStore
from unified_llm.client.middlewares.circuit_breaker import CircuitBreakerMiddleware, CircuitState
from unified_llm.client.middlewares.fallback import FallbackMiddleware
from unified_llm.client.middlewares.logging import LoggingMiddleware
from unified_llm.client.middlewares.rate_limit import RateLimitMiddleware
from unified_llm.client.middlewares.recording import RecordingMiddleware
from unified_llm.client.middlewares.telemetry import TelemetryMiddleware

__all__ = [
    "BudgetMiddleware",
    "CacheMiddleware",
    "CacheStore",
    "CircuitBreakerMiddleware",
    "CircuitState",
    "FallbackMiddleware",
    "LoggingMiddleware",
    "MemoryCacheStore",
    "RateLimitMiddleware",
    "RecordingMiddleware",
    "TelemetryMiddleware",
]
