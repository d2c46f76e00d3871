"""Reading and writing whole files (section 3.3)."""

import mimetypes

from unified_llm import ImageData

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import ToolError
from agent_loop.text_encoding import to_unicode
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition, ToolOutput

DEFAULT_LINE_LIMIT = 2_000
FILE_PATH = {"type": "string", "description": "Path of the file, absolute or from the working directory"}
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


async def read_file(arguments: Arguments, environment: ExecutionEnvironment) -> str | ToolOutput:
    """Numbered lines, or the image."""
    path: str = arguments["file_path"]
    media_type, _ = mimetypes.guess_type(path)
    if media_type in _IMAGES:
        data = await environment.read_bytes(path)
        text = f"Image {path} ({media_type}, {len(data)} bytes)."
        return ToolOutput(text=text, image=ImageData(data=data, media_type=media_type))
    # To JSON Schema 2.0 is an integer; to Python it isn't.
    offset = int(arguments.get("offset", 1))
    limit = int(arguments.get("limit", DEFAULT_LINE_LIMIT))
    # One line more than asked for tells whether the file goes on.
    lines = split_lines(to_unicode(await environment.read_file(path, offset, limit + 1)))
    if not lines:
        if offset > 1:
            raise ToolError(f"{path} has fewer than {offset} lines")
        return f"{path} is empty."
    numbered = "\n".join(f"{number} | {line}" for number, line in enumerate(lines[:limit], offset))
    if len(lines) > limit:
        numbered += f"\n[The file goes on. Continue with offset={offset + limit}.]"
    return numbered


def split_lines(text: str) -> list[str]:
    """Lines without their LF or CR LF. Other characters that Unicode calls line breaks don't end a line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


async def write_file(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Replace or create."""
    path: str = arguments["file_path"]
    content: str = arguments["content"]
    existed = await environment.file_exists(path)
    await environment.write_file(path, content)
    return f"{'Replaced' if existed else 'Created'} {path} ({len(content.encode())} bytes)."


def named_path(arguments: Arguments) -> list[str]:
    """The file that a call reads or modifies, by its `file_path`."""
    return [arguments["file_path"]]


READ_FILE = RegisteredTool(
    ToolDefinition(
        name="read_file",
        description=(
            "Read a file. Text comes back with line numbers, as `NUMBER | LINE`; the number and the bar are not part "
            "of the file. Images (PNG, JPEG, GIF, WebP) come back as images. Up to 2000 lines are returned; use offset "
            "and limit for other parts of a longer file."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": FILE_PATH,
                "offset": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read (default 2000)"},
            },
            "required": ["file_path"],
        },
    ),
    read_file,
    reads=named_path,
)

WRITE_FILE = RegisteredTool(
    ToolDefinition(
        name="write_file",
        description=(
            "Create a file, or replace all of an existing one, with the given content. Missing parent directories are "
            "made. To change a part of a file, edit it instead."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": FILE_PATH,
                "content": {"type": "string", "description": "The whole content of the file"},
            },
            "required": ["file_path", "content"],
        },
    ),
    write_file,
    writes=named_path,
)
