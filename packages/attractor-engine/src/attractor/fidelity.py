"""How much of what happened before reaches a stage's model (section 5.4)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from attractor.graph import Edge, Graph, Node, to_text
from attractor.outcome import Outcome
from attractor.state.context import Context

MODES = ("full", "truncate", "compact", "summary:low", "summary:medium", "summary:high")
DEFAULT_MODE = "compact"

_Item = TypeVar("_Item")
_NOT_CARRIED = ("internal.", "graph.", "parallel.", "current_node", "outcome", "preferred_label", "last_stage")


@dataclass(frozen=True, slots=True)
class _Depth:
    """How much a mode tells: the latest stages, the context values, the characters of each text, and of them all.

    A token has about four characters. The goal is told whole, and isn't counted.
    """

    stages: int
    values: int
    characters: int
    total: int


_DEPTHS = {
    "compact": _Depth(stages=20, values=20, characters=200, total=8_000),
    "summary:low": _Depth(stages=3, values=3, characters=200, total=2_400),
    "summary:medium": _Depth(stages=10, values=12, characters=400, total=6_000),
    "summary:high": _Depth(stages=25, values=40, characters=600, total=12_000),
}
_SHORTEST = 40
"""Characters that each branch may say, however many there are."""
_OVERHEAD = 200
"""Characters of headings, and of the lines that count what is left out."""


def resolve_fidelity(node: Node, graph: Graph, edge: Edge | None = None, *, resumed: bool = False) -> str:
    """The mode for a stage: of the incoming edge, else the node, else the graph, else compact.

    A mode that is none of the six counts as unset (lint warns). After a resumption `full` becomes `summary:high` for
    one stage, because the session that it would go on with is gone.
    """
    wanted = (edge.fidelity if edge else "", node.fidelity, graph.default_fidelity)
    mode = next((mode for mode in wanted if mode in MODES), DEFAULT_MODE)
    return "summary:high" if mode == "full" and resumed else mode


def resolve_thread(node: Node, graph: Graph, edge: Edge | None = None, previous_node: str = "") -> str:
    """The key under which stages with `full` fidelity share a session.

    Of the node, the edge, the graph, the class of the enclosing subgraph, or the previous node's id.
    """
    graph_thread = to_text(graph.attrs.get("thread_id"))
    derived = node.classes[0] if node.classes else ""
    return node.thread_id or (edge.thread_id if edge else "") or graph_thread or derived or previous_node or node.id


def write_preamble(mode: str, graph: Graph, context: Context) -> str:
    """Text that goes before the prompt, and a blank line; empty for `full` and when nothing happened yet."""
    stages = {
        node_id: outcome
        for node_id, outcome in context.run.node_outcomes.items()
        if node_id in graph.nodes and graph.handler_type(graph.nodes[node_id]) not in ("start", "exit", "conditional")
    }
    if mode == "full" or not stages:
        return ""
    if mode == "truncate":
        return f"Goal: {graph.goal}\nRun: {context.run.run_id}\n\n" if graph.goal else f"Run: {context.run.run_id}\n\n"
    depth = _DEPTHS[mode]
    room = depth.total - _OVERHEAD
    branches = _describe_branches(context.get("parallel.results") or (), context, depth, room // 3)
    room -= _count(branches)
    told = _describe_stages(stages, depth, room // 2)
    values = _describe_values(context.snapshot(), depth, room - _count(told))
    parts = [f"Goal: {graph.goal}"] if graph.goal else []
    parts += ["Stages completed before this one:", *told]
    if branches:
        parts += ["Results of the branches:", *branches]
    if values:
        parts += ["Context:", *values]
    return "\n".join(parts) + "\n\n"


def _describe_stages(stages: Mapping[str, Outcome], depth: _Depth, room: int) -> list[str]:
    def describe(stage: tuple[str, Outcome]) -> str:
        node_id, outcome = stage
        said = outcome.failure_reason or outcome.notes
        return f"- {node_id}: {outcome.word or outcome.status.value}" + _append(said, depth.characters)

    return _keep_latest(list(stages.items()), describe, depth.stages, room, "earlier ones")


def _describe_branches(results: Sequence[Mapping[str, Any]], context: Context, depth: _Depth, room: int) -> list[str]:
    best = context.get_string("parallel.fan_in.best_id")
    characters = min(depth.characters, max(room // max(len(results), 1) - _SHORTEST, _SHORTEST))

    def describe(result: Mapping[str, Any]) -> str:
        said = result["failure_reason"] or result["response"] or result["notes"]
        chosen = ", chosen" if result["id"] == best else ""
        return f"- {result['id']}: {result['outcome']}{chosen}" + _append(said, characters)

    return _keep_latest(results, describe, len(results), room, "others")


def _describe_values(values: Mapping[str, Any], depth: _Depth, room: int) -> list[str]:
    carried = [
        (key, value) for key, value in values.items() if not key.startswith(_NOT_CARRIED) and value not in ("", None)
    ]

    def describe(item: tuple[str, Any]) -> str:
        return f"- {item[0]}: {_cut(_show(item[1]), depth.characters)}"

    return _keep_latest(carried, describe, depth.values, room, "earlier values")


def _keep_latest(
    items: Sequence[_Item], describe: Callable[[_Item], str], most: int, room: int, others: str
) -> list[str]:
    """A line for each of the latest items, as far as `most` and `room` let, below one that counts the others."""
    kept: list[str] = []
    for item in reversed(items[-most:] if most else ()):
        line = describe(item)
        room -= len(line) + 1
        if kept and room < 0:
            break
        kept.append(line)
    left_out = len(items) - len(kept)
    return [f"- ({left_out} {others} are left out)"] * bool(left_out) + kept[::-1]


def _count(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _show(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _append(said: str, characters: int) -> str:
    return f" ({_cut(said, characters)})" if said else ""


def _cut(text: str, characters: int) -> str:
    # A text may have megabytes, of which the first few are looked at.
    shown = " ".join(text[: 10 * characters].split())
    is_whole = len(text) <= 10 * characters and len(shown) <= characters
    return shown if is_whole else shown[: characters - 1] + "…"
