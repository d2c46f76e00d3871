"""Numbers about the server in the text format of Prometheus (version 0.0.4)."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attractor.server.event_tail import Tails
from attractor.server.operations import Answer, Operation
from attractor.server.run_index import RunIndex
from attractor.server.runs import Runs

MEDIA_TYPE = "text/plain; version=0.0.4"
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_STATUSES = ("running", "waiting", "completed", "failed", "cancelled")


class Metrics:
    """Counts requests, and tells the other numbers as they stand when asked."""

    def __init__(self, runs: Runs, index: RunIndex, tails: Tails) -> None:
        self._runs = runs
        self._index = index
        self._tails = tails
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._begun = time.time()

    def count_requests(self, app: ASGIApp) -> ASGIApp:
        """ASGI middleware that counts what is answered."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    name = getattr(scope.get("endpoint"), "__name__", "")
                    # A method may be any word, and each would be kept.
                    method = scope["method"] if scope["method"] in _METHODS else "other"
                    self._requests[method, name, message["status"]] += 1
                await send(message)

            await app(scope, receive, noting if scope["type"] == "http" else send)

        return counted

    def list_operations(self) -> Sequence[Operation]:
        numbers = Answer(description="The numbers.", schema={"type": "string"}, media_type="text/plain")
        return (
            Operation(
                method="GET",
                path="/metrics",
                endpoint=self.get_metrics,
                summary="Numbers for Prometheus.",
                answers={200: numbers},
            ),
        )

    async def get_metrics(self, request: Request) -> Response:
        statuses = await run_sync(self._index.count_statuses)
        return Response("".join(f"{line}\n" for line in self._write(statuses)), media_type=MEDIA_TYPE)

    def _write(self, statuses: Mapping[str, int]) -> Iterator[str]:
        yield from _family("attractor_runs", "gauge", "Runs in the directory, by status.")
        for status in _STATUSES:
            yield f'attractor_runs{{status="{status}"}} {statuses.get(status, 0)}'
        yield from _single(
            "attractor_runs_executed", "gauge", "Runs that this process executes.", self._runs.count_live()
        )
        yield from _single("attractor_runs_started_total", "counter", "Runs started or resumed.", self._runs.started)
        yield from _single("attractor_event_streams", "gauge", "Open streams of events.", self._tails.count_readers())
        yield from _family("attractor_http_requests_total", "counter", "Requests answered.")
        for (method, name, code), count in sorted(self._requests.items()):
            labels = f'method="{method}",operation="{name}",status="{code}"'
            yield f"attractor_http_requests_total{{{labels}}} {count}"
        cpu = time.process_time()
        yield from _single("process_cpu_seconds_total", "counter", "Seconds of CPU used.", round(cpu, 3))
        yield from _single("process_start_time_seconds", "gauge", "When the server began.", round(self._begun, 3))
        if memory := _read_memory():
            yield from _single("process_resident_memory_bytes", "gauge", "Memory in use.", memory)


def _family(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _family(name, kind, text)
    yield f"{name} {value}"


def _read_memory() -> int:
    """Resident bytes; 0 where the system doesn't tell as Linux does."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
