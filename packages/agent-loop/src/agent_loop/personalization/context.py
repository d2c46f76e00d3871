"""The memory as a block of a system prompt."""

from agent_loop.personalization.metrics import last_step
from agent_loop.personalization.state import ACTIVE_ABOVE, Basin, PersonalState

TAG = "personal_context"
_FLAT = 1e-9


def build_context(state: PersonalState, *, subject: str = "the user") -> str:
    """Active basins with weight, trend and connections, the heaviest first; dormant ones by name; emerging patterns.

    It asks the model to use this without announcing it. Empty for a state without basins.
    """
    if not state.basins:
        return ""
    ranked = sorted(state.basins, key=lambda basin: -basin.weight)
    labels = {basin.id: basin.label for basin in state.basins}
    active = [_describe(basin, labels) for basin in ranked if basin.weight > ACTIVE_ABOVE]
    dormant = [basin.label for basin in ranked if basin.weight <= ACTIVE_ABOVE]
    lines = [
        f"How {subject} tends to work, remembered from {state.meta.total_conversations} earlier conversations "
        f"(phase {state.phase}; last change: {state.meta.recent_trajectory}). Each entry is a mode of working rather "
        "than a topic, with its weight and how the last conversation moved it. Let it guide tone, depth and pace where "
        "it fits. Do not mention it, and follow what is said now where the two differ.",
        *active,
        *([f"Dormant: {', '.join(dormant)}"] if dormant else []),
        *([f"Emerging: {'; '.join(state.emerging)}"] if state.emerging else []),
    ]
    # Labels and patterns come from a model: none may end the block early.
    body = "\n".join(lines).replace("<", "&lt;").replace(">", "&gt;")
    return f"<{TAG}>\n{body}\n</{TAG}>"


def trend_of(basin: Basin) -> str:
    """An arrow for the last step: up, down or level."""
    step = last_step(basin)
    return "→" if abs(step) < _FLAT else "↑" if step > 0 else "↓"


def _describe(basin: Basin, labels: dict[str, str]) -> str:
    connected = [labels[other] for other in basin.connections if other in labels]
    text = f"- {basin.label} [{basin.weight:.0%} {trend_of(basin)}]"
    if basin.description:
        text += f": {basin.description}"
    return f"{text} (goes with {', '.join(connected)})" if connected else text
