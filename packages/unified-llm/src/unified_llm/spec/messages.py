"""Conversations: messages made of tagged content parts (sections 3.1 to 3.5)."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from unified_llm.spec.record import Record
from unified_llm.spec.tools import ToolCall, parse_arguments


class Role(StrEnum):
    """Who speaks (section 3.2)."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DEVELOPER = "developer"


class ContentKind(StrEnum):
    """What a part holds (section 3.4). Parts may carry other kinds too, as plain strings."""

    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    DOCUMENT = "document"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    THINKING = "thinking"
    REDACTED_THINKING = "redacted_thinking"


class _Media(Record):
    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.url is None) == (self.data is None):
            raise ValueError("exactly one of url and data must be given")
        return self


class ImageData(_Media):
    """An image by URL, by local path (a `url` that starts with `/`, `./` or `~`) or as bytes (section 3.5).

    `media_type` of bytes defaults to `image/png`. `detail` is a hint: "auto", "low" or "high".
    """

    detail: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_media_type(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("data") is not None and value.get("media_type") is None:
            return {**value, "media_type": "image/png"}
        return value


class AudioData(_Media):
    """Audio by URL or as bytes; `media_type` such as "audio/wav"."""


class DocumentData(_Media):
    """A document by URL or as bytes; `media_type` such as "application/pdf"."""

    file_name: str | None = None


class ToolCallData(Record):
    """A call as it stands in a message. `arguments` is the parsed object, or the text where it doesn't parse."""

    id: str
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    type: str = "function"
    raw_arguments: str | None = None

    @classmethod
    def from_text(cls, id: str, name: str, raw: str) -> Self:
        """A call out of the argument text a provider sent; blank text means no arguments."""
        arguments, error = parse_arguments(raw)
        return cls(id=id, name=name, arguments=raw if error else arguments, raw_arguments=raw)

    def to_tool_call(self) -> ToolCall:
        """The call as a host executes it."""
        if isinstance(self.arguments, dict):
            return ToolCall(id=self.id, name=self.name, arguments=self.arguments, raw_arguments=self.raw_arguments)
        arguments, error = parse_arguments(self.arguments)
        return ToolCall(
            id=self.id, name=self.name, arguments=arguments, raw_arguments=self.arguments, parse_error=error
        )


class ToolResultData(Record):
    """A tool's answer to one call."""

    tool_call_id: str
    content: str | dict[str, Any] | list[Any]
    is_error: bool = False
    image_data: bytes | None = None
    image_media_type: str | None = None


class ThinkingData(Record):
    """Reasoning. `signature` and redacted content are opaque and go back to the provider exactly as they came."""

    text: str
    signature: str | None = None
    redacted: bool = False


_FIELD_OF_KIND = {
    ContentKind.TEXT: "text",
    ContentKind.IMAGE: "image",
    ContentKind.AUDIO: "audio",
    ContentKind.DOCUMENT: "document",
    ContentKind.TOOL_CALL: "tool_call",
    ContentKind.TOOL_RESULT: "tool_result",
    ContentKind.THINKING: "thinking",
    ContentKind.REDACTED_THINKING: "thinking",
}


class ContentPart(Record):
    """One part of a message; `kind` says which field is set (section 3.3).

    `provider_metadata` maps a provider's name to opaque data that goes back to that provider verbatim. A part
    whose kind is a provider's own holds everything there.
    """

    kind: ContentKind | str = Field(union_mode="left_to_right")
    text: str | None = None
    image: ImageData | None = None
    audio: AudioData | None = None
    document: DocumentData | None = None
    tool_call: ToolCallData | None = None
    tool_result: ToolResultData | None = None
    thinking: ThinkingData | None = None
    provider_metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _populated(self) -> Self:
        if isinstance(self.kind, ContentKind):
            field = _FIELD_OF_KIND[self.kind]
            if getattr(self, field) is None:
                raise ValueError(f"a part of kind {self.kind.value!r} needs its field {field!r}")
        return self


class Message(Record):
    """One turn of a conversation (section 3.1). Plain text is accepted as `content` and becomes one text part."""

    role: Role
    content: list[ContentPart]
    name: str | None = None
    tool_call_id: str | None = None

    @field_validator("content", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return _parts(value) if isinstance(value, str | ContentPart) else value

    @property
    def text(self) -> str:
        """All text parts, concatenated; empty if there are none."""
        return "".join(part.text or "" for part in self.content if part.kind == ContentKind.TEXT)

    @classmethod
    def system(cls, content: "str | Sequence[ContentPart]") -> Self:
        """Instructions that shape the whole conversation."""
        return cls(role=Role.SYSTEM, content=_parts(content))

    @classmethod
    def developer(cls, content: "str | Sequence[ContentPart]") -> Self:
        """Instructions of the application, privileged over the user's."""
        return cls(role=Role.DEVELOPER, content=_parts(content))

    @classmethod
    def user(cls, content: "str | Sequence[ContentPart]") -> Self:
        """What a person says."""
        return cls(role=Role.USER, content=_parts(content))

    @classmethod
    def assistant(cls, content: "str | Sequence[ContentPart]") -> Self:
        """What the model said."""
        return cls(role=Role.ASSISTANT, content=_parts(content))

    @classmethod
    def tool_result(
        cls,
        tool_call_id: str,
        content: str | dict[str, Any] | list[Any],
        is_error: bool = False,
        *,
        image_data: bytes | None = None,
        image_media_type: str | None = None,
    ) -> Self:
        """The answer to the call with that id."""
        result = ToolResultData(
            tool_call_id=tool_call_id,
            content=content,
            is_error=is_error,
            image_data=image_data,
            image_media_type=image_media_type,
        )
        part = ContentPart(kind=ContentKind.TOOL_RESULT, tool_result=result)
        return cls(role=Role.TOOL, content=[part], tool_call_id=tool_call_id)


def _parts(content: Any) -> Any:
    """Text and a single part as a list of parts; anything else for the field to take or refuse."""
    match content:
        case str():
            return [ContentPart(kind=ContentKind.TEXT, text=content)]
        case ContentPart():
            return [content]
        case Iterable():
            return list(content)
    return content
