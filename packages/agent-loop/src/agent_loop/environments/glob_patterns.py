"""Glob patterns, for names of files wherever they are."""

import re
from collections.abc import Callable
from pathlib import PurePath, PurePosixPath

from agent_loop.errors import ExecutionEnvironmentError

# Directories that hold no work of the user's; ripgrep leaves them out too, by their ignore files or by being hidden.
SKIPPED_DIRECTORIES = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache"}
)


def glob_filter(pattern: str) -> Callable[[PurePath], bool]:
    """Which relative paths ripgrep's `--glob` selects: with `!` all others, without a slash by the name alone."""
    excludes = pattern.startswith("!")
    alternatives = _expand_braces(pattern.removeprefix("!"))
    names = [_glob_expression(one.rstrip("/")) for one in alternatives if "/" not in one.rstrip("/")]
    paths = [_glob_expression(one.strip("/")) for one in alternatives if "/" in one.rstrip("/")]

    def matches(path: PurePath) -> bool:
        by_path = any(expression.fullmatch(path.as_posix()) for expression in paths)
        return by_path or any(expression.fullmatch(path.name) for expression in names)

    def selects(path: PurePath) -> bool:
        if excludes:
            # A directory that is left out takes along what is in it.
            return not any(matches(one) for one in (path, *path.parents))
        return matches(path)

    return selects


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Which relative paths match as a whole. Raises ExecutionEnvironmentError."""
    try:
        expressions = [_glob_expression(one) for one in _expand_braces(pattern)]
    except re.error as error:
        raise ExecutionEnvironmentError(f"invalid glob pattern {pattern!r}: {error}") from None
    return lambda path: any(expression.fullmatch(path) for expression in expressions)


def split_literal(pattern: str) -> tuple[str, str]:
    """The directories, or the whole path, that a pattern begins with literally; and the rest."""
    parts = PurePosixPath(pattern).parts
    count = next((index for index, part in enumerate(parts) if any(char in part for char in "*?[{")), len(parts))
    return "/".join(parts[:count]), "/".join(parts[count:])


def _expand_braces(pattern: str) -> list[str]:
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for choice in found[1].split(",") for one in _expand_braces(before + choice + after)]


def _glob_expression(pattern: str) -> re.Pattern[str]:
    """`**` spans directories, `*` and `?` don't; `[...]` is a set."""
    expression = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?(?:\][^]]*|[^]]+)\]|.", pattern, re.DOTALL):
        match token:
            case "**/":
                expression += "(?:.*/)?"
            case "**":
                expression += ".*"
            case "*":
                expression += "[^/]*"
            case "?":
                expression += "[^/]"
            case _ if len(token) > 1 and token[1:-1] not in ("!", "^"):
                body = re.sub(r"[\\\[&~|]", r"\\\g<0>", token[1:-1])
                expression += f"[^{body[1:]}]" if body[0] in "!^" else f"[{body}]"
            case _:
                expression += re.escape(token)
    return re.compile(expression, re.DOTALL)
