"""`response_format` -> native structured output, a forced tool, or instructions (section 4.5). Pure."""

import json
from typing import Any

from unified_llm.providers.anthropic.models import ModelFeatures
from unified_llm.providers.anthropic.output_schema import close_schema
from unified_llm.spec.request import Request

_Json = dict[str, Any]

ANSWER_TOOL = "structured_output"


def plan_answer(body: _Json, request: Request, features: ModelFeatures, *, thinking: bool) -> str | None:
    """Shape the answer as `request.response_format` asks, in place, in a body that has its messages and tools.

    Native where model and schema allow; else a tool that the model must call, whose name is returned: its input is
    the answer. Where no tool can be forced (thinking is on, the caller forces a tool of its own, the answer is no
    object), the instructions say what is wanted.
    """
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return None
    schema = wanted.json_schema
    if schema is None:
        _instruct(body, "Answer with one JSON object and nothing else: no explanation and no code fence.")
        return None
    if features.structured_output and (closed := close_schema(schema)) is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": closed}}
        return None
    forced = body.get("tool_choice", {}).get("type") == "tool"
    if thinking or forced or schema.get("type") != "object":
        _instruct(
            body,
            "Answer with JSON that is valid against this JSON Schema and with nothing else, no explanation and no code "
            f"fence:\n{json.dumps(schema)}",
        )
        return None
    return _force_tool(body, schema)


def _force_tool(body: _Json, schema: _Json) -> str:
    others = [] if body.get("tool_choice", {}).get("type") == "none" else body.get("tools", [])
    name = ANSWER_TOOL
    while any(tool.get("name") == name for tool in others):
        name += "_"
    tool = {"name": name, "description": "Give the final answer in this form.", "input_schema": schema}
    body["tools"] = [*others, tool]
    # With tools of the caller's the model may call those first, and this one when it is done.
    body["tool_choice"] = {"type": "any"} if others else {"type": "tool", "name": name}
    return name


def _instruct(body: _Json, instruction: str) -> None:
    body["system"] = [*body.get("system", []), {"type": "text", "text": instruction}]
