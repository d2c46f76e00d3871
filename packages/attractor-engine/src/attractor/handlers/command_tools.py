"""Tools of a tool loop that are shell commands, as pipelines name them."""

import re
from dataclasses import dataclass
from typing import Any

COMMANDS = "tool_loop.commands"
_LINE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,63})[ \t]*(?:\((?P<parameters>[^()]*)\))?[ \t]*:[ \t]*(?P<command>.*\S)"
)
_PARAMETER = re.compile(r"[a-z][a-z0-9_]*")
_COMMENT = re.compile(r"(?:^|\s)#\s+(?P<text>[^\"'`$]*\S)$")
_TAKEN = ("goal",)


@dataclass(frozen=True, slots=True)
class CommandTool:
    """One tool. The shell finds each of `parameters` in the variable of that name: as data, never as shell text."""

    name: str
    parameters: tuple[str, ...]
    command: str
    description: str

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, all of which are text and needed."""
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in self.parameters},
            "required": list(self.parameters),
            "additionalProperties": False,
        }


def parse_command_tools(text: str) -> list[CommandTool]:
    """The tools in an attribute, a line each: `name(parameter, ...): command  # what it does`.

    A comment at the end of the command, as the shell has them, is what the model is told of the tool. Empty lines don't
    count. Raises ValueError, with the line's number.
    """
    tools: dict[str, CommandTool] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"line {number} is no tool: write name(parameter, ...): command  # what it does")
        name, command = found["name"], found["command"]
        if name in tools:
            raise ValueError(f"line {number} names the tool {name!r} again")
        told = _COMMENT.search(command)
        description = told["text"] if told else f"Runs: {command}"
        tools[name] = CommandTool(name, _read_parameters(found["parameters"] or "", number), command, description)
    return list(tools.values())


def _read_parameters(text: str, number: int) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    for name in names:
        if not _PARAMETER.fullmatch(name) or name in _TAKEN:
            raise ValueError(
                f"line {number}: {name!r} can't be a parameter; it becomes a variable of the shell, so write a word in "
                f"lower case other than {', '.join(_TAKEN)}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"line {number} names a parameter twice")
    return names
