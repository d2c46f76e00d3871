"""How many tokens a call takes, where nobody says."""

import pytest
from unified_llm import ContentKind, ContentPart, ImageData, Message, Request, StreamEvent, StreamEventType, Tool, Usage
from unified_llm.client.middlewares.metering import StreamMeter, estimate_input_tokens, total_tokens
from unified_llm.testing import events_of, respond


def ask(*messages: Message, tools: list[Tool] | None = None) -> Request:
    return Request(model="m", messages=list(messages), tools=tools)


def test_a_prompt_is_estimated_by_its_characters() -> None:
    assert estimate_input_tokens(ask(Message.user("x" * 400))) == 100
    assert estimate_input_tokens(ask(Message.user("x" * 400), Message.user("x" * 400))) == 200
    assert estimate_input_tokens(ask(Message.user(""))) == 1


@pytest.mark.parametrize(
    "message",
    [
        respond(tool_calls=[("add", '"' + "x" * 398 + '"')]).message,
        respond(reasoning="x" * 400).message,
        Message.tool_result("call_1", "x" * 400),
        Message.tool_result("call_1", {"a": "x" * 392}),
    ],
    ids=["tool call", "reasoning", "text result", "structured result"],
)
def test_everything_in_a_conversation_counts(message: Message) -> None:
    assert estimate_input_tokens(ask(message)) == 100


def test_tools_and_pictures_count() -> None:
    plain = ask(Message.user("hi"))
    tool = Tool(name="add", description="x" * 4000)
    picture = ContentPart(kind=ContentKind.IMAGE, image=ImageData(data=b"png"))
    assert estimate_input_tokens(ask(Message.user("hi"), tools=[tool])) > estimate_input_tokens(plain) + 1000
    assert estimate_input_tokens(ask(Message.user([picture]))) >= 1000


def test_a_missing_total_is_the_sum() -> None:
    assert total_tokens(Usage(input_tokens=3, output_tokens=4)) == 7
    assert total_tokens(Usage(input_tokens=3, output_tokens=4, total_tokens=9)) == 9


def test_a_stream_counts_what_is_reported_at_its_end() -> None:
    meter = StreamMeter(ask(Message.user("hi")))
    for event in events_of(respond("hello", usage=Usage(input_tokens=3, output_tokens=4, total_tokens=7))):
        meter.process(event)
    assert meter.usage().total_tokens == 7
    assert meter.model == "scripted-model"


def test_a_stream_that_reports_nothing_is_estimated() -> None:
    meter = StreamMeter(ask(Message.user("x" * 40)))
    *begun, _ = events_of(respond("y" * 10, reasoning="z" * 10))
    assert meter.usage() == Usage()
    for event in [*begun, StreamEvent(type=StreamEventType.FINISH)]:
        meter.process(event)
    assert meter.usage() == Usage(input_tokens=10, output_tokens=5, total_tokens=15)
