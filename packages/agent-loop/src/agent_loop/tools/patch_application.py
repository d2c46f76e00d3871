"""Hunks applied to a text (appendix A). Pure; lines that a hunk doesn't name keep every character, endings too.

Each hunk is looked for as it is, then whatever the white space, then also whatever the typographic punctuation. The
latter two count only if there is exactly one such place. All places refer to the text as it was, so that the order of
hunks doesn't matter; it only decides between several exact matches.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from agent_loop.tools.line_match import Indentation, UnclearIndentationError, find_lines, loose_key, white_space_key
from agent_loop.tools.patch_parser import Hunk

_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("white space", white_space_key),
    ("white space or punctuation", loose_key),
)


class HunkError(LookupError):
    """A hunk has no clear place; the message is for the model."""

    def __init__(self, hunk: Hunk, message: str) -> None:
        super().__init__(f"the hunk at line {hunk.line} of the patch {message}")


@dataclass(frozen=True, slots=True)
class PatchedText:
    """The new text, the lines (1-based, of the new text) where hunks begin, and a remark for each inexact match."""

    text: str
    lines: tuple[int, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    hunk: Hunk
    start: int
    end: int
    difference: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the new text. `ending` is None for an added one; `style` is what it gets if it needs an ending."""

    text: str
    ending: str | None
    style: str


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> PatchedText:
    """Apply all hunks, or raise HunkError."""
    lines = _split_lines(text)
    finder = _Finder([line for line, _ in lines])
    places: list[_Place] = []
    for hunk in hunks:
        places.append(finder.find(hunk, places))
    places.sort(key=lambda place: (place.start, place.end))
    for before, after in pairwise(places):
        if after.start < before.end:
            raise HunkError(after.hunk, f"changes lines that the hunk at line {before.hunk.line} changes too")
    return _merge(lines, places)


def _split_lines(text: str) -> list[tuple[str, str]]:
    """Lines with their endings. Only LF and CR LF end a line."""
    pieces = text.split("\n")
    lines = [(piece.removesuffix("\r"), "\r\n" if piece.endswith("\r") else "\n") for piece in pieces[:-1]]
    return [*lines, (pieces[-1], "")] if pieces[-1] else lines


class _Finder:
    def __init__(self, lines: list[str]) -> None:
        self._by_level = {"": lines}
        self._count = len(lines)

    def find(self, hunk: Hunk, taken: Sequence[_Place]) -> _Place:
        """Where a hunk goes, given where the hunks before it went."""
        old = [text for mark, text in hunk.lines if mark != "+"]
        anchors = self._find_anchors(hunk)
        if not old:
            position = self._find_insertion(hunk, anchors)
            return _Place(hunk, position, position, "")
        cursor = taken[-1].end if taken else 0
        for difference, key in _LEVELS:
            wanted = [key(line) for line in old]
            found = find_lines(self._lines(difference, key), wanted) if not difference or any(wanted) else []
            starts = self._choose(hunk, found, len(old), anchors, cursor, exact=not difference)
            if len(starts) == 1:
                return _Place(hunk, starts[0], starts[0] + len(old), difference)
            if starts:
                places = ", ".join(str(start + 1) for start in starts[:10])
                raise HunkError(hunk, f"matches several places (lines {places}); add context lines or an @@ line above")
        if hunk.lines[-1] == (" ", "") and len(old) > 1:
            # The empty line that an editor shows below the last one is no line of the file.
            with suppress(HunkError):
                place = self.find(replace(hunk, lines=hunk.lines[:-1], at_end=True), taken)
                if place.end == self._count:
                    return place
        after = f" at or after {hunk.hints[-1]!r}" if hunk.hints else ""
        first = next((line for line in old if line.strip()), "")
        raise HunkError(hunk, f"matches nothing{after}; its first line is {first!r}. Read the file again")

    def _lines(self, level: str, key: Callable[[str], str]) -> list[str]:
        if level not in self._by_level:
            self._by_level[level] = [key(line) for line in self._by_level[""]]
        return self._by_level[level]

    def _choose(
        self, hunk: Hunk, found: list[int], count: int, anchors: list[int], cursor: int, *, exact: bool
    ) -> list[int]:
        if hunk.at_end and self._count - count in found:
            return [self._count - count]
        if anchors:
            # Nearest to each anchor, of those that hold it or follow it.
            after = [[start for start in found if start + count > anchor] for anchor in anchors]
            found = sorted({starts[0] for starts in after if starts}) if exact else after[0]
        later = [start for start in found if start >= cursor]
        return later if exact and later else found

    def _find_insertion(self, hunk: Hunk, anchors: list[int]) -> int:
        if hunk.at_end or not hunk.hints:
            return self._count
        if len(anchors) > 1:
            places = ", ".join(str(anchor + 1) for anchor in anchors[:10])
            raise HunkError(hunk, f"adds lines after {hunk.hints[-1]!r}, which is in several places (lines {places})")
        return anchors[0] + 1

    def _find_anchors(self, hunk: Hunk) -> list[int]:
        """Lines that the last hint may mean, each below one that the hint before it may mean."""
        anchors: list[int] = []
        for number, hint in enumerate(hunk.hints):
            found = self._find_hint(hint)
            if number:
                below = (next((line for line in found if line > anchor), None) for anchor in anchors)
                found = sorted({line for line in below if line is not None})
            if not found:
                raise HunkError(hunk, f"names {hint!r} after @@, which is not in the file")
            anchors = found
        return anchors

    def _find_hint(self, hint: str) -> list[int]:
        for level, key in _LEVELS:
            if found := find_lines(self._lines(level, key), [key(hint)]):
                return found
        level, key = _LEVELS[-1]
        return [index for index, line in enumerate(self._lines(level, key)) if key(hint) in line]


def _merge(lines: Sequence[tuple[str, str]], places: Sequence[_Place]) -> PatchedText:
    merged: list[_Line] = []
    begins: list[int] = []
    remarks: list[str] = []
    position = 0
    style = _ending_near(lines, len(lines) - 1)
    for place in places:
        merged += [_Line(text, ending, style) for text, ending in lines[position : place.start]]
        begins.append(len(merged) + _lines_before_change(place.hunk) + 1)
        merged += _patched_lines(lines, place)
        position = place.end
        if place.difference:
            remarks.append(f"line {begins[-1]}: the hunk matched although {place.difference} differed")
    merged += [_Line(text, ending, style) for text, ending in lines[position:]]
    parts = [part for line in merged[:-1] for part in (line.text, line.ending or line.style)]
    if merged:
        last = merged[-1]
        # An added last line lacks its ending where the old last line did.
        ends = last.ending if last.ending is not None else last.style if not lines or lines[-1][1] else ""
        parts += [last.text, ends]
    return PatchedText("".join(parts), tuple(begins), tuple(remarks))


def _lines_before_change(hunk: Hunk) -> int:
    return next(index for index, (mark, _) in enumerate(hunk.lines) if mark != " ")


def _patched_lines(lines: Sequence[tuple[str, str]], place: _Place) -> list[_Line]:
    matched = lines[place.start : place.end]
    old = [text for mark, text in place.hunk.lines if mark != "+"]
    style = _ending_near(lines, place.start)
    result: list[_Line] = []
    index = 0
    try:
        indentation = Indentation(old, [text for text, _ in matched], place.start + 1) if place.difference else None
        for mark, text in place.hunk.lines:
            if mark == "+":
                result.append(_Line(indentation.apply(text) if indentation else text, None, style))
                continue
            style = matched[index][1] or style
            if mark == " ":
                result.append(_Line(*matched[index], style))
            index += 1
    except UnclearIndentationError as error:
        raise HunkError(
            place.hunk,
            f"matches line {error.line} only with other indentation, and how to indent what it adds is unclear",
        ) from None
    return result


def _ending_near(lines: Sequence[tuple[str, str]], index: int) -> str:
    """The ending of a line, or of the one before it, or of the first; LF if there is none."""
    near = [lines[place][1] for place in (index, index - 1, 0) if 0 <= place < len(lines)]
    return next((ending for ending in near if ending), "\n")
