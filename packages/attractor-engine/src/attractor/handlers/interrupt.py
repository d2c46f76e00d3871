"""The interrupt handler: the run waits for a value from outside."""

from pathlib import Path
from typing import Any

from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.suspension import Suspend


class InterruptHandler:
    """Suspends the run until it is given a value, from whichever process, and resumed (see `give_value`).

    What it waits for is told as `{"prompt": ..., "values": {...}}`: the node's prompt, or its label, and the context
    values that `interrupt.show` names. The value comes into the context as `<node id>.value`; one that is the label of
    an edge takes that edge.
    """

    is_external = True

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if not context.run.given:
            names = [name.strip() for name in node.text("interrupt.show").split(",")]
            prompt = (node.prompt or node.label).replace("$goal", graph.goal)
            raise Suspend({"prompt": prompt, "values": {name: context.get(name) for name in names if name}})
        value: Any = context.run.given[0]
        return Outcome.success(
            f"Given: {node.id}",
            preferred_label=value if isinstance(value, str) else "",
            context_updates={f"{node.id}.value": value, "last_stage": node.id},
        )
