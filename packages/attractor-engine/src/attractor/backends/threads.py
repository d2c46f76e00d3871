"""Which conversation a stage carries on (section 5.4)."""

from attractor.fidelity import resolve_fidelity, resolve_thread
from attractor.graph import Node
from attractor.state.context import Context


def find_thread(node: Node, context: Context) -> tuple[str, str] | None:
    """The run and thread whose conversation the stage carries on; None if it begins a fresh one."""
    facts = context.run
    if facts.graph is None:
        return None
    mode = resolve_fidelity(node, facts.graph, facts.incoming_edge, resumed=facts.resumed)
    if mode != "full":
        return None
    return facts.run_id, resolve_thread(node, facts.graph, facts.incoming_edge, facts.previous_node)
