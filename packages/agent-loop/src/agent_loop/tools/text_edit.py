"""Where a text matches within another, and what to put there. Pure; the text's line endings are kept.

Three ways to match are tried, each only if the one before finds nothing: exactly (line endings aside), with other
typographic punctuation, and by whole lines with other white space. The latter two count only if they find one place.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from agent_loop.tools.line_match import PUNCTUATION, Indentation, find_lines, loose_key


class NoMatchError(LookupError):
    """The text is nowhere."""


class AmbiguousMatchError(LookupError):
    """The text is in several places, at these lines."""

    def __init__(self, lines: Sequence[int], *, exact: bool) -> None:
        super().__init__(f"matches at lines {lines}")
        self.lines = lines
        self.exact = exact


@dataclass(frozen=True, slots=True)
class Edit:
    """The new text, the lines (1-based) where it differs, and what didn't match exactly, if anything."""

    text: str
    lines: tuple[int, ...]
    difference: str | None = None

    @property
    def count(self) -> int:
        """How many places were replaced."""
        return len(self.lines)


def replace_text(text: str, old: str, new: str, *, replace_all: bool = False) -> Edit:
    """Put `new` where `old` is. Raises NoMatchError, AmbiguousMatchError, UnclearIndentationError."""
    if "\r" in old and (places := _find_all(text, old, overlapping=not replace_all)):
        _require_one(text, places, replace_all)
        return Edit(_splice(text, places, len(old), new), tuple(_line_of(text, place) for place in places))
    view = _LineFeedView(text)
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if places := _find_all(view.text, old, overlapping=not replace_all):
        _require_one(view.text, places, replace_all)
        return view.replace(places, old, new)
    plain = old.translate(PUNCTUATION)
    if places := _find_all(view.text.translate(PUNCTUATION), plain, overlapping=True):
        _require_one(view.text, places, exact=False)
        return view.replace(places, old, new, "punctuation")
    return _replace_lines(view, old, new)


def _find_all(text: str, part: str, *, overlapping: bool) -> list[int]:
    places = []
    position = text.find(part)
    while position >= 0:
        places.append(position)
        position = text.find(part, position + (1 if overlapping else len(part)))
    return places


def _require_one(text: str, places: Sequence[int], replace_all: bool = False, *, exact: bool = True) -> None:
    if len(places) > 1 and not replace_all:
        raise AmbiguousMatchError([_line_of(text, place) for place in places], exact=exact)


def _splice(text: str, places: Sequence[int], length: int, new: str) -> str:
    parts, end = [], 0
    for place in places:
        parts += [text[end:place], new]
        end = place + length
    return "".join([*parts, text[end:]])


def _common_start(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _LineFeedView:
    """A text with LF line endings, edited in that form and written back with its own."""

    def __init__(self, original: str) -> None:
        self._original = original
        self.text = original
        # Where `text` has a line feed that is CR LF in the original, ascending.
        self._crlf: list[int] = []
        if "\r\n" in original:
            self.text = original.replace("\r\n", "\n")
            self._crlf = [place - index for index, place in enumerate(_find_all(original, "\r\n", overlapping=False))]

    def replace(self, places: Sequence[int], old: str, new: str, difference: str | None = None) -> Edit:
        """Replace `old` at these places. What `old` and `new` begin and end with alike keeps its characters."""
        head = _common_start(old, new)
        tail = _common_start(old[head:][::-1], new[head:][::-1])
        kept = new[head : len(new) - tail]
        spans = [(place + head, place + len(old) - tail) for place in places]
        return Edit(self._splice(spans, kept), tuple(_line_of(self.text, place) for place in places), difference)

    def replace_span(self, start: int, end: int, new: str, difference: str) -> Edit:
        """Replace one span of `text`."""
        return Edit(self._splice([(start, end)], new), (_line_of(self.text, start),), difference)

    def _splice(self, spans: Sequence[tuple[int, int]], new: str) -> str:
        parts, position = [], 0
        for start, end in spans:
            parts.append(self._original[position : self._place(start)])
            parts.append(new.replace("\n", "\r\n") if self._is_crlf_near(start) else new)
            position = self._place(end)
        return "".join([*parts, self._original[position:]])

    def _place(self, position: int) -> int:
        return position + bisect_left(self._crlf, position)

    def _is_crlf_near(self, position: int) -> bool:
        """Whether the line there ends in CR LF; for a last line without an ending, whether the one before does."""
        if not self._crlf:
            return False
        newline = self.text.find("\n", position)
        if newline < 0:
            newline = self.text.rfind("\n", 0, position)
        index = bisect_left(self._crlf, newline)
        return index < len(self._crlf) and self._crlf[index] == newline


def _replace_lines(view: _LineFeedView, old: str, new: str) -> Edit:
    """Match whole lines whatever their white space and punctuation. Lines that `new` keeps stay as in the text."""
    lines = view.text.split("\n")
    old_lines = old.removesuffix("\n").split("\n")
    first = _find_lines([loose_key(line) for line in lines], [loose_key(line) for line in old_lines])
    matched = lines[first : first + len(old_lines)]
    start = sum(len(line) + 1 for line in lines[:first])
    end = start + sum(len(line) + 1 for line in matched) - 1
    new_lines = new.removesuffix("\n").split("\n") if new else []
    result = "\n".join(_merge_lines(matched, old_lines, new_lines, first + 1))
    if old.endswith("\n") and end < len(view.text):
        end += 1
        result += "\n" if new.endswith("\n") else ""
    elif new.endswith("\n") and not old.endswith("\n"):
        result += "\n"
    return view.replace_span(start, end, result, "white space")


def _find_lines(keys: list[str], wanted: list[str]) -> int:
    found = find_lines(keys, wanted) if any(wanted) else []
    if not found:
        raise NoMatchError
    if len(found) > 1:
        raise AmbiguousMatchError([index + 1 for index in found], exact=False)
    return found[0]


def _merge_lines(matched: Sequence[str], old: Sequence[str], new: Sequence[str], line: int) -> list[str]:
    indentation = Indentation(old, matched, line)
    merged: list[str] = []
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            merged += matched[old_from:old_to]
        else:
            merged += [indentation.apply(text) for text in new[new_from:new_to]]
    return merged
