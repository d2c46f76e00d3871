"""A conversation as text that a model can be asked about."""

from collections.abc import Iterable

from agent_loop.history import AssistantTurn, SteeringTurn, Turn, UserTurn

MAX_CONVERSATION = 24_000
"""In characters."""
_LEFT_OUT = "\n\n[... the middle of the conversation is left out ...]\n\n"


def render_conversation(turns: Iterable[Turn]) -> str:
    """What was said, and which tools were used; not what these gave back."""
    lines = []
    for turn in turns:
        match turn:
            case UserTurn() | SteeringTurn():
                lines.append(f"Person: {turn.content}")
            case AssistantTurn():
                tools = ", ".join(dict.fromkeys(call.name for call in turn.tool_calls))
                said = [turn.content.strip(), f"(uses {tools})" if tools else ""]
                lines.append(f"Assistant: {' '.join(part for part in said if part)}")
    return "\n\n".join(lines)


def shorten_conversation(text: str, limit: int = MAX_CONVERSATION) -> str:
    """Beginning and end of a text longer than `limit` characters: how it was opened, and how it went in the end."""
    if len(text) <= limit:
        return text
    half = max(0, limit - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[len(text) - half :]}"
