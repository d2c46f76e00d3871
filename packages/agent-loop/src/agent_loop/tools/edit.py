"""Replacing an exact piece of a file (section 3.3), and nothing beside it."""

from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import ToolError
from agent_loop.text_encoding import NotTextError, detect_encoding
from agent_loop.tools.edit_lock import edit_lock
from agent_loop.tools.files import FILE_PATH, named_path
from agent_loop.tools.line_match import UnclearIndentationError
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition
from agent_loop.tools.text_edit import AmbiguousMatchError, Edit, NoMatchError, replace_text


async def edit_file(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Replace `old_string` by `new_string`; an edit that isn't clear changes nothing and says why."""
    path: str = arguments["file_path"]
    old: str = arguments["old_string"]
    new: str = arguments["new_string"]
    if not old:
        raise ToolError("old_string is empty; to create a file or to fill an empty one, use write_file")
    if old == new:
        raise ToolError("old_string and new_string are the same; there is nothing to change")
    async with edit_lock():
        data = await environment.read_bytes(path)
        try:
            encoding = detect_encoding(data)
        except NotTextError as error:
            raise ToolError(f"{path} is not a text file: {error}") from None
        text = encoding.decode(data)
        edit = _find_edit(path, text, old, new, bool(arguments.get("replace_all", False)))
        try:
            changed = encoding.encode(edit.text)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"{path} is encoded as {encoding.name}, which has no {error.object[error.start]!r}; nothing was changed"
            ) from None
        await environment.write_bytes(path, changed)
    places = "1 replacement" if edit.count == 1 else f"{edit.count} replacements"
    return f"Edited {path}: {places} (line {', '.join(map(str, edit.lines))}).{_describe(edit)}"


def _find_edit(path: str, text: str, old: str, new: str, replace_all: bool) -> Edit:
    try:
        return replace_text(text, old, new, replace_all=replace_all)
    except NoMatchError:
        raise ToolError(
            f"old_string was not found in {path}; nothing was changed. Read the file again and copy the text exactly, "
            "without line numbers"
        ) from None
    except AmbiguousMatchError as error:
        hint = "Give more of the lines around the one you mean"
        hint += ", or set replace_all" if error.exact else ""
        kind = "old_string" if error.exact else "old_string, whitespace and punctuation aside,"
        raise ToolError(
            f"{kind} matches {len(error.lines)} places in {path} (lines {', '.join(map(str, error.lines))}); "
            f"nothing was changed. {hint}"
        ) from None
    except UnclearIndentationError as error:
        raise ToolError(
            f"old_string matches {path} at line {error.line} only with other indentation, and how to indent new_string "
            "is not clear; nothing was changed. Read the file again and copy the text exactly"
        ) from None


def _describe(edit: Edit) -> str:
    if edit.difference is None:
        return ""
    return f" old_string did not match exactly: {edit.difference} differed. Check the result."


EDIT_FILE = RegisteredTool(
    ToolDefinition(
        name="edit_file",
        description=(
            "Replace a piece of text in a file. old_string must be copied exactly from the file, indentation included "
            "and without line numbers, and must occur once: give enough of the lines around it, or set replace_all to "
            "replace every occurrence. Everything else in the file stays as it is, its encoding and line endings too."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": FILE_PATH,
                "old_string": {"type": "string", "description": "The text to replace"},
                "new_string": {"type": "string", "description": "The text to put in its place"},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence (default false)"},
            },
            "required": ["file_path", "old_string", "new_string"],
        },
    ),
    edit_file,
    writes=named_path,
)
