"""Output items of the Responses API -> content parts (section 7.5). Pure."""

import base64
import binascii
import json
import uuid
from typing import Any

from unified_llm.provider_utils.unicode_text import whole_characters
from unified_llm.provider_utils.wire_values import read_list, read_name
from unified_llm.providers.openai.message import REASONING_ID
from unified_llm.spec.messages import ContentKind, ContentPart, ImageData, ThinkingData, ToolCallData

_Json = dict[str, Any]

_OUR_KINDS = frozenset(kind.value for kind in ContentKind)


def parse_item(item: _Json, provider: str, reasoning_id: str | None = None) -> list[ContentPart]:
    """The parts of one output item, which goes back to the provider as it came.

    A message has a part for each of its texts, reasoning a part for each piece of it that can be read and one with
    empty text if there is none. What we don't model (built-in tools and their results) is kept whole under its own
    kind. `reasoning_id` is that of the reasoning item before this one, without which this one would be refused.
    """
    after = {} if reasoning_id is None else {REASONING_ID: reasoning_id}
    match item:
        case {"type": "message", "content": list(blocks), **extra}:
            return [_block(block, {**_without(extra, "role"), **after}, provider) for block in blocks]
        case {"type": "reasoning"}:
            return _reasoning(item, provider)
        case {"type": "function_call", "name": str(name), **extra}:
            call = ToolCallData.from_text(call_id_of(item), name, written_text(item.get("arguments")))
            return [_call(call, {**_without(extra, "call_id", "arguments"), **after}, provider)]
        case {"type": "custom_tool_call", "name": str(name), **extra}:
            text = written_text(item.get("input"))
            call = ToolCallData(id=call_id_of(item), name=name, arguments=text, type="custom", raw_arguments=text)
            return [_call(call, {**_without(extra, "call_id", "input"), **after}, provider)]
        case {"type": "image_generation_call", "result": str(result)}:
            return [_image(item, result, provider, after)]
        case _:
            return [_own_kind({**item, **after}, provider)]


def reasoning_id_after(item: _Json, before: str | None) -> str | None:
    """The id of the reasoning that the items after this one depend on."""
    return item.get("id") if item.get("type") == "reasoning" else before


def call_id_of(item: _Json) -> str:
    """The id of a tool call; a new one if the server gave it none."""
    return read_name(item.get("call_id"), item.get("id")) or f"call_{uuid.uuid4().hex}"


def written_text(value: Any) -> str:
    """What the model wrote for a tool. Some servers send it parsed."""
    if value is None:
        return ""
    return whole_characters(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _block(block: _Json, own: _Json, provider: str) -> ContentPart:
    match block:
        case {"type": "output_text", "text": text, **extra} if isinstance(text, str):
            # Probabilities are long, are in `raw`, and mean nothing to the model.
            content = {"type": "output_text", "annotations": [], **_without(extra, "logprobs")}
        case {"type": "refusal", "refusal": str(text), **extra}:
            content = {"type": "refusal", **extra}
        case _:
            return _own_kind(block, provider)
    metadata = {provider: {**own, "content": content}}
    return ContentPart(kind=ContentKind.TEXT, text=whole_characters(text), provider_metadata=metadata)


def _call(call: ToolCallData, own: _Json, provider: str) -> ContentPart:
    return ContentPart(kind=ContentKind.TOOL_CALL, tool_call=call, provider_metadata={provider: own})


def _reasoning(item: _Json, provider: str) -> list[ContentPart]:
    pieces = [*read_list(item.get("summary")), *read_list(item.get("content"))]
    # Some servers send the pieces as plain texts.
    written = (piece.get("text") if isinstance(piece, dict) else piece for piece in pieces)
    texts = [whole_characters(text) for text in written if isinstance(text, str)] or [""]
    # The item goes back once, with the last of its parts.
    metadata = [*({provider: {"id": item.get("id")}} for _ in texts[1:]), {provider: item}]
    return [
        ContentPart(kind=ContentKind.THINKING, thinking=ThinkingData(text=text), provider_metadata=own)
        for text, own in zip(texts, metadata, strict=True)
    ]


def _image(item: _Json, result: str, provider: str, after: _Json) -> ContentPart:
    try:
        data = base64.b64decode(result, validate=True)
    except binascii.Error:
        return _own_kind({**item, **after}, provider)
    image = ImageData(data=data, media_type=f"image/{item.get('output_format') or 'png'}")
    own = {**_without(item, "result"), **after}
    return ContentPart(kind=ContentKind.IMAGE, image=image, provider_metadata={provider: own})


def _own_kind(wire: _Json, provider: str) -> ContentPart:
    kind = str(wire.get("type"))
    # An item of a known name in an unknown shape must not be taken for the kind of that name.
    kind = f"{provider}.{kind}" if kind in _OUR_KINDS else kind
    return ContentPart(kind=kind, provider_metadata={provider: wire})


def _without(fields: _Json, *names: str) -> _Json:
    return {key: value for key, value in fields.items() if key not in names}
