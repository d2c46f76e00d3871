"""What a session reports, as it happens (section 2.9)."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import anyio

from agent_loop.clock import Clock, utc_now
from agent_loop.errors import EventsLostError

MAX_EVENTS_BEHIND = 10_000


class EventKind(StrEnum):
    """The kinds of section 2.9, each with the keys of its `data`.

    SESSION_START profile, model; SESSION_END state; USER_INPUT content; PROCESSING_END state, stop_reason, usage (of
    the whole session so far, subagents included); ASSISTANT_TEXT_DELTA delta; ASSISTANT_TEXT_END text, reasoning, usage
    (of this answer), finish_reason; TOOL_CALL_START tool_name, call_id, arguments; TOOL_CALL_OUTPUT_DELTA call_id,
    delta; TOOL_CALL_END tool_name, call_id, is_error, and either output (whole, never truncated) or error;
    STEERING_INJECTED content; TURN_LIMIT round or total_turns; LOOP_DETECTION message; WARNING message; ERROR message,
    error (the class's name).
    """

    SESSION_START = "session_start"
    SESSION_END = "session_end"
    USER_INPUT = "user_input"
    PROCESSING_END = "processing_end"
    ASSISTANT_TEXT_START = "assistant_text_start"
    ASSISTANT_TEXT_DELTA = "assistant_text_delta"
    ASSISTANT_TEXT_END = "assistant_text_end"
    TOOL_CALL_START = "tool_call_start"
    TOOL_CALL_OUTPUT_DELTA = "tool_call_output_delta"
    TOOL_CALL_END = "tool_call_end"
    STEERING_INJECTED = "steering_injected"
    TURN_LIMIT = "turn_limit"
    LOOP_DETECTION = "loop_detection"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One event. `data` holds what the kind calls for; `timestamp` is UTC."""

    kind: EventKind
    timestamp: datetime
    session_id: str
    data: Mapping[str, Any]


class EventEmitter:
    """Keeps a session's events and hands them to any number of readers, each from the first one on.

    `emit` never waits: a slow reader can't hold up the session.
    """

    def __init__(self, session_id: str, *, clock: Clock = utc_now, max_behind: int = MAX_EVENTS_BEHIND) -> None:
        self._session_id = session_id
        self._clock = clock
        self._max_behind = max_behind
        self._log: list[SessionEvent] = []
        self._waiting: list[anyio.Event] = []
        self._ended = False

    def emit(self, kind: EventKind, **data: Any) -> None:
        """Append an event. After SESSION_END nothing follows any more."""
        if self._ended:
            return
        self._log.append(SessionEvent(kind, self._clock(), self._session_id, data))
        self._ended = kind is EventKind.SESSION_END
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for reader in waiting:
                reader.set()

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """All events from SESSION_START on, the past ones at once, until SESSION_END.

        Raises EventsLostError when more than `max_behind` events came after this reader had begun and are still
        unread.
        """
        position, begun_at = 0, len(self._log)
        while True:
            if len(self._log) - max(position, begun_at) > self._max_behind:
                raise EventsLostError(
                    f"this reader is more than {self._max_behind:,} events behind; read faster, or subscribe again"
                )
            if position < len(self._log):
                event = self._log[position]
                position += 1
                yield event
                if event.kind is EventKind.SESSION_END:
                    return
            else:
                changed = anyio.Event()
                self._waiting.append(changed)
                await changed.wait()
