"""A model provider on loopback that answers from bytes made in advance, far faster than any client here asks.

It prints its port, and ends with its standard input. The path says what to send: `/<deltas>/...` streams so many deltas
at once, `/<deltas>/held/...` never ends the stream, `/<deltas>/later/...` waits a tenth of a second first.
`GET /connections` tells how many are open.
"""

import asyncio
import json
import re
import sys
from functools import cache
from typing import Any

WORD = "word "
WORDS = 200
"""In an answer that isn't streamed."""
USAGE = {"input_tokens": 400, "output_tokens": WORDS}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def anthropic_answer() -> dict[str, Any]:
    text = {"type": "text", "text": WORD * WORDS}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6"}
    return {**message, "content": [text], "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}


def anthropic_events(deltas: int) -> list[dict[str, Any]]:
    message = {**anthropic_answer(), "content": [], "stop_reason": None}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[delta] * deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": deltas}},
        {"type": "message_stop"},
    ]


def chat_answer() -> dict[str, Any]:
    message = {"role": "assistant", "content": WORD * WORDS, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 400, "completion_tokens": WORDS, "total_tokens": 400 + WORDS}
    return {"id": "c1", "object": "chat.completion", "model": "gpt-5.2", "choices": [choice], "usage": usage}


def chat_events(deltas: int) -> list[dict[str, Any]]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.2"}
    delta = {**head, "choices": [{"index": 0, "delta": {"content": WORD}, "logprobs": None, "finish_reason": None}]}
    end = {**head, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]}
    return [*[delta] * deltas, end, {**head, "choices": [], "usage": chat_answer()["usage"]}]


def responses_answer() -> dict[str, Any]:
    text = {"type": "output_text", "text": WORD * WORDS, "annotations": []}
    item = {"id": "m1", "type": "message", "status": "completed", "role": "assistant", "content": [text]}
    head = {"id": "r1", "object": "response", "status": "completed", "model": "gpt-5.2", "error": None}
    return {**head, "output": [item], "usage": {**USAGE, "total_tokens": 400 + WORDS}}


def responses_events(deltas: int) -> list[dict[str, Any]]:
    whole = responses_answer()
    text = {"type": "output_text", "text": WORD * deltas, "annotations": []}
    item = {**whole["output"][0], "content": [text]}
    where = {"item_id": "m1", "output_index": 0, "content_index": 0}
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **where, "part": {**text, "text": ""}},
        *[{"type": "response.output_text.delta", **where, "delta": WORD, "logprobs": []}] * deltas,
        {"type": "response.output_text.done", **where, "text": text["text"]},
        {"type": "response.content_part.done", **where, "part": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**whole, "output": [item]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def gemini_answer(text: str = WORD * WORDS, end: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    usage = {"promptTokenCount": 400, "candidatesTokenCount": WORDS, "totalTokenCount": 400 + WORDS}
    ended = {"finishReason": end} if end else {}
    return {"candidates": [{**candidate, **ended}], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def gemini_events(deltas: int) -> list[dict[str, Any]]:
    return [*[gemini_answer(WORD, None)] * deltas, gemini_answer("")]


ANSWERS = {
    "generateContent": (gemini_answer, gemini_events),
    "streamGenerateContent": (gemini_answer, gemini_events),
    "messages": (anthropic_answer, anthropic_events),
    "completions": (chat_answer, chat_events),
    "responses": (responses_answer, responses_events),
}


@cache
def reply(path: str, streamed: bool) -> bytes:
    """The bytes of an answer, head included."""
    _, deltas, *rest = path.partition("?")[0].split("/")
    rest[-1] = rest[-1].rpartition(":")[2]
    answer, events = ANSWERS[rest[-1]]
    if not streamed:
        return json_reply(answer())
    frames = [frame_of(event) for event in events(int(deltas))]
    if rest[-1] == "completions":
        frames.append(b"data: [DONE]\n\n")
    if rest[0] == "held":
        del frames[-2:]
    chunks = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(chunks) + (b"" if rest[0] == "held" else b"0\r\n\r\n")


def frame_of(event: dict[str, Any]) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return name.encode() + b"data: " + compact(event) + b"\n\n"


def json_reply(value: Any) -> bytes:
    body = compact(value)
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Connection(asyncio.Protocol):
    opened = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.received = b""
        Connection.opened += 1

    def connection_lost(self, error: Exception | None) -> None:
        Connection.opened -= 1

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(self.received, 0, end)
        if end < 4 or len(self.received) < end + int(length[1] if length else 0):
            return
        path = self.received.split(b" ", 2)[1].decode()
        streamed = b'"stream":true' in self.received or ":stream" in path
        self.received = b""
        answer = json_reply(Connection.opened) if path == "/connections" else reply(path, streamed)
        if "/later/" in path:
            asyncio.get_running_loop().call_later(0.1, self.transport.write, answer)
        else:
            self.transport.write(answer)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
