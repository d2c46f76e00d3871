"""Messages -> `instructions` and `input` of the Responses API (section 7.3). Pure but for reading local media files."""

import base64
import hashlib
import json
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
    ToolCallData,
    ToolResultData,
)
from unified_llm.spec.response import Warning

_Json = dict[str, Any]

REASONING_ID = "reasoning_id"
"""The key under a part's metadata that names the reasoning item the part came after. It is ours, not the wire's."""

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_IMAGE_BYTES = 20 * 1024 * 1024  # section 3.5
_MAX_FILE_BYTES = 50 * 1024 * 1024
_LONGEST_CALL_ID = 64


class MessageTranslator:
    """Translates one conversation.

    `provider` names the entry of a part's `provider_metadata` that is ours: the fields that the part's item had. What
    can't be carried but may be missing adds to `warnings`; what may not be missing raises InvalidRequestError.
    """

    def __init__(self, provider: str, warnings: list[Warning]) -> None:
        self._provider = provider
        self._warnings = warnings
        self._custom_calls: set[str] = set()

    def translate(self, messages: Sequence[Message]) -> tuple[str | None, list[_Json]]:
        """The instructions, and the items in the order of the messages."""
        instructions: list[str] = []
        items: list[_Json] = []
        for message in messages:
            match message.role:
                case Role.SYSTEM:
                    instructions.extend(self._instructions(message))
                case Role.ASSISTANT:
                    self._assistant(message, items)
                case _:
                    self._prompt(message, items)
        return "\n\n".join(instructions) or None, items

    def _instructions(self, message: Message) -> list[str]:
        texts = []
        for part in message.content:
            if part.kind == ContentKind.TEXT and part.text is not None:
                texts.append(part.text)
            else:
                self._warn(f"instructions can only be text: a part of kind {part.kind} was left out", "system_part")
        return texts

    def _prompt(self, message: Message, items: list[_Json]) -> None:
        """What a user, the application or a tool says."""
        content: list[_Json] = []
        for part in message.content:
            if part.tool_result is not None:
                items.append({**self._tool_output(part.tool_result), **(self._own_fields(part) or {})})
            elif (block := self._content(part)) is not None:
                (content if block["type"].startswith("input_") else items).append(block)
        if content:
            role = "developer" if message.role is Role.DEVELOPER else "user"
            items.append({"type": "message", "role": role, "content": content})

    def _content(self, part: ContentPart) -> _Json | None:
        match part:
            case ContentPart(kind=ContentKind.TEXT, text=text) if text is not None:
                return {"type": "input_text", "text": text}
            case ContentPart(kind=ContentKind.IMAGE, image=ImageData() as image):
                return _image(image)
            case ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData() as document):
                return _document(document)
            case ContentPart(kind=ContentKind.AUDIO):
                raise InvalidRequestError("the Responses API takes no audio; send a transcript instead")
            case _:
                return self._own_kind(part)

    def _tool_output(self, result: ToolResultData) -> _Json:
        custom = result.tool_call_id in self._custom_calls
        text = result.content if isinstance(result.content, str) else json.dumps(result.content, ensure_ascii=False)
        # The protocol has no mark for failure, so the text has to say it.
        if result.is_error and not text.lower().startswith("error"):
            text = f"Error: {text}"
        output: str | list[_Json] = text
        if result.image_data is not None:
            image = ImageData(data=result.image_data, media_type=result.image_media_type)
            output = [*([{"type": "input_text", "text": text}] if text else ()), _image(image)]
        return {
            "type": "custom_tool_call_output" if custom else "function_call_output",
            "call_id": _wire_id(result.tool_call_id),
            "output": output,
        }

    def _assistant(self, message: Message, items: list[_Json]) -> None:
        start = len(items)
        thoughts = {own.get("id") for part in message.content if _is_reasoning(own := self._own_fields(part) or {})}
        for part in message.content:
            own = dict(self._own_fields(part) or {})
            # An item that was thought about is refused without its thoughts, unless it goes without its id.
            alone = (thought := own.pop(REASONING_ID, None)) is not None and thought not in thoughts
            match part:
                case ContentPart(kind=ContentKind.TEXT, text=text) if text is not None:
                    _add_text(text, _without_id(own) if alone else own, items, start)
                case ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData() as call):
                    items.append({**self._tool_call(call), **(_without_id(own) if alone else own)})
                case ContentPart(kind=ContentKind.THINKING | ContentKind.REDACTED_THINKING):
                    if _is_reasoning(own):
                        items.append(own)
                    elif not own:
                        self._warn(
                            "reasoning of another provider can't be verified here and was left out", "foreign_thinking"
                        )
                case _ if own and alone:
                    self._warn(f"a {part.kind} can't go without its reasoning and was left out", "orphan_item")
                case ContentPart(kind=ContentKind.IMAGE, image=ImageData(data=bytes() as data)) if own:
                    items.append({**own, "result": base64.b64encode(data).decode("ascii")})
                case ContentPart(kind=ContentKind.IMAGE | ContentKind.AUDIO | ContentKind.DOCUMENT):
                    self._warn(f"an assistant's {part.kind} can't be sent back and was left out", "assistant_media")
                case _ if own:
                    items.append({"type": str(part.kind), **own})
                case _:
                    self._own_kind(part)

    def _tool_call(self, call: ToolCallData) -> _Json:
        if call.type == "custom":
            self._custom_calls.add(call.id)
            text = call.raw_arguments if call.raw_arguments is not None else str(call.arguments)
            return {"type": "custom_tool_call", "call_id": _wire_id(call.id), "name": call.name, "input": text}
        arguments = "{}"  # also for text that is no JSON object: the history as a whole would be refused
        if isinstance(call.arguments, dict) and call.arguments:
            # The model's own text where there is one, so that the provider's prompt cache still matches.
            arguments = call.raw_arguments or json.dumps(call.arguments, ensure_ascii=False)
        return {"type": "function_call", "call_id": _wire_id(call.id), "name": call.name, "arguments": arguments}

    def _own_kind(self, part: ContentPart) -> _Json | None:
        own = self._own_fields(part)
        if own is None:
            self._warn(f"a part of kind {part.kind} belongs to another provider and was left out", "foreign_part")
            return None
        return {"type": str(part.kind), **own}

    def _own_fields(self, part: ContentPart) -> _Json | None:
        own = part.provider_metadata.get(self._provider) if part.provider_metadata else None
        return own if isinstance(own, dict) else None

    def _warn(self, message: str, code: str) -> None:
        warning = Warning(message=message, code=code)
        if warning not in self._warnings:
            self._warnings.append(warning)


def _is_reasoning(own: _Json) -> bool:
    """Whether these are the fields of a whole reasoning item, which stand at the last part of its text."""
    return own.get("type") == "reasoning"


def _without_id(own: _Json) -> _Json:
    return {key: value for key, value in own.items() if key != "id"}


def _add_text(text: str, own: _Json, items: list[_Json], start: int) -> None:
    """Add what a model said: to the item it came in, if that is the last one of this message."""
    content = own.get("content") or {"type": "output_text", "annotations": []}
    block = {**content, "refusal" if content["type"] == "refusal" else "text": text}
    last = items[-1] if len(items) > start else {}
    # The position serves as an id where there is none: what a model said is only taken back with one.
    if last.get("role") == "assistant" and last["id"] == own.get("id", f"msg_{len(items) - 1}"):
        last["content"].append(block)
    else:
        item = {"type": "message", "id": f"msg_{len(items)}", "role": "assistant", "status": "completed"}
        items.append({**item, **own, "content": [block]})


def _wire_id(call_id: str) -> str:
    """Ids of other providers may be longer than is accepted here."""
    if len(call_id) <= _LONGEST_CALL_ID:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def _image(image: ImageData) -> _Json:
    return {"type": "input_image", "image_url": _image_url(image), "detail": image.detail or "auto"}


def _image_url(image: ImageData) -> str:
    inline = inline_media(image)
    if inline is None:
        return _web_address(image.url or "")
    data, media_type = inline
    if media_type not in _IMAGE_TYPES:
        raise InvalidRequestError(
            f"the Responses API takes no {media_type}: convert it to {' or '.join(_IMAGE_TYPES)} before sending"
        )
    check_size(data, _MAX_IMAGE_BYTES, image)
    return f"data:{media_type};base64,{data}"


def _document(document: DocumentData) -> _Json:
    inline = inline_media(document)
    if inline is None:
        return {"type": "input_file", "file_url": _web_address(document.url or "")}
    data, media_type = inline
    check_size(data, _MAX_FILE_BYTES, document)
    name = document.file_name or f"document.{media_type.rpartition('/')[2]}"
    return {"type": "input_file", "filename": name, "file_data": f"data:{media_type};base64,{data}"}


def _web_address(url: str) -> str:
    if not url.lower().startswith(("https:", "http:")):
        raise InvalidRequestError(f"{url[:80]!r} is neither a web address nor a local path nor a base64 data: URL")
    return url
