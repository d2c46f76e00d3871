"""The conversation: turns as they are kept, and as messages for a model (section 2.4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import is_

from unified_llm import ContentPart, Message, Response, ToolCall, ToolResultData, Usage


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user said."""

    content: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """What the model answered.

    `parts` is the whole answer: thinking blocks with their signatures go back to the provider exactly as they came.
    `content`, `tool_calls` and `reasoning` are read from it.
    """

    content: str
    tool_calls: tuple[ToolCall, ...]
    reasoning: str | None
    usage: Usage
    response_id: str | None
    timestamp: datetime
    parts: tuple[ContentPart, ...]

    @classmethod
    def from_response(cls, response: Response, timestamp: datetime) -> "AssistantTurn":
        """The turn that a response makes."""
        return cls(
            content=response.text,
            tool_calls=tuple(response.tool_calls),
            reasoning=response.reasoning,
            usage=response.usage,
            response_id=response.id or None,
            timestamp=timestamp,
            parts=tuple(response.message.content),
        )


@dataclass(frozen=True, slots=True)
class ToolResultsTurn:
    """The answers to all calls of the assistant turn before it, in the order of the calls."""

    results: tuple[ToolResultData, ...]
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class SystemTurn:
    """Instructions of the host in the midst of a conversation."""

    content: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class SteeringTurn:
    """A message injected between two rounds; the model reads it as the user's."""

    content: str
    timestamp: datetime


Turn = UserTurn | AssistantTurn | ToolResultsTurn | SystemTurn | SteeringTurn


def turn_to_messages(turn: Turn) -> list[Message]:
    """The messages that stand for a turn: one, or one for each tool result."""
    match turn:
        case UserTurn(content) | SteeringTurn(content):
            return [Message.user(content)]
        case SystemTurn(content):
            return [Message.system(content)]
        case AssistantTurn():
            return [Message.assistant([_replayable(part) for part in turn.parts])] if turn.parts else []
        case ToolResultsTurn(results):
            return [
                Message.tool_result(
                    result.tool_call_id,
                    result.content,
                    result.is_error,
                    image_data=result.image_data,
                    image_media_type=result.image_media_type,
                )
                for result in results
            ]


def _replayable(part: ContentPart) -> ContentPart:
    """Providers refuse a call whose arguments are no object. The error result that follows quotes what was wrong."""
    if part.tool_call is None or isinstance(part.tool_call.arguments, dict):
        return part
    call = part.tool_call.model_copy(update={"arguments": {}, "raw_arguments": None})
    return part.model_copy(update={"tool_call": call})


def convert_history_to_messages(history: Sequence[Turn]) -> list[Message]:
    """All turns as messages, in order."""
    return [message for turn in history for message in turn_to_messages(turn)]


def count_characters(turn: Turn) -> int:
    """How many characters of a turn a model has to read, for rough token counts."""
    match turn:
        case AssistantTurn():
            calls = sum(len(call.name) + len(call.raw_arguments or str(call.arguments)) for call in turn.tool_calls)
            return len(turn.content) + len(turn.reasoning or "") + calls
        case ToolResultsTurn(results):
            return sum(len(str(result.content)) for result in results)
        case _:
            return len(turn.content)


class HistoryView:
    """Messages and size of a history, worked out once a turn however long the history grows.

    The history stays the host's to edit: a turn that was replaced or removed is noticed by its identity.
    """

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._messages: list[Message] = []
        self.characters = 0

    def update(self, history: Sequence[Turn]) -> list[Message]:
        """Take in what changed since the last call. Returns the messages, which the caller must not change."""
        known = len(self._turns)
        if known > len(history) or not all(map(is_, self._turns, history)):
            self._turns, self._messages, self.characters, known = [], [], 0, 0
        for turn in history[known:]:
            self._turns.append(turn)
            self._messages.extend(turn_to_messages(turn))
            self.characters += count_characters(turn)
        return self._messages


def latest_first(history: Sequence[Turn]) -> Iterator[ToolCall]:
    """All tool calls, the latest first."""
    for turn in reversed(history):
        if isinstance(turn, AssistantTurn):
            yield from reversed(turn.tool_calls)
