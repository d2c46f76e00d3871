"""Regular expressions that match in time linear in the text, whatever the pattern.

Conditions run on text that models and tools wrote, with patterns from a pipeline file; a backtracking matcher could
hang a run for years (`(a+)+$`). This one follows all ways through the pattern at once (Thompson's construction) and
remembers the steps it has seen. It answers whether a pattern occurs in a text, and knows what that question needs:
alternation, groups, repetition, classes, escapes, anchors, and the flags `(?i)`, `(?m)`, `(?s)` at the beginning.
Back references and look-around, which can't be matched in linear time, are refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

_MAX_STATES = 5_000
_MAX_STEPS = 20_000
_ATOM = re.compile(r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\]", re.DOTALL)
_COUNT = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_FLAGS = re.compile(r"\(\?([aimsx]+)\)")
_GROUP = re.compile(r"\((\?:|\?P<\w+>|\?)?")
_ASSERTIONS = {"^": "^", "$": "$", "\\b": "b", "\\B": "B", "\\A": "A", "\\Z": "Z"}


class PatternError(ValueError):
    """The pattern can't be read; `at` is the offset where."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(slots=True)
class _State:
    """A place in the pattern: consume a character, or look, or branch; then go on at `next`."""

    character: re.Pattern[str] | None = None
    assertion: str = ""
    next: list[int] = field(default_factory=list)


class Pattern:
    """A compiled pattern; make it with `compile_pattern()`."""

    def __init__(self, text: str) -> None:
        self.text = text
        reader = _Reader(text)
        self._states = reader.states
        self._start, self._end = reader.read()
        self._multiline = reader.multiline
        self._steps: dict[tuple[frozenset[int], str, str], tuple[frozenset[int], bool]] = {}

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        steps = self._steps
        waiting: frozenset[int] = frozenset((self._start,))
        before = ""
        last = len(text) - 1
        for at, character in enumerate(text):
            # Before a final line feed is an end too, as in Python's `$`.
            key = (waiting, before, "\n$" if at == last and character == "\n" else character)
            step = steps.get(key)
            if step is None:
                if len(steps) >= _MAX_STEPS:
                    steps.clear()
                step = steps[key] = self._step(*key)
            waiting, found = step
            if found:
                return True
            before = _kind(character)
        return self._step(waiting, before, "")[1]

    def _step(self, waiting: frozenset[int], before: str, character: str) -> tuple[frozenset[int], bool]:
        """The states that wait for the next character, and whether the pattern has matched before this one."""
        reached: set[int] = set()
        stack = list(waiting)
        following = {self._start}
        while stack:
            at = stack.pop()
            if at in reached:
                continue
            reached.add(at)
            state = self._states[at]
            if state.character is not None:
                if character and state.character.match(character[0]):
                    following.update(state.next)
            elif not state.assertion or self._holds(state.assertion, before, character):
                stack += state.next
        return frozenset(following), self._end in reached

    def _holds(self, assertion: str, before: str, character: str) -> bool:
        match assertion:
            case "A":
                return not before
            case "^":
                return not before or (self._multiline and before == "newline")
            case "Z":
                return not character
            case "$":
                return character in ("", "\n$") or (self._multiline and character == "\n")
        boundary = (before == "word") != (bool(character) and _kind(character[0]) == "word")
        return boundary == (assertion == "b")


def _kind(character: str) -> str:
    return "newline" if character == "\n" else "word" if character.isalnum() or character == "_" else "other"


class _Reader:
    """Reads a pattern by recursive descent; each part becomes a first and a last state."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = re.NOFLAG
        self.states: list[_State] = []
        self.multiline = False

    def read(self) -> tuple[int, int]:
        while flags := _FLAGS.match(self._text, self._at):
            self._at = flags.end()
            for letter in flags[1]:
                if letter == "x":
                    raise PatternError("the flag x is not supported", flags.start())
                self._flags |= re.RegexFlag[letter.upper()]
        self.multiline = bool(self._flags & re.MULTILINE)
        part = self._alternation()
        if self._at < len(self._text):
            raise PatternError("there is no group that this ) closes", self._at)
        return part

    def _state(self, **fields: object) -> int:
        if len(self.states) >= _MAX_STATES:
            raise PatternError("the pattern is too large", self._at)
        self.states.append(_State(**fields))  # type: ignore[arg-type]
        return len(self.states) - 1

    def _join(self, origin: int, target: int) -> None:
        self.states[origin].next.append(target)

    def _alternation(self) -> tuple[int, int]:
        parts = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else self._either(parts)

    def _either(self, parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
        first, last = self._state(), self._state()
        for start, end in parts:
            self._join(first, start)
            self._join(end, last)
        return first, last

    def _sequence(self) -> tuple[int, int]:
        first = last = self._state()
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            start, end = self._repetition()
            self._join(last, start)
            last = end
        return first, last

    def _repetition(self) -> tuple[int, int]:
        begun = self._at
        part = self._atom()
        count = self._count()
        if count is None:
            return part
        least, most = count
        ended = self._at
        first = last = self._state()
        # A counted part is read again for each copy.
        for number in range(max(least, most or 0, 1)):
            if number:
                self._at = begun
                part = self._atom()
            start, end = part
            if most is None and number == max(least, 1) - 1:
                self._join(end, start)
            skip = number >= least
            after = self._state()
            self._join(last, start)
            self._join(end, after)
            if skip:
                self._join(last, after)
            last = after
        self._at = ended
        if most == 0:
            nothing = self._state()
            return nothing, nothing
        return first, last

    def _count(self) -> tuple[int, int | None] | None:
        text, at = self._text, self._at
        counted = _COUNT.match(text, at)
        if counted and (counted[1] or counted[3]):
            self._at = counted.end()
            least = int(counted[1] or 0)
            most = (int(counted[3]) if counted[3] else None) if counted[2] else least
            if max(least, most or 0) > _MAX_STATES or (most is not None and most < least):
                raise PatternError("this count is too large, or its ends are the wrong way round", at)
            found: tuple[int, int | None] = (least, most)
        elif text[at : at + 1] in ("*", "+", "?") and at < len(text):
            self._at += 1
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}[text[at]]
        else:
            return None
        # Lazy or greedy makes no difference to whether there is a match.
        if text.startswith("?", self._at):
            self._at += 1
        if text[self._at : self._at + 1] in ("*", "+") and self._at < len(text):
            raise PatternError("there is nothing here to repeat", self._at)
        return found

    def _atom(self) -> tuple[int, int]:
        at = self._at
        group = _GROUP.match(self._text, at)
        if group:
            return self._group(group)
        found = _ATOM.match(self._text, at)
        if not found:
            raise PatternError("a backslash ends the pattern", at)
        atom = found[0]
        if atom in ("*", "+", "?"):
            raise PatternError("there is nothing here to repeat", at)
        if atom[0] == "\\" and atom[1].isdigit() and atom[1] != "0":
            raise PatternError("back references are not supported", at)
        self._at = found.end()
        if atom in _ASSERTIONS:
            first = self._state(assertion=_ASSERTIONS[atom])
        else:
            try:
                first = self._state(character=re.compile(atom, self._flags))
            except re.error as error:
                raise PatternError(str(error.msg), at) from None
        last = self._state()
        self._join(first, last)
        return first, last

    def _group(self, opened: re.Match[str]) -> tuple[int, int]:
        if opened[1] == "?":
            raise PatternError("look-around and special groups are not supported", opened.start())
        self._at = opened.end()
        self._depth += 1
        if self._depth > 50:
            raise PatternError("groups are nested more than 50 deep", opened.start())
        part = self._alternation()
        self._depth -= 1
        if not self._text.startswith(")", self._at):
            raise PatternError("this group is never closed", opened.start())
        self._at += 1
        return part


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Read a pattern. Raises PatternError."""
    return Pattern(text)
