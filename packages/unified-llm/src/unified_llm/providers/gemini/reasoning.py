"""`reasoning_effort` -> `thinkingConfig` (section 3.9). Pure.

Newer models take a level, those before them a budget of tokens.
"""

from typing import Any

from unified_llm.providers.gemini.models import features_of
from unified_llm.spec.request import Request
from unified_llm.spec.response import Warning

_Json = dict[str, Any]

BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS = {"none": "MINIMAL", "max": "HIGH"}
_SMALLEST_BUDGET = 128
_LARGEST_BUDGET = 24576


def plan_thinking(request: Request, warnings: list[Warning]) -> _Json | None:
    """The configuration that the request's effort asks for, with readable thoughts; None for the model's default."""
    effort = request.reasoning_effort
    if effort is None:
        return None
    features = features_of(request.model)
    if features.thinking == "none":
        if effort != "none":
            message = f"reasoning_effort {effort!r} was left out: {request.model} doesn't reason"
            warnings.append(Warning(message=message, code="reasoning_effort_dropped"))
        return None
    if features.thinking == "budget":
        budget = BUDGETS.get(effort, _LARGEST_BUDGET)
        if not features.thinking_off:
            budget = max(budget, _SMALLEST_BUDGET)
        return {"thinkingBudget": budget, "includeThoughts": budget > 0}
    level = _LEVELS.get(effort, effort.upper())
    if level == "MINIMAL" and not features.thinking_off:
        level = "LOW"
    return {"thinkingLevel": level, "includeThoughts": effort != "none"}
