"""Searching the local machine: ripgrep's arguments and output, and the same in Python where it is missing."""

import codecs
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path, PurePath

from agent_loop.environments.base import GrepOptions
from agent_loop.environments.glob_patterns import SKIPPED_DIRECTORIES, glob_filter, glob_matcher, split_literal
from agent_loop.environments.local_files import open_regular
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError
from agent_loop.text_encoding import NotTextError, detect_encoding, to_unicode

MAX_LINE_CHARACTERS = 500
_PIECE = 1024 * 1024
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What makes a line match or not by where it begins and ends can't be told from the file as a whole.
_LINE_BOUND = re.compile(r"\^|\$|\\[AZ]|\(\?")
_SKIP_GLOBS = [f"--glob=!**/{name}/**" for name in sorted(SKIPPED_DIRECTORIES)]


def ripgrep_arguments(pattern: str, target: str, options: GrepOptions) -> list[str]:
    """The command line to search `target`, "." or a file's name. Configuration and ignore files play no part."""
    mode = {
        "content": ["--line-number", "--column", f"--max-count={options.max_results + 1}"],
        "files_with_matches": ["--files-with-matches"],
        "count": ["--count"],
    }
    return [
        "--no-config",
        "--no-ignore",
        "--hidden",
        "--no-messages",
        "--no-heading",
        "--with-filename",
        "--null",
        "--color=never",
        "--crlf",
        *mode[options.output_mode],
        *(["--ignore-case"] if options.case_insensitive else []),
        *([f"--glob={options.glob_filter}"] if options.glob_filter else []),
        *_SKIP_GLOBS,
        f"--regexp={pattern}",
        "--",
        target,
    ]


def ripgrep_output(output: str, directory: PurePath, base: PurePath, options: GrepOptions) -> str:
    """Its output, from a run in `directory`: by path, long lines clipped around the match, at most `max_results`.

    Sorting here leaves ripgrep its threads, which its own sorting would take away.
    """
    if options.output_mode == "files_with_matches":
        paths = [shown_path(directory / path, base) for path in output.split("\0")[:-1]]
        return format_results(sorted(paths)[: options.max_results], len(paths), options)
    # What has no NUL in it is no result, but a remark on a binary file.
    found = [line.split("\0", 1) for line in output.split("\n") if "\0" in line]
    results = sorted(((shown_path(directory / path, base), rest) for path, rest in found), key=itemgetter(0))
    kept = [_ripgrep_line(path, rest, options) for path, rest in results[: options.max_results]]
    return format_results(kept, len(results), options)


def _ripgrep_line(path: str, rest: str, options: GrepOptions) -> str:
    if options.output_mode == "count":
        return f"{path}:{rest.removesuffix(chr(13))}"
    number, column, text = rest.split(":", 2)
    # Columns count bytes; where it matters, in very long lines, a few characters more or less don't.
    clipped = _clip(text.removesuffix("\r"), int(column) - 1)
    return f"{path}:{number}:{clipped}"


def compile_pattern(pattern: str, options: GrepOptions) -> re.Pattern[str]:
    """Raises ExecutionEnvironmentError."""
    try:
        return re.compile(pattern, re.IGNORECASE if options.case_insensitive else 0)
    except re.error as error:
        raise ExecutionEnvironmentError(f"invalid regular expression {pattern!r}: {error}") from None


def grep_in_python(pattern: str, target: Path, base: Path, options: GrepOptions) -> str:
    """What ripgrep would find. Binary files, FIFOs and devices are skipped."""
    expression = compile_pattern(pattern, options)
    selects = glob_filter(options.glob_filter) if options.glob_filter else None
    found: list[str] = []
    total = 0
    for path in [target] if target.is_file() else _files(target):
        if selects is not None and path != target and not selects(path.relative_to(target)):
            continue
        for line in _matching_lines(path, expression, shown_path(path, base), options):
            total += 1
            if len(found) < options.max_results:
                found.append(line)
        if total > options.max_results:
            break
    return format_results(found, total, options)


def _matching_lines(path: Path, expression: re.Pattern[str], shown: str, options: GrepOptions) -> Iterator[str]:
    try:
        with open(open_regular(path), "rb") as file:
            data = file.read(_PIECE)
            # What is no text need not be read any further, for it may be a disk's image.
            if b"\0" not in data or data.startswith(_UTF16):
                data += file.read()
    except (OSError, PathNotAllowedError, PathNotFoundError):
        return
    yield from match_lines(data, expression, shown, options)


def match_lines(data: bytes, expression: re.Pattern[str], shown: str, options: GrepOptions) -> Iterator[str]:
    """Results out of one file, which are named by `shown`."""
    try:
        text = _decode(data)
    except NotTextError:
        return
    # The whole file is searched at once first: most files hold no match, and then no line is ever split off.
    if expression.search(text) is None and not _LINE_BOUND.search(expression.pattern):
        return
    texts = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    lines = [(number, text) for number, text in enumerate(texts, 1) if expression.search(text)]
    if not lines:
        return
    match options.output_mode:
        case "files_with_matches":
            yield shown
        case "count":
            yield f"{shown}:{len(lines)}"
        case "content":
            for number, line in lines:
                place = expression.search(line)
                yield f"{shown}:{number}:{_clip(to_unicode(line), place.start() if place else 0)}"


def _decode(data: bytes) -> str:
    """Text as ripgrep reads it: UTF-8 with any stray bytes, or what a byte order mark says. Raises NotTextError."""
    if data.startswith(_UTF16):
        return detect_encoding(data).decode(data)
    if b"\0" in data:
        raise NotTextError("it contains NUL bytes")
    return data.removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape")


def _clip(line: str, place: int) -> str:
    """A long line's part around the match, most of it after the match's beginning."""
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    start = max(min(place - MAX_LINE_CHARACTERS // 4, len(line) - MAX_LINE_CHARACTERS), 0)
    after = len(line) - start - MAX_LINE_CHARACTERS
    before = f"[... {start} characters ...] " if start else ""
    return f"{before}{line[start : start + MAX_LINE_CHARACTERS]}" + (f" [... {after} characters ...]" if after else "")


def format_results(lines: list[str], total: int, options: GrepOptions) -> str:
    """With a note if there are more results than wanted."""
    if total > options.max_results:
        lines = [*lines, f"[more than {options.max_results} results; narrow the search to see the others]"]
    return "\n".join(lines)


def shown_path(path: PurePath, base: PurePath) -> str:
    """Relative to the working directory, for what lies in it."""
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def _files(root: Path) -> list[Path]:
    """Files below a directory, by path; symlinks aren't followed."""
    return [Path(path) for path in sorted(entry.path for _, entry in _walk(root))]


def glob_files(pattern: str, root: Path) -> list[str]:
    """Absolute paths of regular files, the most recently modified first (by path where times are equal).

    Directories that can hold no match aren't entered, and a pattern's literal beginning is walked straight to. The
    skipped directories are entered only if the pattern names them.
    """
    if not root.is_dir():
        raise PathNotFoundError(f"no such directory: {root}")
    if os.path.isabs(pattern):
        root, pattern = Path("/"), pattern.lstrip("/")
    literal, rest = split_literal(pattern.removeprefix("./"))
    start = Path(os.path.normpath(root / literal))
    if not rest:
        return [str(start)] if start.is_file() else []
    matches = glob_matcher(rest)
    depth = None if "**" in rest else rest.count("/")
    found: list[tuple[float, str]] = []
    for relative, entry in _walk(start, depth, rest, follow_files=True):
        if matches(relative):
            # It may have been removed in the meantime.
            with suppress(OSError):
                found.append((entry.stat().st_mtime, entry.path))
    return [path for _, path in sorted(found, key=lambda item: (-item[0], item[1]))]


def _walk(
    directory: Path, depth: int | None = None, pattern: str = "", *, follow_files: bool = False
) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Regular files with their path below where the walk began. `depth` bounds the levels of directories entered.

    Directories that can't be entered, their path being too long perhaps, are left out.
    """
    pending = [(str(directory), "")]
    while pending:
        place, prefix = pending.pop()
        try:
            with os.scandir(place) as scan:
                entries = list(scan)
        except OSError:
            continue
        for entry in entries:
            relative = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if (entry.name not in SKIPPED_DIRECTORIES or entry.name in pattern) and (
                    depth is None or relative.count("/") < depth
                ):
                    pending.append((entry.path, f"{relative}/"))
            elif _is_file(entry, follow_files):
                yield relative, entry


def _is_file(entry: "os.DirEntry[str]", follow: bool) -> bool:
    try:
        return entry.is_file(follow_symlinks=follow)
    except OSError:
        # A symlink that leads in circles, or to where this user may not go.
        return False
