"""Telling what an agent is doing while it does it, and stopping it when the run's budget is used up."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from agent_loop import EventKind, Session, SessionEvent
from unified_llm import cost_of

from attractor.state.context import Context
from attractor.state.usage import TokenUsage

_LONGEST = 160


class SessionWatch:
    """Watches one session. `refused` is why it was stopped; empty if it was not."""

    def __init__(self, context: Context, model: str) -> None:
        self._context = context
        self._model = model
        self.refused = ""

    async def follow(self, session: Session) -> None:
        """Tell of each event until the session ends, or must be stopped: between two model calls, not within one."""
        async with aclosing(session.events()) as events:
            async for event in events:
                if told := describe(event):
                    self._context.run.tell(*told)
                if event.kind is EventKind.ASSISTANT_TEXT_END and self._is_over_budget(session):
                    await session.abort()
                    return

    def _is_over_budget(self, session: Session) -> bool:
        used = session.total_usage
        usage = TokenUsage(
            input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost=cost_of(used, self._model)
        )
        self.refused = self._context.run.refuse_more(usage)
        return bool(self.refused)


def describe(event: SessionEvent) -> tuple[str, str] | None:
    """Kind and text of what is worth telling: calls of tools and whole answers, never their pieces."""
    data = event.data
    match event.kind:
        case EventKind.TOOL_CALL_START:
            return "tool_start", _shorten(f"{data['tool_name']} {_summarize(data['arguments'])}")
        case EventKind.TOOL_CALL_END:
            return "tool_end", f"{data['tool_name']}{' failed' if data['is_error'] else ''}"
        case EventKind.ASSISTANT_TEXT_END if data["text"].strip():
            return "text", _shorten(data["text"])
    return None


def _summarize(arguments: Any) -> str:
    """What a tool is called with: its shortest text, which is a command or a path rather than a file's content."""
    if not isinstance(arguments, Mapping):
        return ""
    return min((value for value in arguments.values() if isinstance(value, str) and value), key=len, default="")


def _shorten(text: str) -> str:
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
