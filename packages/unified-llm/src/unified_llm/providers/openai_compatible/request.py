"""Request -> the JSON body of `POST /chat/completions` (section 7.10). Pure but for reading local media files."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unified_llm.provider_utils.history import repair_history
from unified_llm.provider_utils.media import check_size, inline_media
from unified_llm.provider_utils.provider_options import own_options
from unified_llm.spec.errors import InvalidRequestError
from unified_llm.spec.messages import (
    AudioData,
    ContentKind,
    ContentPart,
    DocumentData,
    ImageData,
    Message,
    Role,
    ToolCallData,
    ToolResultData,
)
from unified_llm.spec.request import Request, ResponseFormat
from unified_llm.spec.response import Warning
from unified_llm.spec.tools import Tool, ToolChoice

# How a thinking part travelled, kept under `provider_metadata[provider]` so that it goes back the same way.
REASONING_FIELD = "field"  # the message field that held the text; "content" for a block of a content list
REASONING_DETAILS = "reasoning_details"  # opaque blocks, returned as they came
CALL_EXTRAS = "tool_call"  # fields of a tool call beyond the protocol's, such as Gemini's thought signature
MESSAGE_EXTRAS = "message"  # the same for the whole message

_Json = dict[str, Any]

# Of OpenAI, whose protocol it is (section 3.5 for images); servers may take less, and say so.
_MAX_IMAGE_BYTES = 20 * 1024 * 1024
_MAX_FILE_BYTES = 50 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What goes over the wire, and what could not be carried."""

    body: _Json
    headers: dict[str, str] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()


def build_request(request: Request, *, provider: str, stream: bool = False) -> WireRequest:
    """Translate `request`.

    `provider_options[provider]` is merged into the body last, so it can override any field; its `extra_headers`
    become HTTP headers. Raises InvalidRequestError for content that the protocol can't carry.
    """
    if not request.messages:
        raise InvalidRequestError("messages is empty; Chat Completions needs at least one message")
    history, repairs = repair_history(request.messages)
    warnings = list(repairs)
    body: _Json = {"model": request.model, "messages": _Translator(provider, warnings).translate(history)}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    options = own_options(request, provider)
    choice = request.tool_choice
    # Servers refuse a choice without tools; and without tools there is nothing to choose.
    if choice is not None and (request.tools or options.get("tools")):
        body["tool_choice"] = _tool_choice(choice)
    elif choice is not None and choice.mode in ("required", "named"):
        raise InvalidRequestError(f"tool_choice {choice.mode!r} needs tools, and the request has none")
    if request.response_format is not None and request.response_format.type != "text":
        body["response_format"] = _response_format(request.response_format)
    settings = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "stop": request.stop_sequences or None,
        "reasoning_effort": request.reasoning_effort,
    }
    body.update({key: value for key, value in settings.items() if value is not None})
    if request.metadata:
        warnings.append(_dropped("metadata is not part of what Chat Completions servers accept", "metadata_dropped"))
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    headers = dict(options.pop("extra_headers", None) or {})
    body.update(options)
    return WireRequest(body, headers, tuple(warnings))


class _Translator:
    """Messages of one request, with the warnings that they give rise to."""

    def __init__(self, provider: str, warnings: list[Warning]) -> None:
        self._provider = provider
        self._warnings = warnings

    def translate(self, messages: Sequence[Message]) -> list[_Json]:
        wire: list[_Json] = []
        images: list[_Json] = []  # of tool results; the results themselves can only be text
        behind_calls = 0  # where results go: servers want them right behind the calls, before anything said since
        for message in messages:
            if message.role is Role.TOOL:
                results = self._tool_results(message, images)
                wire[behind_calls:behind_calls] = results
                behind_calls += len(results)
            elif message.role is Role.ASSISTANT:
                if images:
                    wire[behind_calls:behind_calls] = _shown(images)
                    images = []
                wire.append(self._assistant(message))
                behind_calls = len(wire)
            else:
                wire.append(self._prompt(message))
        wire[behind_calls:behind_calls] = _shown(images)
        return wire

    def _prompt(self, message: Message) -> _Json:
        # Few of these servers know the developer role, and those that do treat system the same.
        role = "user" if message.role is Role.USER else "system"
        blocks = [block for part in message.content if (block := self._block(part)) is not None]
        content: str | list[_Json] = blocks
        # A plain string is what every server takes, the simple ones included.
        if role == "system":
            content = "\n\n".join(block["text"] for block in blocks if block["type"] == "text")
        elif len(blocks) == 1 and blocks[0]["type"] == "text":
            content = blocks[0]["text"]
        return _named({"role": role, "content": content}, message)

    def _block(self, part: ContentPart) -> _Json | None:
        match part:
            case ContentPart(kind=ContentKind.TEXT, text=text) if text is not None:
                return {"type": "text", "text": text}
            case ContentPart(kind=ContentKind.IMAGE, image=ImageData() as image):
                return _image(image)
            case ContentPart(kind=ContentKind.AUDIO, audio=AudioData() as audio):
                return _audio(audio)
            case ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData() as document):
                return _document(document)
        own = self._own(part)
        if own and not isinstance(part.kind, ContentKind):
            return own
        self._drop(part)
        return None

    def _assistant(self, message: Message) -> _Json:
        wire: _Json = {"role": "assistant", "content": None}
        blocks: list[_Json] = []
        calls: list[_Json] = []
        for part in message.content:
            own = self._own(part)
            if part.kind == ContentKind.TEXT:
                blocks.append({"type": "text", "text": part.text})
            elif part.kind == ContentKind.TOOL_CALL and part.tool_call is not None:
                calls.append({**_tool_call(part.tool_call), **own.get(CALL_EXTRAS, {})})
            elif part.kind == ContentKind.THINKING and part.thinking is not None and own:
                _add_reasoning(wire, blocks, part.thinking.text, own)
            elif own and not isinstance(part.kind, ContentKind):
                blocks.append(own)
                continue
            else:
                self._drop(part)
            wire.update(own.get(MESSAGE_EXTRAS, {}))
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        wire["content"] = blocks if len(texts) < len(blocks) else "".join(texts) or (None if calls else "")
        if calls:
            wire["tool_calls"] = calls
        return _named(wire, message)

    def _tool_results(self, message: Message, images: list[_Json]) -> list[_Json]:
        wire = []
        for part in message.content:
            result = part.tool_result
            if result is None:
                self._drop(part)
                continue
            content = _result_text(result)
            wire.append(_named({"role": "tool", "tool_call_id": result.tool_call_id, "content": content}, message))
            if result.image_data is not None:
                image = ImageData(data=result.image_data, media_type=result.image_media_type)
                images.append({"type": "text", "text": f"The image of tool result {result.tool_call_id}:"})
                images.append(_image(image))
        return wire

    def _own(self, part: ContentPart) -> _Json:
        own = part.provider_metadata.get(self._provider) if part.provider_metadata else None
        return own if isinstance(own, dict) else {}

    def _drop(self, part: ContentPart) -> None:
        warning = _dropped(f"{self._provider} can't take a part of kind {part.kind!s} here", "content_dropped")
        if part.kind in (ContentKind.THINKING, ContentKind.REDACTED_THINKING):
            warning = _dropped(f"{self._provider} can't verify reasoning of another provider", "reasoning_dropped")
        if warning not in self._warnings:
            self._warnings.append(warning)


def _shown(images: list[_Json]) -> list[_Json]:
    return [{"role": "user", "content": images}] if images else []


def _named(wire: _Json, message: Message) -> _Json:
    return wire if message.name is None else {**wire, "name": message.name}


def _dropped(reason: str, code: str) -> Warning:
    return Warning(message=f"{reason}; it was left out", code=code)


def _add_reasoning(wire: _Json, blocks: list[_Json], text: str, own: _Json) -> None:
    name = own.get(REASONING_FIELD)
    if name == "content":
        blocks.append({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
    elif name is not None:
        wire[name] = wire.get(name, "") + text
    if details := own.get(REASONING_DETAILS):
        wire[REASONING_DETAILS] = [*wire.get(REASONING_DETAILS, []), *details]


def _tool_call(call: ToolCallData) -> _Json:
    if call.type == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.raw_arguments or ""}}
    arguments = "{}"  # also for text that is no JSON object: servers that parse the history would refuse all of it
    if isinstance(call.arguments, dict) and call.arguments:
        # The model's own text where there is one, so that the server's prompt cache still matches.
        arguments = call.raw_arguments or json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _result_text(result: ToolResultData) -> str:
    content = result.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    # The protocol has no mark for failure, so the text has to say it.
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text}"
    return text


def _tool(tool: Tool) -> _Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> str | _Json:
    if choice.mode == "named":
        return {"type": "function", "function": {"name": choice.tool_name}}
    return choice.mode


def _response_format(response_format: ResponseFormat) -> _Json:
    if response_format.json_schema is None:
        return {"type": "json_object"}
    title = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(response_format.json_schema.get("title", "")))[:64]
    schema = {
        "name": title.strip("_") or "response",
        "schema": response_format.json_schema,
        "strict": response_format.strict,
    }
    return {"type": "json_schema", "json_schema": schema}


def _data_uri(data: str, media_type: str) -> str:
    return f"data:{media_type};base64,{data}"


def _image(image: ImageData) -> _Json:
    inline = inline_media(image)
    url = image.url
    if inline is not None:
        data, media_type = inline
        if not media_type.startswith("image/") or media_type == "image/svg+xml":
            raise InvalidRequestError(f"an image of type {media_type} can't be sent; use PNG, JPEG, GIF or WebP")
        check_size(data, _MAX_IMAGE_BYTES, image)
        url = _data_uri(data, media_type)
    detail = {} if image.detail is None else {"detail": image.detail}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


_AUDIO_FORMATS = {"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav", "x-m4a": "m4a", "mp4": "m4a"}


def _audio(audio: AudioData) -> _Json:
    inline = inline_media(audio)
    if inline is None:
        raise InvalidRequestError("Chat Completions takes audio only as bytes; load the URL and pass its data")
    data, media_type = inline
    check_size(data, _MAX_FILE_BYTES, audio)
    subtype = media_type.rpartition("/")[2]
    return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(subtype, subtype)}}


def _document(document: DocumentData) -> _Json:
    inline = inline_media(document)
    if inline is None:
        raise InvalidRequestError("Chat Completions takes documents only as bytes; load the URL and pass its data")
    data, media_type = inline
    check_size(data, _MAX_FILE_BYTES, document)
    name = document.file_name or f"document.{media_type.rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": _data_uri(data, media_type)}}
