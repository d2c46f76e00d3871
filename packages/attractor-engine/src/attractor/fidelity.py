"""How much of what happened before reaches a stage's model (section 5.4)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attractor.graph import Edge, Graph, Node, to_text
from attractor.outcome import Outcome
from attractor.state.context import Context

MODES = ("full", "truncate", "compact", "summary:low", "summary:medium", "summary:high")
DEFAULT_MODE = "compact"

_NOT_CARRIED = ("internal.", "graph.", "parallel.", "current_node", "outcome", "preferred_label", "last_stage")


@dataclass(frozen=True, slots=True)
class _Depth:
    """How much a mode tells: the latest stages, the context values, and the characters of each text."""

    stages: int
    values: int
    characters: int


_DEPTHS = {
    "compact": _Depth(stages=20, values=20, characters=200),
    "summary:low": _Depth(stages=3, values=3, characters=200),
    "summary:medium": _Depth(stages=10, values=12, characters=400),
    "summary:high": _Depth(stages=25, values=40, characters=1000),
}


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
    parts = [f"Goal: {graph.goal}"] if graph.goal else []
    parts += ["Stages completed before this one:", *_describe_stages(stages, depth)]
    if results := context.get("parallel.results"):
        parts += ["Results of the branches:", *_describe_branches(results, context, depth)]
    values = _describe_values(context.snapshot(), depth)
    if values:
        parts += ["Context:", *values]
    return "\n".join(parts) + "\n\n"


def _describe_stages(stages: Mapping[str, Outcome], depth: _Depth) -> list[str]:
    recent = list(stages.items())[-depth.stages :]
    lines = [f"- ({len(stages) - len(recent)} earlier ones are left out)"] if len(recent) < len(stages) else []
    for node_id, outcome in recent:
        said = outcome.failure_reason or outcome.notes
        lines.append(
            f"- {node_id}: {outcome.word or outcome.status.value}" + (f" ({_cut(said, depth)})" if said else "")
        )
    return lines


def _describe_branches(results: Iterable[Mapping[str, Any]], context: Context, depth: _Depth) -> list[str]:
    best = context.get_string("parallel.fan_in.best_id")
    lines = []
    for result in results:
        said = result["failure_reason"] or result["response"] or result["notes"]
        chosen = ", chosen" if result["id"] == best else ""
        lines.append(f"- {result['id']}: {result['outcome']}{chosen}" + (f" ({_cut(said, depth)})" if said else ""))
    return lines


def _describe_values(values: Mapping[str, Any], depth: _Depth) -> list[str]:
    carried = [
        (key, value) for key, value in values.items() if not key.startswith(_NOT_CARRIED) and value not in ("", None)
    ]
    recent = carried[-depth.values :]
    lines = [f"- ({len(carried) - len(recent)} earlier values are left out)"] if len(recent) < len(carried) else []
    return lines + [f"- {key}: {_cut(_show(value), depth)}" for key, value in recent]


def _show(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, depth: _Depth) -> str:
    text = " ".join(text.split())
    return text if len(text) <= depth.characters else text[: depth.characters - 1] + "…"
