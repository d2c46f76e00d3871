"""The onion around calls (section 2.3)."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from unified_llm import Client, ConfigurationError, Message, Request, Response, ServerError, StreamEvent
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.testing import ScriptedAdapter

ASK = Request(model="m", messages=[Message.user("hi")])


class Tracer:
    """Wraps both kinds of call and notes the order."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        self.log.append(f"{self.name} in")
        response = await call_next(request)
        self.log.append(f"{self.name} out")
        return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        self.log.append(f"{self.name} in")
        async for event in call_next(request):
            yield event
        self.log.append(f"{self.name} out")


async def test_the_first_is_outermost() -> None:
    log: list[str] = []
    with ScriptedAdapter("a", "b") as adapter:
        client = Client({"s": adapter}, "s", [Tracer("one", log), Tracer("two", log)])
        await client.complete(ASK)
        assert log == ["one in", "two in", "two out", "one out"]
        log.clear()
        async for _ in client.stream(ASK):
            pass
        assert log == ["one in", "two in", "two out", "one out"]


async def test_a_function_sees_the_provider_and_may_change_request_and_response() -> None:
    async def shout(request: Request, call_next: CompleteCall) -> Response:
        assert request.provider == "s"
        response = await call_next(request.model_copy(update={"model": "other"}))
        return response.model_copy(update={"id": "changed"})

    with ScriptedAdapter("a") as adapter:
        response = await Client({"s": adapter}, "s", [shout]).complete(ASK)
        assert response.id == "changed"
        assert adapter.requests[0].model == "other"


async def test_a_function_for_answers_is_passed_by_streams() -> None:
    async def refuse(request: Request, call_next: CompleteCall) -> Response:
        raise ServerError("refused")

    with ScriptedAdapter("a") as adapter:
        client = Client({"s": adapter}, "s", [refuse])
        assert [event async for event in client.stream(ASK)]
        with pytest.raises(ServerError, match="refused"):
            await client.complete(ASK)


async def test_a_generator_function_transforms_events_and_leaves_answers_alone() -> None:
    async def upper(request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        async for event in call_next(request):
            yield replace(event, delta=event.delta.upper()) if event.delta else event

    with ScriptedAdapter("hello", "hello") as adapter:
        client = Client({"s": adapter}, "s", [upper])
        assert "".join([event.delta or "" async for event in client.stream(ASK)]) == "HELLO"
        assert (await client.complete(ASK)).text == "hello"


async def test_a_callable_object_may_offer_a_stream_method_too() -> None:
    class Counter:
        answers = streams = 0

        async def __call__(self, request: Request, call_next: CompleteCall) -> Response:
            self.answers += 1
            return await call_next(request)

        def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
            self.streams += 1
            return call_next(request)

    counter = Counter()
    with ScriptedAdapter("a", "b") as adapter:
        client = Client({"s": adapter}, "s", [counter])
        await client.complete(ASK)
        assert len([event async for event in client.stream(ASK)]) > 2
    assert (counter.answers, counter.streams) == (1, 1)


async def test_a_fallback_may_call_next_twice_with_another_provider() -> None:
    async def fall_back(request: Request, call_next: CompleteCall) -> Response:
        try:
            return await call_next(request)
        except ServerError:
            return await call_next(request.model_copy(update={"provider": "b"}))

    with ScriptedAdapter(ServerError("down")) as a, ScriptedAdapter("from b") as b:
        assert (await Client({"a": a, "b": b}, "a", [fall_back]).complete(ASK)).text == "from b"


async def test_a_middleware_may_choose_the_provider_where_there_is_no_default() -> None:
    async def route(request: Request, call_next: CompleteCall) -> Response:
        return await call_next(request.model_copy(update={"provider": "b"}))

    with ScriptedAdapter("b") as b:
        assert (await Client({"b": b}, middleware=[route]).complete(ASK)).text == "b"


async def test_closing_a_stream_closes_every_layer_at_once() -> None:
    closed: list[str] = []

    async def watch(request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        try:
            async for event in call_next(request):
                yield event
        finally:
            closed.append("layer")

    adapter = ScriptedAdapter("hello")
    async with Client({"s": adapter}, "s", [watch, watch]).stream(ASK) as events:
        async for _ in events:
            break
    assert closed == ["layer", "layer"]
    assert adapter.open_streams == 0


async def test_a_layer_that_stops_early_leaves_nothing_open() -> None:
    async def first_only(request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        async for event in call_next(request):
            yield event
            return

    adapter = ScriptedAdapter("hello")
    assert len([event async for event in Client({"s": adapter}, "s", [first_only]).stream(ASK)]) == 1
    assert adapter.open_streams == 0


def test_something_else_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigurationError, match=r"middleware\[1\].*neither"):
        Client({}, None, [Tracer("one", []), object()])  # type: ignore[list-item]
