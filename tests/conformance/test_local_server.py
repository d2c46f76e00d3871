"""The conformance suite against a real model: llama.cpp's server, which speaks three of the four protocols."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from conformance import adapter as suite
from unified_llm import (
    AdapterTimeout,
    AnthropicAdapter,
    Message,
    OpenAIAdapter,
    OpenAICompatibleAdapter,
    ProviderAdapter,
    Request,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("local model")]
ASK = Request(model="m", messages=[Message.user("Count to five.")], max_tokens=6, temperature=0.0)
PATIENCE = AdapterTimeout(request=300, stream_read=300)
# The model answers one call at a time: sixteen at once would test nothing but patience.
CHECKS = [check for check in suite.ALL_ANSWERING if check is not suite.check_concurrency]


@pytest.fixture
async def adapter(protocol: str, local_model_url: str) -> AsyncIterator[Any]:
    found: Any
    match protocol:
        case "anthropic":
            found = AnthropicAdapter("key", local_model_url, timeout=PATIENCE)
        case "openai":
            found = OpenAIAdapter("key", f"{local_model_url}/v1", timeout=PATIENCE)
        case _:
            found = OpenAICompatibleAdapter(base_url=f"{local_model_url}/v1", timeout=PATIENCE)
    yield found
    await found.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("protocol", ["openai_compatible", "openai", "anthropic"])
async def test_a_real_model_is_understood(
    adapter: ProviderAdapter, check: Callable[[ProviderAdapter, Request], Awaitable[None]]
) -> None:
    await check(adapter, ASK)
