"""Tools for a model, as functions: what it is told of them, and one call of one of them."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import unified_llm
from agent_loop import RegisteredTool

from attractor.calls import call, describe_error
from attractor.prebuilt.errors import GraphError, InterruptError
from attractor.prebuilt.node_context import NodeContext


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool. `schema` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A function that the model may call.

    `fn`, async or not, is called with the model's arguments as keywords; a plain one runs in a worker thread. What it
    returns becomes text for the model: text as it is, JSON values as JSON, anything else by `str()`. One that has a
    parameter `ctx`, which `schema` doesn't name, gets a ToolCallContext there. Arguments that don't fit `schema`, a
    JSON Schema of an object, never reach it; without one it gets whatever the model sends.
    """

    name: str
    fn: Callable[..., Any]
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)

    def spec(self) -> ToolSpec:
        """Name, description and schema, for a model."""
        return ToolSpec(self.name, self.description, self.schema)

    @property
    def wants_context(self) -> bool:
        """Whether `fn` is given a ToolCallContext."""
        return "ctx" in inspect.signature(self.fn).parameters and "ctx" not in self.schema.get("properties", {})


@dataclass(slots=True, kw_only=True)
class ToolCallContext:
    """What a tool may know of the call that it executes, and how it asks a person. `call_id` is the model's."""

    tool: str
    call_id: str
    node: NodeContext
    answers: Sequence[Any] = ()
    asked: int = 0
    open: InterruptError | None = None

    def interrupt(self, payload: Any = None) -> Any:
        """Wait for a value from outside, such as an approval, which this returns. `payload` is any JSON.

        The run is suspended when the other calls of this turn have ended. Resumed with the value, it executes this
        tool again from its beginning, and no other.
        """
        number = self.asked
        self.asked += 1
        if number < len(self.answers):
            return self.answers[number]
        self.open = self.open or InterruptError(payload)
        raise self.open

    def emit(self, text: str) -> None:
        """Tell observers of the run what the tool is doing. Any thread may."""
        self.node.emit(text)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools by name, with what checks their arguments."""

    tools: Mapping[str, Tool]
    definitions: Mapping[str, RegisteredTool]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Toolbox":
        """Raises GraphError for two tools of one name, and what no model can be told."""
        found: dict[str, Tool] = {}
        definitions: dict[str, RegisteredTool] = {}
        for tool in tools:
            if tool.name in found:
                raise GraphError(f"there are two tools of the name {tool.name!r}; a model could not tell them apart")
            try:
                definition = to_definition(tool.spec())
            except ValueError as error:
                raise GraphError(f"tool {tool.name!r} can't be offered to a model: {error}") from error
            found[tool.name] = tool
            definitions[tool.name] = RegisteredTool(definition, tool.fn)
        return cls(found, definitions)

    @property
    def specs(self) -> list[ToolSpec]:
        """What a model is told."""
        return [tool.spec() for tool in self.tools.values()]

    def refuse(self, requested: Mapping[str, Any]) -> str:
        """Why the call can't be executed, for the model; empty if it can."""
        name = requested["name"]
        if name not in self.tools:
            return f"there is no tool {name!r}; there are: {', '.join(self.tools) or 'none'}"
        if problem := requested.get("problem"):
            return f"the arguments of {name} can't be read: {problem}"
        faults = self.definitions[name].find_argument_errors(requested["arguments"]) if self.tools[name].schema else []
        if faults:
            return f"the arguments of {name} don't fit its schema: {'; '.join(faults[:5])}"
        return ""

    async def execute(self, requested: Mapping[str, Any], ctx: NodeContext) -> dict[str, Any]:
        """What the call's record holds after an attempt: a `result`, or what the tool `asks` for."""
        if reason := self.refuse(requested):
            return {"result": _result(reason, is_error=True)}
        tool = self.tools[requested["name"]]
        visit = ToolCallContext(tool=tool.name, call_id=requested["id"], node=ctx, answers=requested.get("answers", ()))
        arguments = requested["arguments"] | ({"ctx": visit} if tool.wants_context else {})
        result = None
        try:
            result = _result(_to_text(await call(partial(tool.fn, **arguments))))
        except Exception as error:
            result = _result(describe_error(error), is_error=True)
        if visit.open is not None:
            # Also if the tool caught it: what it asked for is still missing.
            return {"asks": {"payload": visit.open.payload}}
        return {"result": result}


def to_definition(spec: ToolSpec) -> unified_llm.Tool:
    """The tool for a client; raises ValueError for a name or schema that providers would refuse."""
    schema = {"type": "object", "properties": {}, **spec.schema}
    return unified_llm.Tool(name=spec.name, description=spec.description, parameters=schema)


def _result(content: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": content, "is_error": is_error}


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
