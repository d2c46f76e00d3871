"""TelemetryMiddleware: spans by the conventions for generative AI."""

import subprocess
import sys

import anyio
import pytest
from unified_llm import (
    Client,
    Message,
    RateLimitError,
    Request,
    Response,
    ResponseFormat,
    StreamError,
    Usage,
)
from unified_llm.client.middleware import CompleteCall
from unified_llm.client.middlewares import TelemetryMiddleware
from unified_llm.testing import ScriptedAdapter, events_of, respond

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed here (uv sync)")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

ASK = Request(model="m", messages=[Message.user("the prompt")], max_tokens=50, temperature=0.5, stop_sequences=["END"])


class Telescope:
    """Where spans go, and a client that makes them."""

    def __init__(self, adapter: ScriptedAdapter, name: str = "s") -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        ticks = iter(range(100))
        middleware = TelemetryMiddleware(self.provider, clock=lambda: float(next(ticks)))
        self.client = Client({name: adapter}, name, [middleware])

    @property
    def span(self) -> ReadableSpan:
        [span] = self.exporter.get_finished_spans()
        return span


async def call(client: Client, streamed: bool) -> None:
    if streamed:
        _ = [event async for event in client.stream(ASK)]
    else:
        await client.complete(ASK)


ANSWER = respond(
    "the answer",
    usage=Usage(input_tokens=10, output_tokens=5, total_tokens=15, reasoning_tokens=2, cache_read_tokens=4),
    id="r1",
    model="m-2026",
)
REQUEST_ATTRIBUTES = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "s",
    "gen_ai.request.model": "m",
    "gen_ai.request.max_tokens": 50,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.stop_sequences": ("END",),
}
RESPONSE_ATTRIBUTES = {
    "gen_ai.response.id": "r1",
    "gen_ai.response.model": "m-2026",
    "gen_ai.response.finish_reasons": ("stop",),
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.usage.reasoning.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": 4,
}


async def test_an_answer_is_a_span() -> None:
    with ScriptedAdapter(ANSWER) as adapter:
        telescope = Telescope(adapter)
        await telescope.client.complete(ASK)
    span = telescope.span
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    assert dict(span.attributes or {}) == {**REQUEST_ATTRIBUTES, "gen_ai.request.stream": False, **RESPONSE_ATTRIBUTES}


async def test_a_stream_is_a_span_that_ends_with_it() -> None:
    with ScriptedAdapter(ANSWER) as adapter:
        telescope = Telescope(adapter)
        async for _ in telescope.client.stream(ASK):
            assert not telescope.exporter.get_finished_spans()
            assert trace.get_current_span() is trace.INVALID_SPAN
    assert dict(telescope.span.attributes or {}) == {
        **REQUEST_ATTRIBUTES,
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 1.0,
        **RESPONSE_ATTRIBUTES,
    }


async def test_a_finish_without_a_response_still_tells_what_it_can() -> None:
    *begun, finish = events_of(ANSWER)
    bare = type(finish)(type=finish.type, finish_reason=finish.finish_reason, usage=finish.usage)
    with ScriptedAdapter([*begun, bare]) as adapter:
        telescope = Telescope(adapter)
        _ = [event async for event in telescope.client.stream(ASK)]
    attributes = telescope.span.attributes or {}
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.usage.output_tokens"] == 5


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_failure_is_a_status_and_a_class_without_its_words(streamed: bool) -> None:
    with ScriptedAdapter(RateLimitError("you said: the prompt", status_code=429)) as adapter:
        telescope = Telescope(adapter)
        with pytest.raises(RateLimitError):
            await call(telescope.client, streamed)
    span = telescope.span
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "RateLimitError"
    assert span.attributes["http.response.status_code"] == 429
    assert not span.events
    assert "the prompt" not in span.to_json()


async def test_a_broken_stream_is_a_failure() -> None:
    with ScriptedAdapter([*events_of(ANSWER)[:-1], StreamError("cut")]) as adapter:
        telescope = Telescope(adapter)
        with pytest.raises(StreamError):
            _ = [event async for event in telescope.client.stream(ASK)]
    assert telescope.span.status.status_code is StatusCode.ERROR


async def test_a_stream_left_by_its_reader_ends_without_a_status() -> None:
    with ScriptedAdapter(ANSWER) as adapter:
        telescope = Telescope(adapter)
        async with telescope.client.stream(ASK) as events:
            await anext(events)
        assert adapter.open_streams == 0
    assert telescope.span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancelled_call_ends_its_span(anyio_backend: str) -> None:
    telescope = Telescope(ScriptedAdapter([anyio.sleep_forever]))
    with anyio.move_on_after(0.01):
        await telescope.client.complete(ASK)
    assert telescope.span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("streamed", [False, True])
async def test_spans_within_the_call_are_its_children(streamed: bool) -> None:
    telescope = Telescope(ScriptedAdapter())
    tracer = telescope.provider.get_tracer("http")

    async def send() -> None:
        with tracer.start_as_current_span("POST"):
            pass

    telescope.client = Client(
        {"s": ScriptedAdapter([send, *events_of(ANSWER)])}, "s", [TelemetryMiddleware(telescope.provider)]
    )
    with tracer.start_as_current_span("outer"):
        await call(telescope.client, streamed)
    post, chat, outer = telescope.exporter.get_finished_spans()
    assert [span.name for span in (post, chat, outer)] == ["POST", "chat m", "outer"]
    assert post.parent is not None
    assert chat.parent is not None
    assert post.parent.span_id == chat.get_span_context().span_id
    assert chat.parent.span_id == outer.get_span_context().span_id


async def test_nothing_that_was_said_is_recorded() -> None:
    with ScriptedAdapter(ANSWER, ANSWER) as adapter:
        telescope = Telescope(adapter)
        await telescope.client.complete(ASK)
        _ = [event async for event in telescope.client.stream(ASK)]
    for span in telescope.exporter.get_finished_spans():
        assert "the prompt" not in span.to_json()
        assert "the answer" not in span.to_json()


@pytest.mark.parametrize(("ours", "theirs"), [("gemini", "gcp.gemini"), ("anthropic", "anthropic"), ("xai", "x_ai")])
async def test_providers_have_the_names_of_the_conventions(ours: str, theirs: str) -> None:
    with ScriptedAdapter("ok") as adapter:
        telescope = Telescope(adapter, ours)
        await telescope.client.complete(ASK)
    assert (telescope.span.attributes or {})["gen_ai.provider.name"] == theirs


async def test_the_output_type_is_told_when_asked_for() -> None:
    with ScriptedAdapter("{}") as adapter:
        telescope = Telescope(adapter)
        await telescope.client.complete(ASK.model_copy(update={"response_format": ResponseFormat(type="json")}))
    assert (telescope.span.attributes or {})["gen_ai.output.type"] == "json"


async def test_attributes_name_the_same_as_the_published_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    ours = {name for name in {**REQUEST_ATTRIBUTES, **RESPONSE_ATTRIBUTES} if name.startswith("gen_ai.")}
    assert ours <= known


async def test_without_a_tracer_provider_the_global_one_is_used() -> None:
    async def inner(request: Request, call_next: CompleteCall) -> Response:
        return await call_next(request)

    with ScriptedAdapter("ok") as adapter:
        assert (await Client({"s": adapter}, "s", [TelemetryMiddleware(), inner]).complete(ASK)).text == "ok"


def test_without_the_package_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from unified_llm import ConfigurationError
from unified_llm.client.middlewares import TelemetryMiddleware
try:
    TelemetryMiddleware()
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'unified-llm[otel]'" in done.stdout


def test_the_package_is_imported_only_when_a_middleware_is_made() -> None:
    code = "import sys, unified_llm.client.middlewares; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
