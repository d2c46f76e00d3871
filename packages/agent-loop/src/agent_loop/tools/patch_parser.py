"""Patches in the v4a format (appendix A), read into operations. Pure.

Read beyond the grammar, because models write it: a first hunk without `@@`, unified `@@ -1,3 +1,4 @@` headers, an empty
line for an empty context line, a rename without hunks, headers with white space around them, CR LF, and a here-document
or a code fence around the patch. Anything else that isn't in the grammar is an error: what is skipped would be lost.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_HEADERS = (ADD, DELETE, UPDATE)
_UNIFIED = re.compile(r" ?-\d+(?:,\d+)? \+\d+(?:,\d+)?(?: @@)?")
_OPENING = re.compile(r"```\w*|.*<<-?\s*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote).*|[\w./-]*apply_patch[\w.-]*")

Mark = Literal[" ", "-", "+"]


class PatchSyntaxError(ValueError):
    """The text is no patch; says in which of its lines, counted from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to keep, to remove and to add. `hints` are the texts of its `@@` lines; `line` is where it begins."""

    hints: tuple[str, ...]
    lines: tuple[tuple[Mark, str], ...]
    at_end: bool
    line: int


@dataclass(frozen=True, slots=True)
class AddFile:
    """A new file of these lines."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file to remove."""

    path: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """A file to change, to move, or both."""

    path: str
    move_to: str | None
    hunks: tuple[Hunk, ...]


Operation = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Operation, ...]:
    """All operations in order, at least one. Raises PatchSyntaxError."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._position, self._end = _find_body(self._lines)

    def parse(self) -> tuple[Operation, ...]:
        operations: list[Operation] = []
        while self._skip_blank():
            operations.append(self._operation())
        if not operations:
            raise self._error("the patch holds no operation")
        return tuple(operations)

    def _operation(self) -> Operation:
        header = self._line.strip()
        kind = next((kind for kind in _HEADERS if header.startswith(kind)), None)
        if kind is None:
            raise self._error(f"expected one of {', '.join(_HEADERS)}, but found {self._line!r}")
        path = self._path(header, kind)
        if kind == ADD:
            return AddFile(path, self._added_lines())
        return DeleteFile(path) if kind == DELETE else self._update(path)

    def _path(self, header: str, kind: str) -> str:
        path = header.removeprefix(kind).strip()
        if not path:
            raise self._error(f"{kind} lacks a path")
        self._position += 1
        return path

    def _added_lines(self) -> tuple[str, ...]:
        added: list[str] = []
        blank = 0
        while self._position < self._end and not self._line.strip().startswith(_HEADERS):
            if self._line.startswith("+"):
                added += [""] * blank + [self._line[1:]]
                blank = 0
            elif not self._line.strip():
                blank += 1
            else:
                raise self._error(f"every line of an added file begins with +, but this is {self._line!r}")
            self._position += 1
        return tuple(added)

    def _update(self, path: str) -> UpdateFile:
        start = self._position
        move_to = None
        if self._position < self._end and self._line.strip().startswith(MOVE):
            move_to = self._path(self._line.strip(), MOVE)
        hunks = []
        while self._skip_blank() and not self._line.strip().startswith(_HEADERS):
            hunks.append(self._hunk())
        if not hunks and move_to is None:
            raise PatchSyntaxError(start, f"{UPDATE} {path} has no hunks")
        return UpdateFile(path, move_to, tuple(hunks))

    def _hunk(self) -> Hunk:
        start = self._position
        if self._line.startswith("*** "):
            raise self._error(f"{self._line!r} can't stand here")
        hints: list[str] = []
        body: list[tuple[Mark, str]] = []
        while not body and self._position < self._end and not self._line.startswith("*** "):
            if self._line.startswith("@@"):
                hints += _hint(self._line)
                self._position += 1
            body = self._hunk_lines()
        if not any(mark != " " for mark, _ in body):
            raise PatchSyntaxError(start + 1, "the hunk neither adds (+) nor removes (-) a line")
        at_end = self._position < self._end and self._line.rstrip() == END_OF_FILE
        self._position += at_end
        return Hunk(tuple(hints), tuple(body), at_end, start + 1)

    def _hunk_lines(self) -> list[tuple[Mark, str]]:
        body: list[tuple[Mark, str]] = []
        # Empty lines at the end separate hunks; elsewhere they are context whose space got lost.
        blank = 0
        while self._position < self._end and not self._line.startswith(("@@", "*** ")):
            line = self._line.removesuffix("\r")
            match line[:1]:
                case "":
                    blank += 1
                case " " | "-" | "+" as mark:
                    body.extend([(" ", "")] * blank)
                    body.append((mark, line[1:]))
                    blank = 0
                case _:
                    raise self._error(f"a line of a hunk begins with a space, - or +, but this is {line!r}")
            self._position += 1
        return body

    @property
    def _line(self) -> str:
        return self._lines[self._position]

    def _skip_blank(self) -> bool:
        """Whether there is anything left."""
        while self._position < self._end and not self._line.strip():
            self._position += 1
        return self._position < self._end

    def _error(self, message: str) -> PatchSyntaxError:
        return PatchSyntaxError(self._position + 1, message)


def _find_body(lines: list[str]) -> tuple[int, int]:
    """Where the lines between the markers begin and end. CR LF becomes LF if the markers say that it is the patch's."""
    begin = next((index for index, line in enumerate(lines) if line.strip() == BEGIN), None)
    if begin is None:
        raise PatchSyntaxError(1, f"there is no line {BEGIN!r}")
    if lines[begin].endswith("\r"):
        lines[:] = [line.removesuffix("\r") for line in lines]
    words = {"```"}
    for index, line in enumerate(lines[:begin]):
        opening = _OPENING.fullmatch(line.strip())
        if line.strip() and opening is None:
            raise PatchSyntaxError(index + 1, f"there is something before {BEGIN!r}: {line!r}")
        if opening is not None and opening["word"]:
            words.add(opening["word"])
    end = _find_end(lines, begin, words)
    for index, line in enumerate(lines[end + 1 :], end + 2):
        if line.strip() and line.strip().rstrip("\"')") not in words:
            raise PatchSyntaxError(index, f"there is something after {END!r}: {line!r}; send one patch a call")
    return begin + 1, end


def _find_end(lines: Sequence[str], begin: int, words: set[str]) -> int:
    """The first line that is the marker; else the last line, if it is the marker indented, elsewhere content."""
    found = next((index for index in range(begin, len(lines)) if lines[index].rstrip() == END), None)
    if found is not None:
        return found
    last = next(
        index for index in reversed(range(len(lines))) if lines[index].strip().rstrip("\"')") not in {*words, ""}
    )
    if lines[last].strip() == END:
        return last
    raise PatchSyntaxError(len(lines), f"the patch doesn't end with {END!r}; perhaps it was cut off")


def _hint(line: str) -> list[str]:
    text = line.removeprefix("@@").rstrip()
    text = _UNIFIED.sub("", text, count=1) if _UNIFIED.match(text) else text
    text = text.removesuffix("@@").rstrip().removeprefix(" ")
    return [text] if text.strip() else []
