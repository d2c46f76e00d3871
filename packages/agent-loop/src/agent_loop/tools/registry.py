"""Tools by name (section 3.8)."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from unified_llm import ImageData, Tool

from agent_loop.config import SessionConfig
from agent_loop.subagents import SubAgents

ToolDefinition = Tool
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool answers: text, whether it reports a failure, and an image for models that can see."""

    text: str
    is_error: bool = False
    image: ImageData | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What an executor may want to know of the call beyond its arguments.

    `report_output` hands pieces of output to the event stream as they come; only async executors may call it.
    `subagents` are the session's.
    """

    call_id: str
    config: SessionConfig
    report_output: Callable[[str], None]
    subagents: SubAgents | None = None


Executor = Callable[..., str | ToolOutput | Awaitable[str | ToolOutput]]
"""`(arguments, environment)`, and `context`, a ToolContext, as a named parameter for those that declare it.

Async executors run in the event loop, others in a worker thread, where an abort doesn't wait for them. What an executor
raises becomes an error result.
"""


@dataclass(frozen=True)
class RegisteredTool:
    """A definition and what executes it.

    `writes` names the files that a call with these arguments modifies: of the calls in one round, those that modify
    the same file run one after the other, in the model's order. `reads` names the files whose content it shows.
    """

    definition: ToolDefinition
    executor: Executor
    writes: Callable[[Arguments], Iterable[str]] | None = field(default=None, kw_only=True)
    reads: Callable[[Arguments], Iterable[str]] | None = field(default=None, kw_only=True)

    @cached_property
    def wants_context(self) -> bool:
        """Whether the executor declares a parameter `context`."""
        return "context" in inspect.signature(self.executor).parameters

    @cached_property
    def _validator(self) -> Any:
        # jsonschema takes a tenth of a second to import, and a session may never call a tool.
        import jsonschema

        schema: Mapping[str, Any] = self.definition.parameters
        return jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema)

    def find_argument_errors(self, arguments: Arguments) -> list[str]:
        """What is wrong with the arguments, by the tool's schema, one sentence each."""
        return [f"{error.json_path}: {error.message}" for error in self._validator.iter_errors(arguments)]


class ToolRegistry:
    """Tools in the order of their registration. A later tool of the same name replaces the earlier one."""

    def __init__(self, tools: Sequence[RegisteredTool] = ()) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: RegisteredTool) -> None:
        """Add or replace a tool."""
        self._tools[tool.definition.name] = tool

    def unregister(self, name: str) -> None:
        """Remove a tool, if it is there."""
        self._tools.pop(name, None)

    def get(self, name: str) -> RegisteredTool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def definitions(self) -> list[ToolDefinition]:
        """What a model is told of the tools."""
        return [tool.definition for tool in self._tools.values()]

    def copy(self) -> "ToolRegistry":
        """The same tools, to be changed independently."""
        return ToolRegistry(list(self._tools.values()))

    def names(self) -> list[str]:
        """All names."""
        return list(self._tools)
