"""Reading and writing whole files (section 3.3)."""

import mimetypes
import re

from unified_llm import ImageData

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import ToolError
from agent_loop.text_encoding import to_unicode
from agent_loop.tools.edit_lock import edit_lock
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition, ToolOutput

DEFAULT_LINE_LIMIT = 2_000
FILE_PATH = {"type": "string", "description": "Path of the file, absolute or from the working directory"}
# In base64 five million characters, the least that any provider takes.
MAX_IMAGE_BYTES = 3_750_000
_IMAGES = {
    "image/png": re.compile(rb"\x89PNG"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}


async def read_file(arguments: Arguments, environment: ExecutionEnvironment) -> str | ToolOutput:
    """Numbered lines, or the image."""
    path: str = arguments["file_path"]
    if mimetypes.guess_type(path)[0] in _IMAGES:
        image = await _read_image(path, environment)
        if image is not None:
            return image
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


async def _read_image(path: str, environment: ExecutionEnvironment) -> ToolOutput | None:
    """None if the content isn't an image, whatever the name says. Providers refuse such a conversation from then on."""
    data = await environment.read_bytes(path)
    media_type = next((name for name, start in _IMAGES.items() if start.match(data)), None)
    if media_type is None:
        return None
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{path} is an image of {len(data)} bytes, and models take {MAX_IMAGE_BYTES} at most; shrink it"
        )
    text = f"Image {path} ({media_type}, {len(data)} bytes)."
    return ToolOutput(text=text, image=ImageData(data=data, media_type=media_type))


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
    async with edit_lock():
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
