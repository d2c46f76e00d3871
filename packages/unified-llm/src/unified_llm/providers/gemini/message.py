"""Messages -> `systemInstruction` and `contents` of the Gemini API (section 7.3).

Pure but for reading local media files.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from unified_llm.provider_utils.media import check_size, guess_media_type, inline_media, normalize_media_type
from unified_llm.providers.gemini.models import ModelFeatures
from unified_llm.spec.errors import InvalidRequestError
from unified_llm.spec.messages import (
    AudioData,
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

UNSIGNED = "skip_thought_signature_validator"
"""Stands for the signature of a call that another provider's model made; the API documents it for this."""

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/heic", "image/heif")
_MAX_INLINE_BYTES = 100 * 1024 * 1024


class MessageTranslator:
    """Translates one conversation.

    `provider` names the entry of a part's `provider_metadata` that is ours: its fields go into the wire part as they
    are, so that a thought signature stays on the part it came on. What can't be carried but may be missing adds to
    `warnings`; what may not be missing raises InvalidRequestError.
    """

    def __init__(self, provider: str, warnings: list[Warning], features: ModelFeatures) -> None:
        self._provider = provider
        self._warnings = warnings
        self._features = features
        self._calls: dict[str, _Json] = {}  # the wire calls so far, by the ids that results refer to
        self._answers: dict[str, _Json | None] = {}  # the results of the latest turn, in the order of its calls
        self._shown: list[_Json] = []  # images of those results, where the results themselves can't hold them

    def translate(self, messages: Sequence[Message]) -> tuple[list[_Json], list[_Json]]:
        """The parts of the system instruction, and the contents.

        The results of a turn's calls stand together right behind it and in the order of the calls, whatever was said
        in between: else they are refused.
        """
        instructions: list[_Json] = []
        contents: list[_Json] = []
        self._open_turn(contents)
        for message in messages:
            match message.role:
                case Role.SYSTEM | Role.DEVELOPER:
                    instructions.extend(self._instructions(message))
                case Role.ASSISTANT:
                    self._close_turn()
                    contents.append({"role": "model", "parts": self._model_parts(message)})
                    self._open_turn(contents)
                case _:
                    contents.append({"role": "user", "parts": self._user_parts(message)})
        self._close_turn()
        return instructions, [content for content in contents if content["parts"]]

    def _open_turn(self, contents: list[_Json]) -> None:
        self._results: list[_Json] = []
        self._shown = []
        contents += [{"role": "user", "parts": self._results}, {"role": "user", "parts": self._shown}]

    def _close_turn(self) -> None:
        self._results.extend(answer for answer in self._answers.values() if answer is not None)
        self._answers = {}

    def _instructions(self, message: Message) -> list[_Json]:
        parts = []
        for part in message.content:
            if part.kind == ContentKind.TEXT and part.text is not None:
                parts.append({"text": part.text})
            else:
                self._warn(f"instructions can only be text: a part of kind {part.kind} was left out", "system_part")
        return parts

    def _user_parts(self, message: Message) -> list[_Json]:
        parts = []
        for part in message.content:
            if part.tool_result is not None:
                self._answers[part.tool_result.tool_call_id] = self._function_response(part.tool_result)
            elif (wire := self._part(part)) is not None:
                parts.append(wire)
        return parts

    def _model_parts(self, message: Message) -> list[_Json]:
        parts = [wire for part in message.content if (wire := self._part(part)) is not None]
        # A turn's calls are signed by the first of them; one without is refused, unless it says why.
        first_call = next((part for part in parts if "functionCall" in part), None)
        if first_call is not None and self._features.signed_calls:
            first_call.setdefault("thoughtSignature", UNSIGNED)
        return parts

    def _part(self, part: ContentPart) -> _Json | None:
        own = self._own_fields(part)
        match part:
            case ContentPart(kind=ContentKind.TEXT, text=text) if text is not None:
                return {"text": text, **(own or {})} if text.strip() or own else None
            case ContentPart(thinking=ThinkingData() as thinking):
                if own is not None:
                    return {"text": thinking.text, "thought": True, **own}
                self._warn("reasoning of another provider can't be verified here and was left out", "foreign_thinking")
                return None
            case ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData() as call):
                return self._function_call(call, own or {})
            case ContentPart(kind=ContentKind.IMAGE, image=ImageData() as image):
                return {**_image(image), **(own or {})}
            case ContentPart(kind=ContentKind.AUDIO, audio=AudioData() as audio):
                return {**_media(audio), **(own or {})}
            case ContentPart(kind=ContentKind.DOCUMENT, document=DocumentData() as document):
                return {**_media(document), **(own or {})}
        if own is None:
            self._warn(f"a part of kind {part.kind} belongs to another provider and was left out", "foreign_part")
        return own

    def _function_call(self, call: ToolCallData, own: _Json) -> _Json:
        arguments, error = (
            (call.arguments, None) if isinstance(call.arguments, dict) else parse_arguments(call.arguments)
        )
        # The part needs an object; the model should still see what it wrote.
        arguments = {"invalid_json": call.arguments} if error else arguments
        wire = {"name": call.name, "args": arguments, **own.get("functionCall", {})}
        self._calls[call.id] = wire
        self._answers[call.id] = None
        return {**own, "functionCall": wire}

    def _function_response(self, result: ToolResultData) -> _Json:
        call = self._calls[result.tool_call_id]
        if result.is_error:
            response = {"error": result.content or "The tool failed without a message."}
        else:
            response = result.content if isinstance(result.content, dict) else {"result": result.content}
        wire: _Json = {"name": call["name"], "response": response}
        if "id" in call:
            wire["id"] = call["id"]
        if result.image_data is not None:
            image = _image(ImageData(data=result.image_data, media_type=result.image_media_type))
            if self._features.media_results:
                wire["parts"] = [image]
            else:
                self._shown += [{"text": f"The image that {call['name']} returned:"}, image]
        return {"functionResponse": wire}

    def _own_fields(self, part: ContentPart) -> _Json | None:
        own = (part.provider_metadata or {}).get(self._provider)
        return own if isinstance(own, dict) else None

    def _warn(self, message: str, code: str) -> None:
        warning = Warning(message=message, code=code)
        if warning not in self._warnings:
            self._warnings.append(warning)


def _image(image: ImageData) -> _Json:
    wire = _media(image)
    media_type = wire.get("inlineData", {}).get("mimeType", _IMAGE_TYPES[0])
    if media_type not in _IMAGE_TYPES:
        raise InvalidRequestError(
            f"the Gemini API takes no {media_type}: convert it to {' or '.join(_IMAGE_TYPES)} before sending"
        )
    return wire


def _media(media: ImageData | AudioData | DocumentData) -> _Json:
    inline = inline_media(media)
    if inline is None:
        return {"fileData": _file_data(media)}
    data, media_type = inline
    check_size(data, _MAX_INLINE_BYTES, media)
    # Taken as text only under its general name.
    media_type = "text/plain" if media_type == "application/json" else media_type
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _file_data(media: ImageData | AudioData | DocumentData) -> _Json:
    url = media.url or ""
    if not url.lower().startswith(("https:", "http:", "gs:")):
        raise InvalidRequestError(f"{url[:80]!r} is neither an address nor a local path nor a base64 data: URL")
    media_type = media.media_type or guess_media_type(urlsplit(url).path)
    known = {} if media_type == "application/octet-stream" else {"mimeType": normalize_media_type(media_type)}
    return {**known, "fileUri": url}
