"""Rules about the shape of the graph: where it begins and ends, and what can be reached."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from attractor.attributes import NODE_ATTRIBUTES
from attractor.diagnostics import Diagnostic, Severity
from attractor.graph import SHAPE_TO_TYPE
from attractor.validation.survey import Survey, listing

_MOST_COMPARISONS = 100_000


def start_node(survey: Survey) -> Iterator[Diagnostic]:
    starts = survey.graph.start_nodes
    if not starts:
        yield survey.about_graph(
            "start_node", Severity.ERROR, "the pipeline has no start node", fix="add: start [shape=Mdiamond]"
        )
    for extra in starts[1:]:
        yield survey.about_node(
            "start_node",
            Severity.ERROR,
            extra,
            f"{extra.id} is a second start node, beside {starts[0].id}",
            "shape",
            fix="give all but one of them another shape",
        )


def terminal_node(survey: Survey) -> Iterator[Diagnostic]:
    exits = survey.graph.exit_nodes
    if not exits:
        yield survey.about_graph(
            "terminal_node", Severity.ERROR, "the pipeline has no exit node", fix="add: exit [shape=Msquare]"
        )
    for extra in exits[1:]:
        yield survey.about_node(
            "terminal_node",
            Severity.ERROR,
            extra,
            f"{extra.id} is a second exit node, beside {exits[0].id}",
            "shape",
            fix="lead all ends to one exit",
        )
    if len(exits) == 1 and exits[0].type != "exit" and SHAPE_TO_TYPE.get(exits[0].shape) != "exit":
        yield survey.about_node(
            "terminal_node",
            Severity.INFO,
            exits[0],
            f"{exits[0].id} is taken for the exit because of its name",
            fix=f"write: {exits[0].id} [shape=Msquare]",
        )


def edge_target_exists(survey: Survey) -> Iterator[Diagnostic]:
    nodes = survey.graph.nodes
    for edge in survey.graph.edges:
        for end in (edge.source, edge.target):
            if end not in nodes:
                near = get_close_matches(end, nodes, 1)
                fix = f"did you mean {near[0]}?" if near else f"add a node {end}"
                yield survey.about_edge("edge_target_exists", Severity.ERROR, edge, f"there is no node {end}", fix=fix)


def start_no_incoming(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.start_nodes:
        for edge in survey.graph.incoming_edges(node.id):
            yield survey.about_edge(
                "start_no_incoming",
                Severity.ERROR,
                edge,
                f"an edge leads from {edge.source} back to the start",
                fix="lead it to the node behind the start",
            )


def exit_no_outgoing(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.exit_nodes:
        for edge in survey.graph.outgoing_edges(node.id):
            yield survey.about_edge(
                "exit_no_outgoing",
                Severity.ERROR,
                edge,
                f"an edge leads from the exit on to {edge.target}",
                fix="remove it: a run ends at the exit",
            )


def reachability(survey: Survey) -> Iterator[Diagnostic]:
    if survey.start is None:
        return
    for node in survey.graph.nodes.values():
        if node.id not in survey.reachable:
            yield survey.about_node(
                "reachability",
                Severity.ERROR,
                node,
                f"{node.id} can't be reached from {survey.start}",
                fix="add an edge to it, or remove it",
            )


def dead_end(survey: Survey) -> Iterator[Diagnostic]:
    for node_id in survey.graph.nodes:
        if _is_dead_end(survey, node_id):
            yield survey.about_node(
                "dead_end",
                Severity.WARNING,
                survey.graph.nodes[node_id],
                f"no edge leads on from {node_id}: a run that comes here ends before the exit",
                fix="add an edge to the exit",
            )


def _is_dead_end(survey: Survey, node_id: str) -> bool:
    return (
        not survey.ways[node_id]
        and node_id in survey.reachable
        and node_id not in survey.exits
        and node_id not in survey.branch_nodes
    )


def path_to_exit(survey: Survey) -> Iterator[Diagnostic]:
    if not survey.exits:
        return
    lost = [
        node_id
        for node_id in survey.graph.nodes
        if node_id in survey.reachable
        and node_id not in survey.homeward
        and node_id not in survey.branch_nodes
        and not _is_dead_end(survey, node_id)
    ]
    if lost:
        yield survey.about_node(
            "path_to_exit",
            Severity.WARNING,
            survey.graph.nodes[lost[0]],
            f"no way leads from {listing(lost)} to the exit",
            fix="add an edge that leads out",
        )


# A person has had enough at some time, and the patterns count their turns.
_BOUND_LOOPS = frozenset({"wait.human", "interrupt", "converge", "quality_gate"})


def unbounded_loop(survey: Survey) -> Iterator[Diagnostic]:
    graph = survey.graph
    if "max_node_visits" in graph.attrs:
        return
    for loop in _loops(survey.successors):
        bounded = any(
            "max_visits" in graph.nodes[node_id].attrs or survey.handlers[node_id] in _BOUND_LOOPS for node_id in loop
        )
        if not bounded and any(node_id in survey.reachable for node_id in loop):
            limit = NODE_ATTRIBUTES["max_visits"].default
            yield survey.about_node(
                "unbounded_loop",
                Severity.INFO,
                graph.nodes[loop[0]],
                f"only {limit} bounds the loop through {listing(loop)}",
                fix="set max_visits on a node of the loop, or max_node_visits on the graph",
            )


def _loops(successors: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Groups of nodes that lead to each other, each in the order of the graph (Tarjan, without recursion)."""
    order = {node_id: number for number, node_id in enumerate(successors)}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: dict[str, None] = {}
    for root in successors:
        if root in index:
            continue
        work = [(root, iter(successors[root]))]
        index[root] = low[root] = len(index)
        open_nodes[root] = None
        while work:
            node_id, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    open_nodes[target] = None
                    work.append((target, iter(successors[target])))
                    break
                if target in open_nodes:
                    low[node_id] = min(low[node_id], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node_id])
                if low[node_id] == index[node_id]:
                    group = []
                    while (member := open_nodes.popitem()[0]) != node_id:
                        group.append(member)
                    group.append(node_id)
                    if len(group) > 1 or node_id in successors[node_id]:
                        yield sorted(group, key=order.__getitem__)


def undeclared_node(survey: Survey) -> Iterator[Diagnostic]:
    """A node that nothing describes and whose name is nearly that of another: likely a slip."""
    described = [
        node.id for node in survey.graph.nodes.values() if node.attrs.keys() & {"prompt", "label", "shape", "type"}
    ]
    known = set(described)
    slips = [node for node in survey.graph.nodes.values() if node.id not in known]
    if len(slips) * len(described) > _MOST_COMPARISONS:
        return
    for node in slips:
        near = get_close_matches(node.id, described, 1, cutoff=0.85)
        if near:
            yield survey.about_node(
                "undeclared_node",
                Severity.WARNING,
                node,
                f"{node.id} is only named in edges",
                fix=f"did you mean {near[0]}?",
            )
