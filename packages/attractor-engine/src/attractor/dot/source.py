"""The text of a DOT file: decoding, places in it, and errors that point there."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from attractor.diagnostics import Diagnostic, Severity, Span
from attractor.dot.syntax import Attribute
from attractor.errors import DotSyntaxError


@dataclass
class Source:
    """Text with line feeds for line ends and without a byte order mark. `warnings` grows while it is read.

    `tolerant` says how to read strings: whether double quotes may lack their backslash where they stand in JSON that
    shell quotes surround.
    """

    text: str
    file_name: str = ""
    tolerant: bool = False
    warnings: list[Diagnostic] = field(default_factory=list)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find, at = self.text.find, 0
        while (at := find("\n", at) + 1) > 0:
            starts.append(at)
        return starts

    def span(self, start: int, end: int) -> Span:
        """The place of the characters from `start` up to `end`."""
        line = bisect_right(self._line_starts, start)
        return Span(line, start - self._line_starts[line - 1] + 1, start, end)

    def error(self, message: str, at: int, hint: str = "") -> DotSyntaxError:
        """An error about the character at an offset, for the caller to raise."""
        place = self.span(at, at + 1)
        line = self.text[self._line_starts[place.line - 1] :].partition("\n")[0]
        return DotSyntaxError(
            message, file_name=self.file_name, line=place.line, column=place.column, source_line=line, hint=hint
        )

    def warn(self, rule: str, message: str, start: int, end: int, *, fix: str = "", node_id: str = "") -> None:
        """Note a finding that doesn't keep the pipeline from running."""
        self.warnings.append(
            Diagnostic(
                rule=rule,
                severity=Severity.WARNING,
                message=message,
                node_id=node_id,
                fix=fix,
                file_name=self.file_name,
                span=self.span(start, end),
            )
        )


class AttributeSpans(Mapping[str, Span]):
    """Places of attributes by name, from lists of which later ones hold; worked out when asked for, as few ever are."""

    __slots__ = ("_lists", "_source")

    def __init__(self, source: Source, lists: Sequence[Sequence[Attribute]]) -> None:
        self._source = source
        self._lists = lists

    def __getitem__(self, key: str) -> Span:
        for attributes in reversed(self._lists):
            for attribute in reversed(attributes):
                if attribute.key == key:
                    return self._source.span(attribute.start, attribute.end)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(attribute.key for attributes in self._lists for attribute in attributes))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_source(source: str | bytes, file_name: str) -> Source:
    """Decode UTF-8, drop a byte order mark, make all line ends line feeds. Raises DotSyntaxError."""
    text = source if isinstance(source, str) else _decode(source, file_name)
    text = text.removeprefix("\ufeff")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    result = Source(text, file_name)
    if (at := text.find("\0")) >= 0:
        raise result.error("a NUL character can't be part of a pipeline", at, "is this a text file in UTF-8?")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise result.error(
            f"the character {text[error.start]!r} is half of a pair and can't be written as UTF-8", error.start
        ) from None
    return result


def _decode(data: bytes, file_name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = Source(data[: error.start].decode("utf-8") + "\ufffd", file_name)
        raise before.error(
            f"the byte 0x{data[error.start]:02x} is not valid UTF-8", len(before.text) - 1, "save the file as UTF-8"
        ) from None
