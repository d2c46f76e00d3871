"""Repairs that every provider needs before a history is sent again. Pure.

Providers refuse a conversation in which a tool call has no result, a result has no call, or a text is empty. Such
histories come from cancelled runs and trimmed contexts.
"""

from collections.abc import Sequence

from unified_llm.spec.messages import ContentKind, ContentPart, Message, Role, ToolResultData
from unified_llm.spec.response import Warning

# Before Python 3.12, looking up a member of an enumeration takes longer than all that is done with it here.
_ASSISTANT, _TOOL, _TEXT = Role.ASSISTANT, Role.TOOL, ContentKind.TEXT

MISSING_RESULT = "No result: the tool call was interrupted."


def repair_history(messages: Sequence[Message]) -> tuple[list[Message], list[Warning]]:
    """The messages made consistent, and a Warning for every repair.

    A call that isn't answered before the next assistant message gets an error result; a result that answers no open
    call is dropped; blank text is dropped, and with it a message that has nothing else. Results stay where they are.
    A tool message of plain text is the result for its `tool_call_id`.
    """
    repair = _Repair()
    for message in messages:
        repair.add(message)
    repair.answer_open_calls()
    return repair.messages, repair.warnings


class _Repair:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.warnings: list[Warning] = []
        self._open: dict[str, int] = {}
        """Ids of calls without a result yet, and where the answer to them goes."""

    def add(self, message: Message) -> None:
        if message.role is _ASSISTANT:
            self.answer_open_calls()
        elif message.role is _TOOL:
            message = _as_result(message)
        content = message.content
        if len(content) == 1 and content[0].kind == _TEXT and content[0].text and not content[0].text.isspace():
            # What most messages are needs no repair.
            self.messages.append(message)
            return
        content = [part for part in content if self._keep(part)]
        if not content:
            if not message.content:
                self._warn("a message without content was left out", "empty_message")
            return
        if len(content) < len(message.content):
            message = message.model_copy(update={"content": content})
        self.messages.append(message)
        for part in content:
            if part.tool_call is not None:
                self._open[part.tool_call.id] = len(self.messages)
            elif part.tool_result is not None:
                self._keep_after(len(self.messages))

    def answer_open_calls(self) -> None:
        """Put an error result behind the results that the calls already have."""
        if not self._open:
            return
        for call_id, position in reversed(self._open.items()):
            result = ToolResultData(tool_call_id=call_id, content=MISSING_RESULT, is_error=True)
            part = ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=result)
            self.messages.insert(position, Message(role=Role.TOOL, content=[part], tool_call_id=call_id))
        for call_id in self._open:
            self._warn(f"the tool call {call_id} had no result and was answered with an error", "missing_tool_result")
        self._open.clear()

    def _keep(self, part: ContentPart) -> bool:
        if part.kind == _TEXT:
            if (part.text and not part.text.isspace()) or part.provider_metadata:
                return True
            self._warn("a blank text part was left out", "empty_text")
            return False
        if part.tool_result is not None:
            call_id = part.tool_result.tool_call_id
            if self._open.pop(call_id, None) is None:
                self._warn(f"a result for the unknown tool call {call_id} was left out", "orphan_tool_result")
                return False
        return True

    def _keep_after(self, position: int) -> None:
        for call_id in self._open:
            self._open[call_id] = position

    def _warn(self, message: str, code: str) -> None:
        self.warnings.append(Warning(message=message, code=code))


def _as_result(message: Message) -> Message:
    if message.tool_call_id is None or any(part.tool_result is not None for part in message.content):
        return message
    result = ToolResultData(tool_call_id=message.tool_call_id, content=message.text)
    others = [part for part in message.content if part.kind != ContentKind.TEXT]
    content = [ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=result), *others]
    return message.model_copy(update={"content": content})
