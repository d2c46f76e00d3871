"""Finding files, and text in them (section 3.3)."""

from agent_loop.environments.base import ExecutionEnvironment, GrepOptions
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition


async def grep(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Matching lines, or files, or counts."""
    options = GrepOptions(
        glob_filter=arguments.get("glob_filter"),
        case_insensitive=arguments.get("case_insensitive", False),
        max_results=int(arguments.get("max_results", 100)),
        output_mode=arguments.get("output_mode", "content"),
    )
    found = await environment.grep(arguments["pattern"], arguments.get("path", "."), options)
    return found or "No matches."


async def glob(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Paths, the newest first."""
    found = await environment.glob(arguments["pattern"], arguments.get("path", "."))
    return "\n".join(found) or "No files match."


async def list_dir(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Names, directories with a slash, files with their size."""
    entries = await environment.list_directory(arguments.get("path", "."), int(arguments.get("depth", 1)))
    lines = [f"{entry.name}/" if entry.is_dir else f"{entry.name} ({entry.size} bytes)" for entry in entries]
    return "\n".join(lines) or "The directory is empty."


_PATH = {"type": "string", "description": "Directory or file, absolute or from the working directory (the default)"}

GREP = RegisteredTool(
    ToolDefinition(
        name="grep",
        description="Search the contents of files with a regular expression. Binary files are skipped.",
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression, matched within lines"},
                "path": _PATH,
                "glob_filter": {"type": "string", "description": "Search only files of this pattern, such as *.py"},
                "case_insensitive": {"type": "boolean", "description": "Default false"},
                "max_results": {"type": "integer", "minimum": 1, "description": "Lines of output (default 100)"},
                "output_mode": {
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "Matching lines as path:line:text (default), only paths, or path:count",
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    ),
    grep,
)

GLOB = RegisteredTool(
    ToolDefinition(
        name="glob",
        description=(
            "Find files by their path, the most recently modified first. ** spans directories, as in **/*.ts; * and ? "
            "stay within one; {a,b} is either."
        ),
        parameters={
            "type": "object",
            "properties": {"pattern": {"type": "string", "description": "Glob pattern"}, "path": _PATH},
            "required": ["pattern"],
            "additionalProperties": False,
        },
    ),
    glob,
)

LIST_DIR = RegisteredTool(
    ToolDefinition(
        name="list_dir",
        description="List a directory, and its subdirectories down to a depth.",
        parameters={
            "type": "object",
            "properties": {
                "path": _PATH,
                "depth": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Levels to list (default 1)"},
            },
        },
    ),
    list_dir,
)
