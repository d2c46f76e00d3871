"""Lines that match although they differ in white space or typographic punctuation. Pure."""

import unicodedata
from collections.abc import Sequence
from contextlib import suppress

# One character for one, so that positions stay the same.
PUNCTUATION = str.maketrans(
    "‘’‚‛“”„‟‐‑‒–—―−\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "''''\"\"\"\"-------" + " " * 13,
)


class UnclearIndentationError(LookupError):
    """The text matches with other indentation, which doesn't tell how to indent the replacement."""

    def __init__(self, line: int) -> None:
        super().__init__(f"indentation differs at line {line}")
        self.line = line


def white_space_key(line: str) -> str:
    """The same for lines that differ only in white space."""
    return " ".join(line.split())


def loose_key(line: str) -> str:
    """The same for lines that differ only in white space, typographic punctuation, or how accents are composed."""
    return " ".join(unicodedata.normalize("NFC", line).translate(PUNCTUATION).split())


def find_lines(lines: list[str], wanted: list[str]) -> list[int]:
    """Every index at which the wanted lines, at least one, stand in `lines`; places may overlap."""
    found: list[int] = []
    index = -1
    with suppress(ValueError):
        # list.index is many times faster than a loop over long files, and says with ValueError that there are no more.
        while True:
            index = lines.index(wanted[0], index + 1)
            if lines[index : index + len(wanted)] == wanted:
                found.append(index)
    return found


class Indentation:
    """How the indentation of a text's author translates into that of the lines which the text matched."""

    def __init__(self, written: Sequence[str], matched: Sequence[str], line: int) -> None:
        """`line` is where the matched lines begin. Raises UnclearIndentationError where the two don't correspond."""
        self._line = line
        self._known: dict[str, str] = {}
        for theirs, ours in zip(written, matched, strict=True):
            if ours.strip() and self._known.setdefault(_indent_of(theirs), _indent_of(ours)) != _indent_of(ours):
                raise UnclearIndentationError(line)
        if all(theirs == ours for theirs, ours in self._known.items()):
            self._known = {}

    def apply(self, text: str) -> str:
        """A new line of the author's, indented as the file is. Raises UnclearIndentationError."""
        indent = _indent_of(text)
        if not self._known or not text.strip():
            return text
        known = max((one for one in self._known if indent.startswith(one)), key=len, default=None)
        if known is None or (not known and indent):
            raise UnclearIndentationError(self._line)
        return self._known[known] + text[len(known) :]


def _indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
