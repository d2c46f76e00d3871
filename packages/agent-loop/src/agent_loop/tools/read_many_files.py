"""Reading several files at once (section 3.6)."""

import posixpath

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import BinaryFileError, ExecutionEnvironmentError, ToolError
from agent_loop.text_encoding import to_unicode
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition

MAX_FILES = 100
# What reaches the model is cut to less; this bounds what is read for it.
MAX_CHARACTERS = 1_000_000
_WILD = frozenset("*?[{")


async def read_many_files(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """The text of all files, each below a line with its path. What can't be read is said at the end."""
    excluded = await _find(arguments.get("exclude", []), environment)
    found = [path for path in await _find(arguments["include"], environment) if path not in excluded]
    if not found:
        raise ToolError("no files match; find them with glob first")
    parts: list[str] = []
    skipped: list[str] = []
    room = MAX_CHARACTERS
    for number, path in enumerate(found):
        shown = posixpath.relpath(path, environment.working_directory())
        if number >= MAX_FILES:
            skipped.append(f"{shown}: more than {MAX_FILES} files")
            continue
        if room <= 0:
            skipped.append(f"{shown}: too much text before it")
            continue
        try:
            text = to_unicode(await environment.read_file(path))
        except BinaryFileError:
            skipped.append(f"{shown}: not a text file")
            continue
        except (ExecutionEnvironmentError, OSError) as error:
            skipped.append(f"{shown}: {error}")
            continue
        room -= len(text)
        parts.append(f"--- {shown} ---\n{text}" + ("" if text.endswith("\n") else "\n"))
    if skipped:
        parts.append("--- not read ---\n" + "\n".join(skipped))
    return "\n".join(parts)


async def _find(patterns: list[str], environment: ExecutionEnvironment) -> list[str]:
    """Absolute paths: those of a pattern sorted, in the order of the patterns, none twice."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if _WILD & set(pattern):
            found |= dict.fromkeys(sorted(await environment.glob(pattern, ".")))
        else:
            found[_absolute(pattern, environment)] = None
    return list(found)


def _absolute(path: str, environment: ExecutionEnvironment) -> str:
    return posixpath.normpath(posixpath.join(environment.working_directory(), path))


def _named(arguments: Arguments) -> list[str]:
    return [path for path in arguments["include"] if not _WILD & set(path)]


_PATTERNS = {"type": "array", "items": {"type": "string", "minLength": 1}}

READ_MANY_FILES = RegisteredTool(
    ToolDefinition(
        name="read_many_files",
        description=(
            "Read several text files at once, given by paths or glob patterns such as src/**/*.py. Each comes after a "
            "line with its path, without line numbers. Use it for an overview of related files, and read_file for one "
            "file or a part of it."
        ),
        parameters={
            "type": "object",
            "properties": {
                "include": {**_PATTERNS, "minItems": 1, "description": "Paths and glob patterns"},
                "exclude": {**_PATTERNS, "description": "Paths and glob patterns to leave out of these"},
            },
            "required": ["include"],
        },
    ),
    read_many_files,
    reads=_named,
)
