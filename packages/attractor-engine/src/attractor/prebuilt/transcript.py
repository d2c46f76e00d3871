"""A conversation as a channel holds it, in plain JSON, and as a client sends it. Pure.

A message is `{"role", "content"}`. One of the assistant may have `tool_calls`, each `{"id", "name", "arguments"}`, and
`parts`: what a provider wants back as it came, such as signed reasoning. One of a tool has `tool_call_id`, `name` and
`is_error`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from unified_llm import ContentKind, ContentPart, Message, Response, Role, ToolCallData

_PLAIN = frozenset({ContentKind.TEXT, ContentKind.TOOL_CALL})


def to_messages(transcript: Sequence[Any]) -> list[Message]:
    """For a client; raises ValueError, which names the message, for what is none."""
    return [_to_message(number, record) for number, record in enumerate(transcript)]


def from_message(message: Message) -> dict[str, Any]:
    """What the model answered, for the transcript."""
    calls = [_from_call(part.tool_call) for part in message.content if part.tool_call is not None]
    record: dict[str, Any] = {"role": "assistant", "content": message.text}
    if calls:
        record["tool_calls"] = calls
    if any(part.kind not in _PLAIN or part.provider_metadata for part in message.content):
        record["parts"] = [part.model_dump(mode="json", exclude_none=True) for part in message.content]
    return record


def read_reply(reply: Any, turn: int) -> tuple[dict[str, Any], str]:
    """An answer as a message, and why it ended where a provider said so.

    It may be text, a message as above, or a Message or Response of unified_llm. Calls without an id get one. Raises
    TypeError or ValueError for anything else.
    """
    ended = ""
    match reply:
        case str():
            record: dict[str, Any] = {"role": "assistant", "content": reply}
        case Response():
            record, ended = from_message(reply.message), reply.finish_reason.reason
        case Message():
            record = from_message(reply)
        case Mapping():
            record = {"content": "", **reply, "role": "assistant"}
        case _:
            raise TypeError(f"a model must answer with text or a message, not {type(reply).__name__}")
    if calls := record.get("tool_calls"):
        record["tool_calls"] = [_read_call(requested, f"call_{turn}_{index}") for index, requested in enumerate(calls)]
    return record, ended


def _read_call(requested: Any, id: str) -> dict[str, Any]:
    if not isinstance(requested, Mapping) or not isinstance(requested.get("name"), str):
        raise ValueError("a tool call of a model's answer must be an object with a name")
    given = requested.get("arguments")
    arguments: Any = {} if given is None else given
    problem = str(requested.get("problem", ""))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            problem = problem or f"not valid JSON: {error}"
    if not isinstance(arguments, Mapping):
        problem = problem or f"they must be an object, not {type(arguments).__name__}"
    if problem:
        arguments = {}
    record = {"id": str(requested.get("id") or id), "name": requested["name"], "arguments": dict(arguments)}
    return record | ({"problem": problem, "raw": given if isinstance(given, str) else ""} if problem else {})


def _from_call(requested: ToolCallData) -> dict[str, Any]:
    read = requested.to_tool_call()
    record: dict[str, Any] = {"id": read.id, "name": read.name, "arguments": read.arguments}
    if read.parse_error:
        record |= {"problem": read.parse_error, "arguments": read.raw_arguments or ""}
    return record


def _to_message(number: int, record: Any) -> Message:
    try:
        role = Role(record["role"])
        if role is Role.TOOL:
            return Message.tool_result(
                record["tool_call_id"], record["content"], is_error=bool(record.get("is_error", False))
            )
        if record.get("parts"):
            return Message(role=role, content=[ContentPart.model_validate(part) for part in record["parts"]])
        content = record.get("content") or ""
        parts = [ContentPart(kind=ContentKind.TEXT, text=content)] if isinstance(content, str) else list(content)
        calls = record.get("tool_calls") or ()
        if calls and content == "":
            parts = []
        parts += [ContentPart(kind=ContentKind.TOOL_CALL, tool_call=_to_call(requested)) for requested in calls]
        return Message.model_validate({"role": role, "content": parts})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"message {number} of the transcript is none: {type(error).__name__}: {error}") from error


def _to_call(requested: Mapping[str, Any]) -> ToolCallData:
    arguments = requested.get("raw") or requested["arguments"]
    return ToolCallData(id=requested["id"], name=requested["name"], arguments=arguments)
