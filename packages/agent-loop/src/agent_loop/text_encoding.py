"""Bytes of a text file as text that can be edited and turned back into the very same bytes."""

import codecs
import re
from dataclasses import dataclass

_SURROGATE = re.compile("[\ud800-\udfff]")
# UTF-32 first: its little-endian mark begins with the one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class NotTextError(ValueError):
    """The bytes aren't text in any encoding that can be told from them."""


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """How a file's bytes stand for text. `mark` is its byte order mark, which is not part of the text."""

    name: str = "utf-8"
    errors: str = "strict"
    mark: bytes = b""

    def decode(self, data: bytes) -> str:
        """Text of a file, or of a part of it that doesn't begin with the mark. Line endings stay as they are."""
        return data.removeprefix(self.mark).decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """Bytes of the whole file. Raises UnicodeEncodeError if the encoding lacks a character."""
        return self.mark + text.encode(self.name, self.errors)


def detect_encoding(data: bytes) -> TextEncoding:
    """Tell the encoding from a file's bytes. Raises NotTextError for binary data.

    A byte order mark decides. Without one: UTF-8; UTF-8 with stray bytes, which are carried along; or Latin-1, where no
    character outside ASCII is valid UTF-8.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            encoding = TextEncoding(name, mark=mark)
            try:
                encoding.decode(data)
            except UnicodeDecodeError as error:
                raise NotTextError(f"not valid {name}, although its byte order mark says so") from error
            return encoding
    if b"\0" in data:
        raise NotTextError("it contains NUL bytes")
    try:
        data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="surrogateescape")
        if any(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in text):
            return TextEncoding(errors="surrogateescape")
        return TextEncoding("latin-1")
    return TextEncoding()


def to_unicode(text: str) -> str:
    """Text with a replacement for what stands for undecodable bytes in names and contents, and can't be sent on."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
