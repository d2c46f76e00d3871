"""The conformance suite for adapters, run on the ones that need no network."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conformance import adapter as suite
from unified_llm import Message, ProviderAdapter, RateLimitError, Request
from unified_llm.testing import ScriptedAdapter, events_of, respond

ASK = Request(model="m", messages=[Message.user("hi")])
ANSWERS = {
    "text": respond("Hello, world. é你🙂"),
    "reasoning": respond("Hello", reasoning="Let me think about it."),
    "empty": respond(""),
}
Check = Callable[[ProviderAdapter, Request], Awaitable[None]]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("check", suite.ALL_ANSWERING, ids=lambda check: check.__name__)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_the_scripted_adapter_answers(answer: str, check: Check) -> None:
    await check(ScriptedAdapter(*[ANSWERS[answer]] * 30), ASK)


async def test_the_scripted_adapter_calls_tools() -> None:
    calls = respond("Wait", tool_calls=[("f", {"a": 1}), ("g", {})])
    with ScriptedAdapter(calls, calls) as adapter:
        await suite.check_tool_calls(adapter, ASK)


async def test_the_scripted_adapter_fails() -> None:
    with ScriptedAdapter(RateLimitError("slow"), RateLimitError("slow")) as adapter:
        await suite.check_failure(adapter, ASK, RateLimitError)


def lying_streams() -> dict[str, list[Any]]:
    start, text_start, delta, text_end, finish = events_of(respond("Hello"))
    return {
        "no finish": [start, text_start, delta, text_end],
        "no start": [text_start, delta, text_end, finish],
        "no end": [start, text_start, delta, finish],
        "no delta": [start, text_start, text_end, finish],
    }


@pytest.mark.parametrize("lie", lying_streams())
async def test_the_suite_notices_a_stream_that_lies(lie: str) -> None:
    with pytest.raises(AssertionError):
        await suite.check_stream(ScriptedAdapter(lying_streams()[lie]), ASK)
