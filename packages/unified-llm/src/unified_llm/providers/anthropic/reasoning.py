"""`reasoning_effort` -> `thinking` and `output_config.effort` (section 3.9). Pure.

Newer models decide by themselves how long to think and take an effort; older ones take a budget of tokens.
"""

from typing import Any

from unified_llm.providers.anthropic.models import ModelFeatures
from unified_llm.spec.request import Request
from unified_llm.spec.response import Warning

_Json = dict[str, Any]

BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}
_SMALLEST_BUDGET = 1024


def plan_reasoning(
    body: _Json, request: Request, features: ModelFeatures, options: _Json, warnings: list[Warning]
) -> None:
    """Add `thinking` and `output_config.effort` to a body that has its messages and tools, in place.

    `options` is what the caller asks for in the API's own terms; it wins. Unless the request says how long an answer
    may be, `max_tokens` grows by what thinking takes.
    """
    room = request.max_tokens is None and "max_tokens" not in options
    if isinstance(explicit := options.get("thinking"), dict):
        if room:
            body["max_tokens"] += explicit.get("budget_tokens", 0)
        if features.effort and request.reasoning_effort not in (None, "none"):
            _set_effort(body, request.reasoning_effort)
        return
    effort = request.reasoning_effort
    if effort is None or effort == "none":
        return
    if features.effort:
        _set_effort(body, effort)
    budget = BUDGETS.get(effort, BUDGETS["medium"])
    if features.thinking == "adaptive":
        body["thinking"] = {"type": "adaptive"}
        body["max_tokens"] += budget if room else 0
    elif (obstacle := _obstacle(body, features, room)) is not None:
        message = f"reasoning_effort {effort!r} was left out: {obstacle}"
        warnings.append(Warning(message=message, code="reasoning_effort_dropped"))
    else:
        if room:
            body["max_tokens"] += budget
        else:
            # The budget is part of max_tokens, and something must be left for the answer.
            budget = max(_SMALLEST_BUDGET, min(budget, body["max_tokens"] // 2))
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _set_effort(body: _Json, effort: str | None) -> None:
    body.setdefault("output_config", {})["effort"] = "low" if effort == "minimal" else effort


def _obstacle(body: _Json, features: ModelFeatures, room: bool) -> str | None:
    """Why this request may not think with a budget, where the API would refuse it."""
    if features.thinking == "none":
        return f"{body['model']} doesn't reason"
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        return "with this model it excludes a forced tool call"
    if not room and body["max_tokens"] <= _SMALLEST_BUDGET:
        return f"it needs max_tokens above {_SMALLEST_BUDGET}"
    if _continues_without_thinking(body["messages"]):
        return "the tool calls that are being answered came without signed reasoning"
    return None


def _continues_without_thinking(turns: list[_Json]) -> bool:
    if len(turns) < 2 or turns[-1]["content"][0]["type"] != "tool_result":
        return False
    return turns[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")
