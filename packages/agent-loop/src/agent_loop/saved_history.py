"""A conversation as JSON Lines: one turn a line, so that it can be appended to, and read again in another process."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from unified_llm import ContentPart, ToolCall, ToolResultData, Usage

from agent_loop.errors import SavedHistoryError
from agent_loop.history import AssistantTurn, SteeringTurn, SystemTurn, ToolResultsTurn, Turn, UserTurn

_Item = TypeVar("_Item")
_SPOKEN: dict[str, type[UserTurn] | type[SystemTurn] | type[SteeringTurn]] = {
    "user": UserTurn,
    "system": SystemTurn,
    "steering": SteeringTurn,
}
_NAMES = {kind: name for name, kind in _SPOKEN.items()}


def dump_history(history: Iterable[Turn]) -> str:
    """All turns, each as a line that ends in LF. Nothing is lost: signatures and images neither."""
    return "".join(f"{dump_turn(turn)}\n" for turn in history)


def dump_turn(turn: Turn) -> str:
    """One line, without its LF."""
    record: dict[str, Any] = {"turn": "", "timestamp": turn.timestamp.isoformat()}
    match turn:
        case AssistantTurn():
            record |= {
                "turn": "assistant",
                "response_id": turn.response_id,
                "usage": turn.usage.model_dump(mode="json"),
                "content": turn.content,
                "reasoning": turn.reasoning,
                "tool_calls": [call.model_dump(mode="json") for call in turn.tool_calls],
                "parts": [part.model_dump(mode="json") for part in turn.parts],
            }
        case ToolResultsTurn(results):
            record |= {
                "turn": "tool_results",
                "results": [result.model_dump(mode="json") for result in results],
            }
        case _:
            record |= {"turn": _NAMES[type(turn)], "content": turn.content}
    return json.dumps(record, ensure_ascii=True)


def load_history(text: str) -> list[Turn]:
    """The turns of `dump_history`, for a Session's `history`. Raises SavedHistoryError that names the line."""
    turns: list[Turn] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            turns.append(_load_turn(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SavedHistoryError(
                f"line {number} of the saved history is no turn: {type(error).__name__}: {error}"
            ) from error
    return turns


def _load_turn(record: dict[str, Any]) -> Turn:
    timestamp = datetime.fromisoformat(record["timestamp"])
    match record["turn"]:
        case "assistant":
            return AssistantTurn(
                content=record["content"],
                tool_calls=_load_all(ToolCall.model_validate, record["tool_calls"]),
                reasoning=record["reasoning"],
                usage=Usage.model_validate(record["usage"]),
                response_id=record["response_id"],
                timestamp=timestamp,
                parts=_load_all(ContentPart.model_validate, record["parts"]),
            )
        case "tool_results":
            return ToolResultsTurn(_load_all(ToolResultData.model_validate, record["results"]), timestamp)
        case name if name in _SPOKEN:
            if not isinstance(record["content"], str):
                raise TypeError(f"content must be a text, not {type(record['content']).__name__}")
            return _SPOKEN[name](record["content"], timestamp)
        case name:
            raise ValueError(f"unknown kind of turn {name!r}")


def _load_all(load: Callable[[Any], _Item], records: list[Any]) -> tuple[_Item, ...]:
    return tuple(load(record) for record in records)
