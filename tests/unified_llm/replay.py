"""Replays recorded provider traffic through an adapter and compares what comes out with what is right.

A test takes the fixture `replay` (this module) and the fixture `recording`, marked with the protocol it wants:

    @pytest.mark.recordings("anthropic-messages")
    async def test_recording(replay, recording):
        observed = await replay.replay(make_adapter, recording)
        assert replay.check(observed, recording.expected) == []

`make_adapter` takes an `AsyncClient` and returns the adapter that is to use it. The client is httpx's, or that of the
`library` that is named.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import httpx2
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.spec.adapter import ProviderAdapter
from unified_llm.spec.errors import SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentKind, Message
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response

AdapterFactory = Callable[[Any], ProviderAdapter]
LIBRARIES: dict[str, Any] = {"httpx": httpx, "httpx2": httpx2}

# The body is kept decoded and whole, so these no longer describe it.
_TRANSFER_HEADERS = ("content-encoding", "transfer-encoding", "content-length", "connection")


@dataclass(frozen=True)
class Recording:
    """One HTTP exchange and what a correct client reports for it."""

    id: str
    api: str
    stream: bool
    status: int
    headers: dict[str, str]
    content: bytes
    expected: dict[str, Any]
    request_body: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()

    @property
    def ends_well(self) -> bool:
        """Whether it is a stream that a correct client reads to a proper end."""
        return self.stream and self.status == 200 and not self.expected.get("error")

    @property
    def continues(self) -> bool:
        """Whether its request holds earlier answers of the model."""
        return "multi-turn" in self.tags and self.request_body is not None


@dataclass
class Observed:
    """What an adapter made of a recording."""

    response: Response | None = None
    error: SDKError | None = None
    events: list[StreamEvent] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """In the terms of `expected.jsonl`."""
        if self.error is not None:
            return {
                "error": {
                    "class": type(self.error).__name__,
                    "retryable": self.error.retryable,
                    "retry_after": self.error.retry_after,
                    "status": self.error.status_code,
                }
            }
        assert self.response is not None
        response = self.response
        thoughts = (ContentKind.THINKING, ContentKind.REDACTED_THINKING)
        usage = response.usage.model_dump(exclude={"raw"})
        return {
            "error": None,
            "text": response.text,
            "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls],
            "reasoning_present": any(part.kind in thoughts for part in response.message.content),
            "reasoning_text": response.reasoning,
            "finish_reason": response.finish_reason.reason,
            "usage": usage,
            "response_id": response.id,
            "model": response.model,
        }


def load(folder: Path, *apis: str) -> list[Recording]:
    """Every recording of the protocols, with its expectation."""
    lines = (folder / "expected.jsonl").read_text("utf-8").splitlines()
    expectations = [row for row in map(json.loads, lines) if row["api"] in apis]
    return [_load(folder / f"{row['id']}.json", row) for row in expectations]


def _load(path: Path, expected: dict[str, Any]) -> Recording:
    data = json.loads(path.read_text("utf-8"))
    response = data["response"]
    if "sse" in response or "text" in response:
        content = response.get("sse", response.get("text")).encode()
    else:
        content = json.dumps(response["body"]).encode()
    headers = {
        name: value for name, value in response.get("headers", {}).items() if name.lower() not in _TRANSFER_HEADERS
    }
    return Recording(
        id=data["id"],
        api=data["api"],
        stream=data["stream"],
        status=response["status"],
        headers=headers,
        content=content,
        expected=expected,
        request_body=(data.get("request") or {}).get("body"),
        tags=tuple(data.get("tags", ())),
    )


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    """`content` in pieces of `size` bytes."""
    return (content[start : start + size] for start in range(0, len(content), size))


class _Body(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def replay(
    make_adapter: AdapterFactory,
    recording: Recording,
    *,
    chunks: Iterable[bytes] | None = None,
    request: Request | None = None,
    library: str = "httpx",
) -> Observed:
    """Answer one call of the adapter with the recording; `chunks` replaces how the bytes arrive."""
    http = LIBRARIES[library]
    observed = Observed()

    def answer(sent: Any) -> Any:
        observed.requests.append(sent)
        body = _Body([recording.content] if chunks is None else chunks)
        return http.Response(recording.status, headers=recording.headers, stream=body)

    request = request or Request(
        model=recording.expected.get("model") or "some-model", messages=[Message.user("Hello")]
    )
    async with http.AsyncClient(transport=http.MockTransport(answer)) as client:
        adapter = make_adapter(client)
        try:
            if not recording.stream:
                observed.response = await adapter.complete(request)
                return observed
            async for event in adapter.stream(request):
                observed.events.append(event)
                if event.type == StreamEventType.FINISH:
                    observed.response = event.response
        except SDKError as error:
            observed.error = error
    return observed


def check(observed: Observed, expected: dict[str, Any]) -> list[str]:
    """What differs from the expectation, one line each; its `also` and `unsure` are honoured."""
    unsure = set(expected.get("unsure", ()))
    if "*" in unsure or "outcome" in unsure:
        return []
    facts = observed.facts()
    if (facts["error"] is None) != (expected.get("error") is None):
        return [f"expected {expected.get('error') or 'an answer'}, got {observed.error!r} {facts}"]
    names = ["error"] if expected.get("error") else [name for name in facts if name != "error" and name in expected]
    problems = []
    for path, value in _flatten({name: expected[name] for name in names}):
        if path in unsure or path.partition(".")[0] in unsure:
            continue
        found = _at(facts, path)
        accepted = [value, *expected.get("also", {}).get(path, ())]
        if not any(_agrees(path, found, candidate) for candidate in accepted):
            problems.append(f"{path}: {found!r} is none of {accepted!r}")
    return problems


def _flatten(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", item) for key, item in value.items())
        else:
            yield name, value


def _at(facts: dict[str, Any], path: str) -> Any:
    value: Any = facts
    for name in path.split("."):
        value = value[name]
    return value


def _agrees(path: str, found: Any, value: Any) -> bool:
    if path == "tool_calls" and isinstance(value, list):
        return len(found) == len(value) and all(
            mine["name"] == theirs["name"] and (theirs["arguments"] is None or mine["arguments"] == theirs["arguments"])
            for mine, theirs in zip(found, value, strict=True)
        )
    if value is None and path.startswith("usage"):
        # Not on the wire.
        return not (any(found.values()) if isinstance(found, dict) else found)
    if value is None and path in ("reasoning_text", "response_id"):
        return not found or path == "response_id"
    return bool(found == value)


def check_discipline(observed: Observed) -> list[str]:
    """What is wrong with the order and the content of a finished stream's events (section 3.14)."""
    types = [str(event.type) for event in observed.events]
    problems = []
    if types[:1] != ["stream_start"] or types.count("stream_start") != 1:
        problems.append(f"a stream begins with one STREAM_START, not {types[:3]}")
    if types[-1:] != ["finish"] or types.count("finish") != 1:
        problems.append(f"a stream ends with one FINISH, not {types[-3:]}")
    problems.extend(_check_segments(observed.events))
    response = observed.response
    assert response is not None
    text = "".join(event.delta or "" for event in observed.events if event.type == StreamEventType.TEXT_DELTA)
    if text != response.text:
        problems.append("the text deltas don't add up to the response's text")
    thoughts = "".join(event.reasoning_delta or "" for event in observed.events)
    if thoughts != (response.reasoning or ""):
        problems.append("the reasoning deltas don't add up to the response's reasoning")
    calls = [event.tool_call for event in observed.events if event.type == StreamEventType.TOOL_CALL_END]
    if calls != response.tool_calls:
        problems.append(f"the finished calls {calls} are not the response's {response.tool_calls}")
    return [*problems, *_check_accumulated(observed.events, response)]


def _check_segments(events: Iterable[StreamEvent]) -> Iterator[str]:
    running: set[tuple[str, str | None]] = set()
    for event in events:
        kind, _, step = str(event.type).rpartition("_")
        if kind not in ("text", "reasoning", "tool_call"):
            continue
        key = (kind, event.tool_call.id if kind == "tool_call" and event.tool_call else event.text_id)
        if key[1] is None:
            yield f"{event.type} doesn't say which segment it belongs to"
        if (step == "start") == (key in running):
            yield f"{event.type} of {key}, which is {'running' if key in running else 'not running'}"
        if step == "start":
            running.add(key)
        if step == "end":
            running.discard(key)
            if event.part is None:
                yield f"{event.type} of {key} has no part"
    yield from (f"{key} never ends" for key in running)


def _check_accumulated(events: Iterable[StreamEvent], response: Response) -> Iterator[str]:
    whole, bare = StreamAccumulator(), StreamAccumulator()
    for event in events:
        whole.process(event)
        bare.process(replace(event, response=None))
    if whole.response() != response:
        yield "the stream accumulates to another response than FINISH carries"
    rebuilt = bare.response()
    if rebuilt.message != response.message:
        yield f"the events alone rebuild {rebuilt.message}, not {response.message}"
    if (rebuilt.finish_reason, rebuilt.usage) != (response.finish_reason, response.usage):
        yield "FINISH has another finish reason or usage than its response"
