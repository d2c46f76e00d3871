"""Recording what providers answer, and replaying it without them: for tests, and for pipelines without a network."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

from unified_llm.client.event_stream import EventStream
from unified_llm.client.middleware import CompleteCall, StreamCall
from unified_llm.client.middlewares.cassette import (
    Exchange,
    differences,
    plain_request,
    read_cassette,
    record_exchange,
    render_exchange,
    write_cassette,
)
from unified_llm.provider_utils.accumulator import StreamAccumulator
from unified_llm.provider_utils.response_events import events_of
from unified_llm.spec.errors import AbortError, ConfigurationError, SDKError
from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.request import Request
from unified_llm.spec.response import Response

RecordingMode = Literal["replay", "record", "extend"]


class RecordingMiddleware:
    """Records exchanges in a cassette, a JSON file to be read, edited and committed, or answers from it.

    * "replay": never calls a provider, so a client without any will do. A request that is not in the cassette raises
      ConfigurationError that names the nearest one there.
    * "record": calls the provider and begins the file anew.
    * "extend": answers from the file what is in it, and records the rest.

    Requests match if `match_on` gives the same for both. It gets the request as it stands in the cassette, a dict, and
    by default that is compared whole, except that a request that names no provider matches any. Each exchange is
    played once, equal ones in their order. Whole and streamed calls share exchanges. Failures are recorded and
    replayed too: errors of the provider and the network, with what a stream brought before it broke.

    Keys never get into the file: what looks like one, `secrets`, headers and what is named like a password among
    `provider_options` and `metadata` are replaced. The file is replaced atomically after each exchange. Use one
    middleware for one file at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: RecordingMode = "replay",
        *,
        match_on: Callable[[dict[str, Any]], object] | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        if mode not in ("replay", "record", "extend"):
            raise ConfigurationError(f'mode must be "replay", "record" or "extend", but is {mode!r}')
        self._path = Path(path)
        self._mode = mode
        self._match_on = match_on
        self._secrets = tuple(secrets)
        if mode == "replay" and not self._path.exists():
            raise ConfigurationError(f'there is no cassette {self._path}; make it with mode="record"')
        recorded = mode != "record" and self._path.exists()
        self._exchanges = read_cassette(self._path) if recorded else []
        self._rendered = [render_exchange(exchange) for exchange in self._exchanges]
        self._unplayed = list(self._exchanges)

    @property
    def unplayed(self) -> int:
        """How many exchanges of the cassette have not been asked for. A test may want it to be 0 at its end."""
        return len(self._unplayed)

    async def complete(self, request: Request, call_next: CompleteCall) -> Response:
        """Replay or record one whole answer."""
        plain = plain_request(request, self._secrets)
        if (exchange := self._play(plain)) is not None:
            if exchange.error is not None:
                raise _fresh(exchange.error)
            assert exchange.response is not None
            return exchange.response
        try:
            response = await call_next(request)
        except SDKError as error:
            self._record_failure(plain, error)
            raise
        self._record(plain, response)
        return response

    async def stream(self, request: Request, call_next: StreamCall) -> AsyncIterator[StreamEvent]:
        """Replay or record one stream. A stream that its reader leaves early is not recorded."""
        plain = plain_request(request, self._secrets)
        if (exchange := self._play(plain)) is not None:
            for event in _events(exchange):
                yield event
            if exchange.error is not None:
                raise _fresh(exchange.error)
            return
        accumulator = StreamAccumulator()
        try:
            async with EventStream(call_next(request)) as events:
                async for event in events:
                    if event.type == StreamEventType.FINISH:
                        accumulator.process(event)
                        self._record(plain, accumulator.response())
                    elif event.type != StreamEventType.ERROR:
                        accumulator.process(event)
                    yield event
        except SDKError as error:
            self._record_failure(plain, error, accumulator.partial_response)
            raise

    def _play(self, asked: dict[str, Any]) -> Exchange | None:
        """The first unplayed exchange for the request; None if it is to be recorded."""
        if self._mode == "record":
            return None
        for index, exchange in enumerate(self._unplayed):
            if self._matches(exchange.request, asked):
                return self._unplayed.pop(index)
        if self._mode == "extend":
            return None
        raise self._unknown(asked)

    def _matches(self, recorded: dict[str, Any], asked: dict[str, Any]) -> bool:
        recorded = _without_open_provider(recorded, asked)
        if self._match_on is None:
            return recorded == asked
        return self._match_on(recorded) == self._match_on(asked)

    def _record(self, plain: dict[str, Any], response: Response | None, error: SDKError | None = None) -> None:
        exchange = record_exchange(plain, response, error, self._secrets)
        # Written here and not in a thread, so that nothing can come between an answer and its record.
        self._exchanges.append(exchange)
        self._rendered.append(render_exchange(exchange))
        write_cassette(self._path, self._rendered)

    def _record_failure(self, plain: dict[str, Any], error: SDKError, partial: Response | None = None) -> None:
        # An abort and a wrong set-up are not the provider's doing, and wouldn't be the next time.
        if not isinstance(error, AbortError | ConfigurationError):
            has_content = partial is not None and partial.message.content
            self._record(plain, partial if has_content else None, error)

    def _unknown(self, asked: dict[str, Any]) -> ConfigurationError:
        what = f"the cassette {self._path} has no answer for this request to {asked['model']}"
        how = 'record it with mode="extend", edit the cassette, or tell with match_on what matters'
        if not self._exchanges:
            return ConfigurationError(f"{what}: it is empty; {how}")
        played = [exchange for exchange in self._exchanges if self._matches(exchange.request, asked)]
        if played:
            return ConfigurationError(f"{what}: it was recorded {len(played)} times and asked once more; {how}")
        index, found = min(
            (
                (index, list(differences(_without_open_provider(exchange.request, asked), asked)))
                for index, exchange in enumerate(self._exchanges)
            ),
            key=lambda candidate: len(candidate[1]),
        )
        nearest = f"exchanges[{index}] of {len(self._exchanges)} is nearest"
        if not found:
            return ConfigurationError(f"{what}: {nearest}, and differs by match_on alone; {how}")
        place, recorded, wanted = found[0]
        more = f" and in {len(found) - 1} more places" if len(found) > 1 else ""
        return ConfigurationError(
            f"{what}: {nearest}, and differs in {place}{more}: "
            f"recorded is {_excerpt(recorded)}, asked was {_excerpt(wanted)}; {how}"
        )


def _events(exchange: Exchange) -> list[StreamEvent]:
    if exchange.error is None:
        assert exchange.response is not None
        return events_of(exchange.response, chunk=None)
    begun = [] if exchange.response is None else events_of(exchange.response, chunk=None)[:-1]
    return [*begun, StreamEvent(type=StreamEventType.ERROR, error=_fresh(exchange.error))]


def _fresh(error: SDKError) -> SDKError:
    """The error anew, so that no traceback of an earlier call hangs on to it."""
    return type(error)(
        error.message,
        provider=error.provider,
        status_code=error.status_code,
        error_code=error.error_code,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


def _without_open_provider(recorded: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    if "provider" in asked:
        return recorded
    return {name: value for name, value in recorded.items() if name != "provider"}


def _excerpt(value: Any) -> str:
    return "nothing" if value is None else shorten(repr(value), 120)
