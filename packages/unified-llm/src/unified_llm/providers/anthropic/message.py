"""Messages -> `system` and `messages` of the Messages API (section 7.3). Pure but for reading local media files."""

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

from unified_llm.provider_utils.media import check_size, inline_media
from unified_llm.spec.errors import InvalidRequestError
from unified_llm.spec.messages import (
    ContentKind,
    ContentPart,
    DocumentData,
    ImageData,
    Message,
    Role,
    ThinkingData,
    ToolCallData,
    ToolResultData,
)
from unified_llm.spec.response import Warning
from unified_llm.spec.tools import parse_arguments

_Json = dict[str, Any]

# Before Python 3.12, looking up a member of an enumeration takes longer than all that is done with it here.
_ASSISTANT, _INSTRUCTIONS = Role.ASSISTANT, (Role.SYSTEM, Role.DEVELOPER)
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
# The API counts the base64 text: 5 MiB for an image (section 3.5), 32 MB for a whole request.
_MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
_MAX_DOCUMENT_BYTES = 32_000_000 * 3 // 4


class MessageTranslator:
    """Translates one conversation.

    `provider` names the entry of a part's `provider_metadata` that is ours: its fields go into the wire block as they
    are. What can't be carried but may be missing adds to `warnings`; what may not be missing raises
    InvalidRequestError.
    """

    def __init__(self, provider: str, warnings: list[Warning]) -> None:
        self._provider = provider
        self._warnings = warnings

    def translate(self, messages: Sequence[Message]) -> tuple[list[_Json], list[_Json]]:
        """The system blocks, and the turns: strictly alternating, tool results first in a user's turn."""
        system: list[_Json] = []
        turns: list[_Json] = []
        for message in messages:
            if message.role in _INSTRUCTIONS:
                system.extend(self._system(message))
                continue
            role = "assistant" if message.role is _ASSISTANT else "user"
            blocks = [block for part in message.content if (block := self._block(part, role)) is not None]
            if blocks and turns and turns[-1]["role"] == role:
                turns[-1]["content"].extend(blocks)
            elif blocks:
                turns.append({"role": role, "content": blocks})
        for turn in turns:
            if turn["role"] == "user" and len(turn["content"]) > 1:
                turn["content"].sort(key=lambda block: block["type"] != "tool_result")
        if turns and turns[-1]["role"] == "assistant" and turns[-1]["content"][-1]["type"] == "text":
            # An answer to be continued may not end in white space.
            last = turns[-1]["content"][-1]
            last["text"] = last["text"].rstrip()
        return system, turns

    def _system(self, message: Message) -> list[_Json]:
        blocks = []
        for part in message.content:
            if part.kind == ContentKind.TEXT:
                blocks.append(self._with_own_fields({"type": "text", "text": part.text}, part))
            else:
                self._warn(f"instructions can only be text: a part of kind {part.kind} was left out", "system_part")
        return blocks

    def _block(self, part: ContentPart, role: str) -> _Json | None:
        match part:
            case ContentPart(kind=ContentKind.TEXT, text=text) if text is not None:
                block: _Json | None = {"type": "text", "text": text} if text.strip() else None
            case ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData() as call):
                block = _tool_use(call)
            case ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=ToolResultData() as result):
                block = _tool_result(result)
            case ContentPart(thinking=ThinkingData() as thinking):
                block = self._thinking(part, thinking)
            case ContentPart(kind=ContentKind.IMAGE | ContentKind.DOCUMENT) if role == "assistant":
                self._warn(f"an assistant's {part.kind} can't be sent back and was left out", "assistant_media")
                block = None
            case ContentPart(kind=ContentKind.IMAGE, image=ImageData() as image):
                block = {"type": "image", "source": _image_source(image)}
            case ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData() as document):
                block = _document(document)
            case ContentPart(kind=ContentKind.AUDIO):
                raise InvalidRequestError("the Messages API takes no audio; send a transcript instead")
            case _:
                block = self._own_kind(part)
        return None if block is None else self._with_own_fields(block, part)

    def _thinking(self, part: ContentPart, thinking: ThinkingData) -> _Json | None:
        # Without metadata the signature vouches for the origin; a foreign or unsigned thought would be refused.
        ours = self._own_fields(part) is not None
        if not ours and (part.provider_metadata or (thinking.signature is None and not thinking.redacted)):
            self._warn("reasoning of another provider can't be verified here and was left out", "foreign_thinking")
            return None
        if thinking.redacted or part.kind == ContentKind.REDACTED_THINKING:
            return {"type": "redacted_thinking", "data": thinking.text}
        return {"type": "thinking", "thinking": thinking.text, "signature": thinking.signature or ""}

    def _own_kind(self, part: ContentPart) -> _Json | None:
        if self._own_fields(part) is None:
            self._warn(f"a part of kind {part.kind} belongs to another provider and was left out", "foreign_part")
            return None
        return {"type": str(part.kind)}

    def _own_fields(self, part: ContentPart) -> _Json | None:
        own = part.provider_metadata.get(self._provider) if part.provider_metadata else None
        return own if isinstance(own, dict) else None

    def _with_own_fields(self, block: _Json, part: ContentPart) -> _Json:
        return block if part.provider_metadata is None else {**block, **(self._own_fields(part) or {})}

    def _warn(self, message: str, code: str) -> None:
        warning = Warning(message=message, code=code)
        if warning not in self._warnings:
            self._warnings.append(warning)


def _tool_use(call: ToolCallData) -> _Json:
    if isinstance(call.arguments, dict):
        arguments = call.arguments
    else:
        arguments, error = parse_arguments(call.arguments)
        # The block needs an object; the model should still see what it wrote.
        arguments = {"invalid_json": call.arguments} if error else arguments
    return {"type": "tool_use", "id": _wire_id(call.id), "name": call.name, "input": arguments}


def _tool_result(result: ToolResultData) -> _Json:
    text = result.content if isinstance(result.content, str) else json.dumps(result.content, default=str)
    block: _Json = {"type": "tool_result", "tool_use_id": _wire_id(result.tool_call_id)}
    if result.is_error:
        text = text or "The tool failed without a message."
        block["is_error"] = True
    if result.image_data is None:
        return {**block, "content": text}
    image = ImageData(data=result.image_data, media_type=result.image_media_type)
    content = [{"type": "text", "text": text}] if text.strip() else []
    return {**block, "content": [*content, {"type": "image", "source": _image_source(image)}]}


def _wire_id(call_id: str) -> str:
    """Ids of other providers may hold characters that are refused here."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "_"


def _image_source(image: ImageData) -> _Json:
    inline = inline_media(image)
    if inline is None:
        return _url_source(image.url or "")
    data, media_type = inline
    check_size(data, _MAX_IMAGE_BYTES, image)
    return _base64_source(data, media_type, _IMAGE_TYPES)


def _document(document: DocumentData) -> _Json:
    block: _Json = {"type": "document", "source": _document_source(document)}
    if document.file_name:
        block["title"] = document.file_name
    return block


def _document_source(document: DocumentData) -> _Json:
    inline = inline_media(document)
    if inline is None:
        return _url_source(document.url or "")
    data, media_type = inline
    check_size(data, _MAX_DOCUMENT_BYTES, document)
    if media_type.startswith("text/") or media_type in ("application/json", "application/xml"):
        text = base64.b64decode(data).decode("utf-8", "replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return _base64_source(data, media_type, ("application/pdf",))


def _url_source(url: str) -> _Json:
    if not url.lower().startswith(("https:", "http:")):
        raise InvalidRequestError(f"{url[:80]!r} is neither a web address nor a local path nor a base64 data: URL")
    return {"type": "url", "url": url}


def _base64_source(data: str, media_type: str, allowed: Sequence[str]) -> _Json:
    if media_type not in allowed:
        raise InvalidRequestError(
            f"the Messages API takes no {media_type}: convert it to {' or '.join(allowed)} before sending"
        )
    return {"type": "base64", "media_type": media_type, "data": data}
